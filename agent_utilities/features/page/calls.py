"""Calls: the last ones, each with its words, what was listed, and where its time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from agent_utilities.features.page.panel import Panel, Reader, Table

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_COLUMNS = (
    "at", "caller", "tool", "server", "ok", "ms", "waited_ms", "upstream_ms", "words", "turn", "visible", "permitted",
    "revision", "trace", "told",
)  # fmt: skip


async def look(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the calls of which a reader may know, the last one first."""
    seen = request.state.tail.seen_by(reader, request)[::-1]
    wanted = {name: request.query_params.get(name, "") for name in ("server", "called", "caller", "failed")}
    rows = [[getattr(each, column) for column in _COLUMNS] for each in seen]
    return {
        "seen": seen,
        "last": max((each.n for each in seen), default=0),
        "wanted": wanted,
        "tables": {"calls": Table(_COLUMNS, rows)},
    }


PANEL = Panel("calls", "Calls", look)
