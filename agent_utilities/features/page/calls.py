"""Calls: the last ones, each with its words and where its time went; and the sessions that some were made in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request as HttpRequest

from agent_utilities.features.page.panel import Panel, Reader, Table
from agent_utilities.features.page.surface import asked, rows_of
from agent_utilities.features.tool_search.turns import kept
from agent_utilities.features.usage.feature import NOT_USED, Usage
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


_OF_SESSIONS = ("session", "whose", "active", "evicted", "capabilities", "turns", "called")


async def look_at_sessions(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the live sessions that began with a handshake: all to an operator, to others their own.

    Of their tools others see those that are permitted to them by now, whatever was when a session had them.
    Each is known by a name drawn at random, which nobody can use for anything.
    """
    rows, known = [], await rows_of(host, reader, await asked(host, reader, request))
    permitted = {row.name for row in known if row.verdict != "denied"}

    def may_know(names: Iterable[str]) -> list[str]:
        return [name for name in names if reader.operates or name in permitted]

    for session, caller in host.sessions.live():
        person = caller.person if caller is not None else ("", "")
        if not reader.operates and (not all(person) or person != reader.caller.person):
            continue
        search, use = kept(session), session.get(Usage.name, NOT_USED)
        capabilities = getattr(session.get("capabilities", None), "active", ())
        whose = f"{person[1]} ({person[0]})" if person[1] else ""
        active, called = may_know(search.active.names), may_know(use.called)
        rows.append((session.id, whose, active, search.n_evicted, list(capabilities), use.n_turns, called))
    return {"rows": rows, "tables": {"sessions": Table(_OF_SESSIONS, rows)}}


SESSIONS = Panel("sessions", "Sessions", look_at_sessions)
