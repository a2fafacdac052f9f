"""The graph's values: tool records, a server's state, and the protocol of a backend."""

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
"""Why the graph failed. A fixed set: callers see it, and it is a metrics label."""

_DIGEST_BYTES = 16


class GraphError(AgentUtilitiesError, OSError):
    """The graph failed; `detail` is for the operator's log, and may hold addresses, never secrets."""

    def __init__(self, cause: Cause, detail: object) -> None:
        self.cause: Cause = cause
        super().__init__(f"graph {cause}: {detail}")


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """The graph's record of a tool; no secrets, commands or environment.

    Args:
        name: unique on its server.
        title, description: empty where there is none.
        tags: as the author wrote them, sorted.
        digest: over all other fields.
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
        """Return the name of the node that provides it: the server's, or `gateway/upstream`, each `%`-encoded."""
        return server if self.upstream is None else f"{_encoded(server)}/{_encoded(self.upstream.name)}"

    @property
    def text(self) -> str:
        """The text that queries are matched with: name, description and tags in lower case, one on a line.

        No normalised query holds a line break, so none matches across two of them.
        """
        return "\n".join((self.name, self.description, *self.tags)).lower()


def _encoded(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def gateway_of(node: str) -> str | None:
    """Return the gateway in the name of an upstream's node; None for any other node."""
    gateway, _, upstream = node.partition("/")
    is_of_one = bool(gateway and upstream) and "/" not in upstream
    return gateway.replace("%2F", "/").replace("%25", "%") if is_of_one else None


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def on_one_line(text: str) -> str:
    """Normalize a text for the graph: NFC, on one line, without unpaired surrogates."""
    return " ".join(unicodedata.normalize("NFC", text).split()).encode("utf-8", "replace").decode()


def record_of(definition: Mapping[str, Any], upstream: ToolServer | None = None) -> ToolRecord:
    """Return the record of a tool as `tools/list` sends it, with the tags of `_meta.fastmcp`."""
    read_only = (definition.get("annotations") or {}).get("readOnlyHint") is True
    listed_tags = ((definition.get("_meta") or {}).get("fastmcp") or {}).get("tags") or []
    tags = tuple(sorted(on_one_line(str(tag)) for tag in listed_tags))
    name, title, description = str(definition["name"]), definition.get("title"), definition.get("description")
    title, description = on_one_line(title or ""), on_one_line(description or "")
    digest = _digest(json.dumps([name, title, description, tags, read_only]))
    return ToolRecord(name, title, description, tags, digest, read_only, upstream)


def server_digest(records: Sequence[ToolRecord]) -> str:
    """Return a digest of a tool set, independent of its order."""
    digests = {record.name: record.digest for record in records}
    return _digest("".join([f"{name}\0{digests[name]}\0" for name in sorted(digests)]))


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server's node; a gateway's together with those of its upstreams.

    Args:
        digest: of its tool set, as last written.
        updated_at_ms: UTC epoch milliseconds of the last refresh.
        nodes: of a gateway the node of its own tools, then those of its upstreams by name; empty for any other server.
    """

    name: str
    digest: str
    updated_at_ms: int
    n_tools: int
    nodes: tuple[ServerState, ...] = ()

    @classmethod
    def of(cls, name: str, nodes: Iterable[ServerState]) -> ServerState:
        """Combine a server's node and those of its upstreams: the oldest age, and a digest over all."""
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
        """Its nodes: itself, for a server that is no gateway."""
        return self.nodes or (self,)


Statement = tuple[str, dict[str, Any]]
"""Cypher, and its parameters."""


class Reads(Protocol):
    """The read side of a backend."""

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a read-only statement and return its rows, by column name."""
        ...


class ToolGraph(Reads, Protocol):
    """A backend. Every method may raise `GraphError`; none blocks the event loop."""

    backend: str

    async def open(self) -> None:
        """Connect, and apply the schema; does nothing where it is open."""

    async def close(self) -> None:
        """Close connections and files; does nothing where it is closed."""

    async def write(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction: all of them, or none.

        They are iterated lazily, so that few are in memory at a time, and more than once where a write is retried.
        """
