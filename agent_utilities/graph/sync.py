"""Bringing a server's tools into the graph: what changed, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_utilities.graph import cypher
from agent_utilities.graph.base import ServerState, ToolGraph, ToolRecord, server_digest

_BATCH = 250


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a refresh did.

    Args:
        state: the server's state after it.
        n_put: tools added or changed.
        n_dropped: tools that were gone.
    """

    state: ServerState
    n_put: int
    n_dropped: int


async def server_state(graph: ToolGraph, server: str) -> ServerState | None:
    """Return a server's state in the graph, or None where it was never brought in."""
    rows = await graph.read(cypher.SERVER, {"server_name": server})
    return _state(rows[0]) if rows else None


async def server_states(graph: ToolGraph) -> list[ServerState]:
    """Return the state of every server in the graph, by name."""
    return [_state(row) for row in await graph.read(cypher.SERVERS, {})]


def _state(row: dict[str, Any]) -> ServerState:
    return ServerState(row["name"], row["digest"] or "", int(row["updated_at"] or 0), int(row["n_tools"]))


async def sync(graph: ToolGraph, server: str, records: Sequence[ToolRecord], now_ms: int) -> SyncReport:
    """Make the graph hold exactly a server's tools, in one transaction; an equal tool set only moves `updated_at`.

    Args:
        graph: an open backend.
        server: the server's name.
        records: its live tools, each name once.
        now_ms: UTC epoch milliseconds.

    Raises:
        GraphError: nothing was changed.
    """
    digest = server_digest(records)
    held = await server_state(graph, server)
    state = ServerState(server, digest, now_ms, len(records))
    put_server = (cypher.PUT_SERVER, {"server_name": server, "digest": digest, "updated_at": now_ms})
    if held is not None and held.digest == digest and held.n_tools == len(records):
        await graph.write([put_server])
        return SyncReport(state, 0, 0)
    digests = {row["name"]: row["digest"] for row in await graph.read(cypher.TOOL_DIGESTS, {"server_name": server})}
    n_put = sum(digests.get(record.name) != record.digest for record in records)
    names = [record.name for record in records]
    # The server's node is written first: that locks it, and two processes that sync at once follow one another. All
    # tools are put, changed or not, since the other may have written between the reading above and this transaction.
    statements: list[tuple[str, dict[str, Any]]] = [put_server]
    statements.append((cypher.KEEP_TOOLS, {"server_name": server, "names": names or [""]}))
    for start in range(0, len(records), _BATCH):
        rows = [record.row(server) for record in records[start : start + _BATCH]]
        statements.append((cypher.PUT_TOOLS, {"server_name": server, "rows": rows}))
    await graph.write(statements)
    return SyncReport(state, n_put, len(digests.keys() - set(names)))


async def forget(graph: ToolGraph, server: str) -> None:
    """Remove a server and its tools, such as one that was renamed."""
    given = {"server_name": server}
    await graph.write([(cypher.FORGET_TOOLS, given), (cypher.FORGET_SERVER, given)])
