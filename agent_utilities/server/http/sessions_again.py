"""Resumes sessions that another replica opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastmcp.server.http import StreamableHTTPASGIApp
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from agent_utilities.compat import left_out
from agent_utilities.compat.sdk_server import SESSION_PARTS, OpenSessions
from agent_utilities.seam.session import ENDED, SessionRecord
from agent_utilities.server.wire.session_limits import place_for

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

_UNKNOWN_NOW = PlainTextResponse(
    "this session was opened at another replica, and what replicas share gives no answer now; try again\n",
    503,
    {"retry-after": "1"},
)


def go_on_with_sessions(app: Any, host: AgentServer) -> None:
    """Have an application resume sessions of other replicas: the SDK answers an id that it does not know with 404,
    and no client begins anew by itself.
    """
    manager, share = _manager_of(app), host.sessions.share
    if manager is None or share is None or left_out(SESSION_PARTS):
        return
    sessions = OpenSessions(manager)
    handle, share.here = sessions.handle, sessions.by_id

    async def handling(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        session_id = request.headers.get(MCP_SESSION_ID_HEADER, "")
        is_known = session_id in share.here
        try:
            record = await share.record_of(session_id, is_known=is_known) if session_id else None
        except OSError:  # not a 404, after which a client gives up a session that another replica has
            return await _UNKNOWN_NOW(scope, receive, send)
        if record is ENDED:
            if session_id in share.here:
                await share.here[session_id].terminate()
        elif record is not None and (refusal := await _open_again(sessions, host, scope, session_id, record)):
            return await refusal(scope, receive, send)

        async def forgetting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                await share.forget(session_id)  # before it is answered: the client's next request may go elsewhere
            await send(message)

        await handle(scope, receive, forgetting if request.method == "DELETE" else send)

    sessions.handle_by(handling)


def _manager_of(app: Any) -> Any:
    for route in app.routes:
        inner = getattr(route, "app", None)
        while inner is not None and not isinstance(inner, StreamableHTTPASGIApp):
            inner = getattr(inner, "app", None)
        if inner is not None:
            return inner.session_manager
    return None


async def _open_again(
    sessions: OpenSessions, host: AgentServer, scope: Scope, session_id: str, record: SessionRecord
) -> Response | None:
    """Begin a session as the SDK does after a handshake; return a refusal where its caller has too many open here."""
    user = scope.get("user")
    who = authorization_context(user) if isinstance(user, AuthenticatedUser) else None
    # Only who opened it may; another request may have opened it here meanwhile.
    if tuple(who.values() if who else ()) != record.owner or session_id in sessions.by_id:
        return None
    if isinstance(place := place_for(host, scope), Response):
        return place
    await sessions.open(session_id, who, record.version, record.params, place)
    return None
