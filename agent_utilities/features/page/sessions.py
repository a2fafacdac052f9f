"""Sessions: which there are over HTTP, whose, and what is active in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from agent_utilities.features.capabilities.caller import KEY as CAPABILITIES
from agent_utilities.features.capabilities.caller import NO_CAPABILITIES
from agent_utilities.features.page.panel import Panel, Reader, Table
from agent_utilities.features.tool_search.session import kept
from agent_utilities.features.usage.feature import Usage
from agent_utilities.features.usage.trail import NOT_USED

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_COLUMNS = ("session", "whose", "active", "evicted", "capabilities", "turns", "called")


async def look(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the live sessions that began with a handshake: all to an operator, to others their own.

    Each is known by a name drawn at random, which nobody can use for anything.
    """
    rows = []
    for session, caller in host.sessions.live():
        person = caller.person if caller is not None else ("", "")
        if not reader.operates and (not all(person) or person != reader.caller.person):
            continue
        search, use = kept(session), session.get(Usage.name, NOT_USED)
        capabilities = session.get(CAPABILITIES, NO_CAPABILITIES).active
        whose = f"{person[1]} ({person[0]})" if person[1] else ""
        active = list(search.active.names)
        rows.append((session.id, whose, active, search.n_evicted, list(capabilities), use.n_turns, list(use.called)))
    return {"rows": rows, "tables": {"sessions": Table(_COLUMNS, rows)}}


PANEL = Panel("sessions", "Sessions", look)
