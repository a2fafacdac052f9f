"""What the graph room speaks of: tool records, a server's state, and the protocol of a backend."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, Protocol

from agent_utilities.catalog.document import ToolServer
from agent_utilities.errors import AgentUtilitiesError

Cause = Literal["being filled", "unreachable", "not authorized", "read-only", "too slow", "busy", "failed", "no space"]
"""Why the graph gave no answer. A fixed set of words: it is told to callers and is a metrics label."""

_DIGEST_BYTES = 16


class GraphError(AgentUtilitiesError, OSError):
    """The graph gave no answer.

    Args:
        cause: for callers and metrics.
        detail: for the operator's log; may hold addresses, never secrets.
    """

    def __init__(self, cause: Cause, detail: object) -> None:
        self.cause: Cause = cause
        super().__init__(f"graph {cause}: {detail}")


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One tool as the graph keeps it; no secrets, commands or environment.

    Args:
        name: the tool's name, unique on its server.
        title, description: for people and models; empty where there is none.
        tags: as the author wrote them, sorted.
        digest: changes when anything of the tool does.
        read_only: whether `readOnlyHint` is true.
        upstream: the server behind a gateway that it comes from; None for a server's own.
    """

    name: str
    title: str
    description: str
    tags: tuple[str, ...]
    digest: str
    read_only: bool
    upstream: ToolServer | None = None

    def row(self, server: str) -> dict[str, Any]:
        """Return the node's properties; its key is `server/name`, with `%` and `/` in the server's name encoded."""
        same = {name: getattr(self, name) for name in ("name", "title", "description", "digest", "read_only", "text")}
        return {"key": f"{_encoded(server)}/{self.name}", **same, "tags": list(self.tags), "kind": "tool"}

    def node(self, server: str) -> str:
        """Return the name of the node that provides it, as `server` lists it: the server's own or its upstream's.

        That is `gateway/upstream`, with `%` and `/` in each of the two encoded.
        """
        return server if self.upstream is None else f"{_encoded(server)}/{_encoded(self.upstream.name)}"

    @property
    def text(self) -> str:
        """What a query is looked for in: name, description and tags in lower case, each on a line of its own.

        No normalised query holds a line break, so none is found across two of them.
        """
        return "\n".join((self.name, self.description, *self.tags)).lower()


def _encoded(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def gateway_of(node: str) -> str | None:
    """Return the gateway whose upstream a node's name may be of, or None where it can be of none."""
    gateway, _, upstream = node.partition("/")
    is_of_one = bool(gateway and upstream) and "/" not in upstream
    return gateway.replace("%2F", "/").replace("%25", "%") if is_of_one else None


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def on_one_line(text: str) -> str:
    """Return a text as the graph keeps it: in NFC, on one line, without unpaired surrogates."""
    return " ".join(unicodedata.normalize("NFC", text).split()).encode("utf-8", "replace").decode()


def record_of(definition: Mapping[str, Any], upstream: ToolServer | None = None) -> ToolRecord:
    """Return the record of a tool as `tools/list` sends it: the same here as seen from afar.

    Its texts are in NFC, on one line, its tags those of `_meta.fastmcp`; its digest is over all that the graph keeps.
    """
    read_only = (definition.get("annotations") or {}).get("readOnlyHint") is True
    given_tags = ((definition.get("_meta") or {}).get("fastmcp") or {}).get("tags") or []
    tags = tuple(sorted(on_one_line(str(tag)) for tag in given_tags))
    name, title, description = str(definition["name"]), definition.get("title"), definition.get("description")
    title, description = on_one_line(title or ""), on_one_line(description or "")
    digest = _digest(json.dumps([name, title, description, tags, read_only]))
    return ToolRecord(name, title, description, tags, digest, read_only, upstream)


def server_digest(records: Sequence[ToolRecord]) -> str:
    """Return a digest of a whole tool set, each name once, whatever its order."""
    digests = {record.name: record.digest for record in records}
    return _digest("".join([f"{name}\0{digests[name]}\0" for name in sorted(digests)]))


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server's node; a gateway's together with those of its upstreams.

    Args:
        name: the server's name, unique in the graph.
        digest: of its tool set, as last written.
        updated_at_ms: UTC epoch milliseconds of the last refresh.
        n_tools: how many tools it provides.
        nodes: of a gateway the node of its own tools, then those of its upstreams by name; empty for any other server.
    """

    name: str
    digest: str
    updated_at_ms: int
    n_tools: int
    nodes: tuple[ServerState, ...] = ()

    @classmethod
    def of(cls, name: str, nodes: Iterable[ServerState]) -> ServerState:
        """Return the state of a server from its node and those of its upstreams, in any order.

        A gateway is as old as the oldest of them, and its digest changes with any of theirs.
        """
        by_name = {node.name: node for node in nodes}
        own = by_name.pop(name, None) or cls(name, "", 0, 0)
        if not by_name:
            return own
        ordered = (own, *(by_name[node] for node in sorted(by_name)))
        digest = _digest("".join([f"{node.name}\0{node.digest}\0" for node in ordered]))
        oldest_ms = min(node.updated_at_ms for node in ordered)
        return cls(name, digest, oldest_ms, sum(node.n_tools for node in ordered), ordered)

    @property
    def each_node(self) -> tuple[ServerState, ...]:
        """The nodes that it is made of: itself, for a server that is no gateway."""
        return self.nodes or (self,)


Statement = tuple[str, dict[str, Any]]
"""Cypher, and its parameters."""


class Reads(Protocol):
    """What can be asked."""

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a read-only statement and return its rows, by column name."""
        ...


class ToolGraph(Reads, Protocol):
    """A backend. Every method may raise `GraphError`; none blocks the event loop."""

    backend: str

    async def open(self) -> None:
        """Connect, and apply the schema; does nothing where it is open."""

    async def close(self) -> None:
        """Let go of connections and files; does nothing where it is closed."""

    async def write(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction: all of them, or none.

        They are taken when their turn comes, so that a sequence which makes them on the way holds few at a time, and
        may be iterated more than once: whoever writes may try again.
        """
