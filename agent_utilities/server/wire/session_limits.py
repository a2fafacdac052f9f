"""How many sessions and streams callers may have open over HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from agent_utilities.seam.caller import address_of, caller_of
from agent_utilities.seam.feature import BoundError
from agent_utilities.selection.profiles import NO_PROFILE

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

N_ALL, N_EACH, N_IDLERS = 10_000, 1_000, 100
"""How many sessions and streams there are at most, as many as the SDK has; how many of them one person has, or one
address from which nobody logs in; and all together who log in and may use nothing."""


def place_for(host: AgentServer, scope: Scope) -> ExitStack | Response:
    """Return a place for a session or stream, released at its end; a refusal where a verified caller has none left."""
    held, caller = host.sessions.held, caller_of(Request(scope))
    holder, n_most, whose = address_of(scope), N_EACH, "callers from your address have"
    if caller is not None and (known := caller.subject or caller.client or caller.token):
        holder, whose = f"{caller.issuer} {known}", "you have"
        try:
            grant = host.callers.grant_of(caller)
            may_nothing = grant is not None and NO_PROFILE in grant.profiles
        except BoundError:
            may_nothing = True
        if may_nothing:
            holder, n_most, whose = NO_PROFILE, N_IDLERS, "callers who may use nothing, as you, have"
    status = 429 if held[holder] >= n_most else 503 if held.total() >= N_ALL else 0
    if status:
        n, who = (n_most, whose) if status == 429 else (N_ALL, "all callers have")
        hint = (
            "end those that are done with (DELETE with their Mcp-Session-Id), or wait: one unused for 30 minutes ends"
        )
        text = f"{who} {n} sessions and streams open here, the most there may be: {hint}"
        error = {"error": "too_many", "error_description": text, "code": -32000}
        return JSONResponse(error, status, {"retry-after": "60"})
    place = ExitStack()
    place.callback(lambda: held.update({holder: -1}) if held[holder] > 1 else held.pop(holder))
    held[holder] += 1
    return place
