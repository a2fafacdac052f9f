"""Bringing into the graph which tools are used together: edges between a server's tools, made from a log of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from agent_utilities.graph import cypher
from agent_utilities.graph.base import Statement, ToolGraph
from agent_utilities.runtime.turns import in_turns

EdgeKind = Literal["used_with", "followed_by"]
"""`used_with`: sessions called both tools · `followed_by`: the second was the next one called after the first."""

_BATCH = 100
_PUT: dict[EdgeKind, str] = {"used_with": cypher.PUT_USED_WITH, "followed_by": cypher.PUT_FOLLOWED_BY}


@dataclass(frozen=True, slots=True, order=True)
class ToolEdge:
    """How often one tool of a server went with another.

    Args:
        kind: in which way.
        of: name of the tool that the edge starts at; of a `used_with` either of both.
        name: name of the tool that it leads to.
        n: how often.
        scope: whose calls were counted: everybody's where empty, else the subject's of this salted hash.
    """

    kind: EdgeKind
    of: str
    name: str
    n: int
    scope: str = ""


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """What a sync of edges did.

    Args:
        digest: of the edges that the graph was to hold, and of the tools that they go between.
        was_written: whether it held others before; False too where it does not hold the server at all.
    """

    digest: str
    was_written: bool


async def sync_edges(graph: ToolGraph, server: str, edges: Iterable[ToolEdge]) -> EdgeReport:
    """Make the graph hold exactly these edges of a server, in one transaction; equal ones cost one read.

    Edges of tools that the graph does not hold are left out: whoever brings other tools in has the edges written anew.
    Of two processes that write at once the last one's edges remain, all of them and no others.

    Args:
        graph: an open backend.
        server: the server's name; a gateway's edges go between tools of all its upstreams.
        edges: in any order; those between the same tools in the same way are one, and a tool is not used with itself.

    Raises:
        GraphError: nothing was changed.
    """
    rows = await graph.read(cypher.EDGES_DIGEST, {"server_name": server})
    held = {row["name"]: row["edges_digest"] for row in rows}
    # With the tool sets that it was read beside: where others come in meanwhile, the next sync writes anew.
    wanted, digest = await asyncio.to_thread(_unique, edges, {row["name"]: row["digest"] for row in rows})
    if held.get(server, digest) == digest:
        return EdgeReport(digest, was_written=False)
    keys: dict[str, str] = {}
    async for row in in_turns(await graph.read(cypher.TOOL_KEYS, {"server_name": server})):
        keys |= zip(row["names"], row["keys"], strict=True)
    await graph.write(_Replacement(server, wanted, keys, digest))
    return EdgeReport(digest, was_written=True)


def _unique(edges: Iterable[ToolEdge], toolsets: Mapping[str, str]) -> tuple[Sequence[ToolEdge], str]:
    """Return the edges in order, those between the same tools as one, and a digest of them and of the tool sets.

    Args:
        edges: in any order.
        toolsets: digests of the tools that they go between, by the name of the server's node.
    """
    counts: dict[tuple[EdgeKind, str, str, str], int] = {}
    for edge in edges:
        ends = sorted((edge.of, edge.name)) if edge.kind == "used_with" else (edge.of, edge.name)
        between = (edge.kind, ends[0], ends[1], edge.scope)
        if edge.kind == "followed_by" or edge.of != edge.name:
            counts[between] = counts.get(between, 0) + edge.n
    unique = sorted(ToolEdge(kind, of, name, n, scope) for (kind, of, name, scope), n in counts.items() if n > 0)
    digest = blake2b(repr(sorted(toolsets.items())).encode(), digest_size=16)
    for edge in unique:
        digest.update(repr((edge.kind, edge.of, edge.name, edge.n, edge.scope)).encode())
    return unique, digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Replacement:
    """The statements that make a server's edges the given ones, each made when its turn comes.

    The server's node is written first: that locks it, and two processes that write at once follow one another.

    Args:
        server: whose edges.
        edges: each once, in order.
        keys: of the tools that the graph holds, by name.
        digest: of all edges, those that are left out too, and of the tool sets.
    """

    server: str
    edges: Sequence[ToolEdge]
    keys: Mapping[str, str]
    digest: str

    def __iter__(self) -> Iterator[Statement]:
        yield cypher.PUT_EDGES_DIGEST, {"server_name": self.server, "digest": self.digest}
        yield cypher.DROP_EDGES, {"server_name": self.server}
        for kind, statement in _PUT.items():
            held = [edge for edge in self.edges if edge.kind == kind and {edge.of, edge.name} <= self.keys.keys()]
            for start in range(0, len(held), _BATCH):
                yield statement, {"rows": [self._row(edge) for edge in held[start : start + _BATCH]]}

    def _row(self, edge: ToolEdge) -> dict[str, str | int]:
        return {"key": self.keys[edge.of], "to_key": self.keys[edge.name], "n": edge.n, "scope": edge.scope}
