"""Writes a server's tools, and which of them are used together, to the graph: the changes, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, get_args

from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import ServerState, Statement, ToolGraph, ToolRecord, on_one_line, server_digest
from agent_utilities.runtime.waiting import in_turns

_BATCH = 100


@dataclass(frozen=True, slots=True)
class SyncReport:
    state: ServerState
    n_put: int
    n_dropped: int


async def server_state(graph: ToolGraph, server: str) -> ServerState | None:
    """Return a server's state in the graph, or None where it was never written."""
    rows = await graph.read(cypher.SERVER, {"server_name": server})
    return ServerState.of(server, map(_state, rows)) if rows else None


async def server_states(graph: ToolGraph) -> list[ServerState]:
    """Return the state of every server in the graph, by name; a gateway's includes its upstreams'."""
    nodes: dict[str, list[ServerState]] = {}
    for row in await graph.read(cypher.SERVERS, {}):
        nodes.setdefault(row["gateway"] or row["name"], []).append(_state(row))
    return [ServerState.of(server, nodes[server]) for server in sorted(nodes)]


def _state(row: dict[str, Any]) -> ServerState:
    return ServerState(row["name"], row["digest"] or "", int(row["updated_at"] or 0), int(row["n_tools"]))


@dataclass(frozen=True, slots=True)
class _Statements:
    """Statements that are made at each iteration: all rows of 10,000 tools at once cost a full garbage collection."""

    make: Callable[[], Iterator[Statement]]

    def __iter__(self) -> Iterator[Statement]:
        return self.make()


_Nodes = dict[ServerState, list[ToolRecord]]
"""A server's nodes as they should be, with the tools of each: its own, even without tools, then its upstreams'."""


def _nodes(server: str, records: Sequence[ToolRecord], now_ms: int) -> _Nodes:
    by_name: dict[str, list[ToolRecord]] = {server: []}
    for record in records:
        by_name.setdefault(record.node(server), []).append(record)
    return {ServerState(name, server_digest(own), now_ms, len(own)): own for name, own in by_name.items()}


async def sync(graph: ToolGraph, server: str, records: Sequence[ToolRecord], now_ms: int) -> SyncReport:
    """Replace a server's tools in the graph, in one transaction; an equal tool set only moves `updated_at`.

    Each upstream of a gateway has a node; one with an equal tool set is not written, and one without tools is dropped.

    Raises:
        GraphError: nothing was changed.
    """
    nodes = await asyncio.to_thread(_nodes, server, records, now_ms)
    before = await server_state(graph, server)
    held = {node.name: (node.digest, node.n_tools) for node in before.each_node} if before is not None else {}
    state = ServerState.of(server, nodes)
    changed = [node for node in nodes if held.get(node.name) != (node.digest, node.n_tools)]
    gone = sorted(held.keys() - {node.name for node in nodes})
    if not changed and not gone:
        await graph.write(_put_servers(nodes))
        return SyncReport(state, 0, 0)
    names = [*(node.name for node in changed), *gone]
    rows = await graph.read(cypher.TOOLS, {"server_names": names})
    digests = {name: old for row in rows for name, old in zip(row["names"], row["digests"], strict=True)}
    n_put = 0
    for node in changed:
        async for record in in_turns(nodes[node]):
            n_put += digests.pop(record.name, None) != record.digest
    await graph.write(_Statements(partial(_replacement, nodes, changed, gone)))
    return SyncReport(state, n_put, n_dropped=len(digests))


def _put_servers(nodes: _Nodes) -> list[Statement]:
    """Return the statements that write servers' nodes, that of the server itself first."""
    own, *upstreams = nodes
    now_ms = own.updated_at_ms
    statements = [(cypher.PUT_SERVER, {"server_name": own.name, "digest": own.digest, "updated_at": now_ms})]
    if upstreams:
        rows = [
            {"name": node.name, "digest": node.digest}
            | {key: on_one_line(getattr(upstream, key)) for key in ("title", "description")}
            for node in upstreams
            if (upstream := nodes[node][0].upstream) is not None
        ]
        statements.append((cypher.PUT_UPSTREAMS, {"server_name": own.name, "rows": rows, "updated_at": now_ms}))
    return statements


def _replacement(nodes: _Nodes, changed: Sequence[ServerState], gone: Sequence[str]) -> Iterator[Statement]:
    """Yield the statements that replace the tools of changed nodes, and drop upstreams that are gone.

    The server's node is written first: that locks it, so that syncs of two processes follow one another. All tools of a
    changed node are put, changed or not, since the other process may have written after this one read.
    """
    yield from _put_servers(nodes)
    for node in changed:
        of_node = {"server_name": node.name, "digest": node.digest}
        for start in range(0, node.n_tools, _BATCH):
            rows = [record.row(node.name) for record in nodes[node][start : start + _BATCH]]
            yield cypher.PUT_TOOLS, {**of_node, "rows": rows}
        yield cypher.DROP_OTHERS, of_node
    if gone:
        yield from _drop(gone)
    # Dropped tools took their edges along, and new ones may have some: without a digest the edges are put anew.
    yield cypher.PUT_EDGES_DIGEST, {"server_name": next(iter(nodes)).name, "digest": ""}


async def forget(graph: ToolGraph, server: str) -> None:
    """Remove a server and its tools, such as a renamed one; with a gateway its upstreams."""
    state = await server_state(graph, server)
    await graph.write(_drop([node.name for node in state.each_node] if state is not None else [server]))


def _drop(servers: Sequence[str]) -> list[Statement]:
    named = {"server_names": servers}
    return [(cypher.DROP_TOOLS_OF, named), (cypher.DROP_SERVERS, named)]


EdgeKind = Literal["used_with", "followed_by"]
"""`used_with`: sessions called both tools · `followed_by`: the second was the next one called after the first."""


@dataclass(frozen=True, slots=True, order=True)
class ToolEdge:
    """How often one tool of a server went with another: from `of` to `name`, for `used_with` either way.

    `scope` says whose calls count: everybody's where empty, else the subject's of this salted hash.
    """

    kind: EdgeKind
    of: str
    name: str
    n: int
    scope: str = ""


async def sync_edges(graph: ToolGraph, server: str, edges: Iterable[ToolEdge]) -> str:
    """Replace a server's edges in the graph, in one transaction; equal ones cost one read.

    Edges of tools that the graph does not hold are dropped; a sync of tools has the edges written anew. Of two
    processes that write at once, the last one's edges remain.

    Args:
        edges: in any order, one for each pair and kind; `used_with` has its names in alphabetical order. A gateway's
            edges connect tools of all its upstreams.

    Returns:
        A digest of the edges and of the tool sets that they connect.
    """
    rows = await graph.read(cypher.HELD, {"server_name": server})
    held = {row["name"]: row["edges_digest"] for row in rows}
    # With the tool sets read just now: if they change meanwhile, the next sync writes anew.
    wanted = await asyncio.to_thread(sorted, edges)
    digest = await asyncio.to_thread(_digest, wanted, {row["name"]: row["digest"] for row in rows})
    if held.get(server, digest) == digest:
        return digest
    keys: dict[str, str] = {}
    async for row in in_turns(await graph.read(cypher.TOOLS, {"server_names": list(held)})):
        keys |= zip(row["names"], row["keys"], strict=True)
    await graph.write(_Statements(partial(_edge_replacement, server, wanted, keys, digest)))
    return digest


def _digest(edges: Sequence[ToolEdge], toolsets: Mapping[str, str]) -> str:
    """Return a digest of edges, in their order, and of the tool sets that they connect."""
    digest = blake2b(repr(sorted(toolsets.items())).encode(), digest_size=16)
    for edge in edges:
        digest.update(repr((edge.kind, edge.of, edge.name, edge.n, edge.scope)).encode())
    return digest.hexdigest()


def _edge_replacement(
    server: str, edges: Sequence[ToolEdge], keys: Mapping[str, str], digest: str
) -> Iterator[Statement]:
    """Yield the statements that replace a server's edges; those of tools without a key are dropped.

    The server's node is written first: that locks it, so that two processes follow one another.
    """
    yield cypher.PUT_EDGES_DIGEST, {"server_name": server, "digest": digest}
    yield cypher.DROP_EDGES, {"server_name": server}
    for kind in get_args(EdgeKind):
        held = [edge for edge in edges if edge.kind == kind and {edge.of, edge.name} <= keys.keys()]
        for start in range(0, len(held), _BATCH):
            rows = [
                {"key": keys[edge.of], "to_key": keys[edge.name], "n": edge.n, "scope": edge.scope}
                for edge in held[start : start + _BATCH]
            ]
            yield cypher.PUT_EDGES % kind.upper(), {"rows": rows}
