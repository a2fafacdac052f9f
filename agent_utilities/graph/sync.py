"""Bringing a server's tools into the graph: what changed, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from agent_utilities.graph import cypher
from agent_utilities.graph.base import DIGEST_CHARS, ServerState, Statement, ToolGraph, ToolRecord, server_digest
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
    held = await server_state(graph, server)
    state = ServerState(server, digest, now_ms, len(records))
    put_server = (cypher.PUT_SERVER, {"server_name": server, "digest": digest, "updated_at": now_ms})
    if held is not None and held.digest == digest and held.n_tools == len(records):
        await graph.write([put_server])
        return SyncReport(state, 0, 0)
    rows = await graph.read(cypher.TOOL_DIGESTS, {"server_name": server})
    gone = {tool[DIGEST_CHARS:]: tool[:DIGEST_CHARS] for row in rows for tool in row["tools"]}
    n_put = 0
    async for record in in_turns(records):
        n_put += gone.pop(record.name, None) != record.digest
    # The server's node is written first: that locks it, and two processes that sync at once follow one another. All
    # tools are put, changed or not, since the other may have written between the reading above and this transaction.
    await graph.write(_Puts(put_server, records))
    return SyncReport(state, n_put, len(gone))


class _Puts(Sequence[Statement]):
    """The statements that make a server's tools the given ones; each batch is made when its turn comes.

    All rows of 10,000 tools at once would be enough for a full garbage collection.

    Args:
        put_server: writes the server's node.
        records: the server's tools.
    """

    def __init__(self, put_server: Statement, records: Sequence[ToolRecord]) -> None:
        self._put_server, self._records = put_server, records

    def __len__(self) -> int:
        return 2 + -(-len(self._records) // _BATCH)

    @overload
    def __getitem__(self, index: int) -> Statement: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Statement]: ...

    def __getitem__(self, index: int | slice) -> Statement | Sequence[Statement]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        statement, given = self._put_server
        if index == 0:
            return statement, given
        if index == len(self) - 1:
            return cypher.DROP_OTHERS, given
        server, start = given["server_name"], (index - 1) * _BATCH
        rows = [record.row(server) for record in self._records[start : start + _BATCH]]
        return cypher.PUT_TOOLS, {"server_name": server, "digest": given["digest"], "rows": rows}


async def forget(graph: ToolGraph, server: str) -> None:
    """Remove a server and its tools, such as one that was renamed."""
    given = {"server_name": server}
    await graph.write([(cypher.FORGET_TOOLS, given), (cypher.FORGET_SERVER, given)])
