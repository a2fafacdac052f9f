"""Bringing a server's tools into the graph: what changed, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent_utilities.graph import cypher
from agent_utilities.graph.base import ServerState, Statement, ToolGraph, ToolRecord, server_digest
from agent_utilities.runtime.turns import in_turns

_BATCH = 100


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
    digest = await asyncio.to_thread(server_digest, records)
    before = await server_state(graph, server)
    state = ServerState(server, digest, now_ms, len(records))
    put_server = (cypher.PUT_SERVER, {"server_name": server, "digest": digest, "updated_at": now_ms})
    if before is not None and before.digest == digest and before.n_tools == len(records):
        await graph.write([put_server])
        return SyncReport(state, 0, 0)
    rows = await graph.read(cypher.TOOL_DIGESTS, {"server_name": server})
    digests = {name: old for row in rows for name, old in zip(row["names"], row["digests"], strict=True)}
    n_put = 0
    async for record in in_turns(records):
        n_put += digests.pop(record.name, None) != record.digest
    # The server's node is written first: that locks it, and two processes that sync at once follow one another. All
    # tools are put, changed or not, since the other may have written between the reading above and this transaction.
    await graph.write(_Replacement(put_server, records))
    return SyncReport(state, n_put, n_dropped=len(digests))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """The statements that make a server's tools the given ones, each made when its turn comes.

    All rows of 10,000 tools at once would be enough for a full garbage collection.

    Args:
        put_server: writes the server's node.
        records: the server's tools.
    """

    put_server: Statement
    records: Sequence[ToolRecord]

    def __iter__(self) -> Iterator[Statement]:
        _, of_server = self.put_server
        server, digest = of_server["server_name"], of_server["digest"]
        yield self.put_server
        for start in range(0, len(self.records), _BATCH):
            rows = [record.row(server) for record in self.records[start : start + _BATCH]]
            yield cypher.PUT_TOOLS, {"server_name": server, "digest": digest, "rows": rows}
        yield cypher.DROP_OTHERS, {"server_name": server, "digest": digest}


async def forget(graph: ToolGraph, server: str) -> None:
    """Remove a server and its tools, such as one that was renamed."""
    of_server = {"server_name": server}
    await graph.write([(cypher.FORGET_TOOLS, of_server), (cypher.FORGET_SERVER, of_server)])
