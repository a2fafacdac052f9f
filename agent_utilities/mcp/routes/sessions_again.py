"""Sessions that another replica opened, gone on with here; it touches private names of the SDK, as told below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import mcp_types
from fastmcp.server.http import StreamableHTTPASGIApp
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from agent_utilities.mcp.sessions import ENDED, SessionRecord
from agent_utilities.mcp.wire.request import place_for

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_UNKNOWN_NOW = PlainTextResponse(
    "this session was opened at another replica, and what replicas share gives no answer now; try again\n",
    503,
    {"retry-after": "1"},
)


def go_on_with_sessions(app: Any, host: AgentServer) -> None:
    """Have an application go on with sessions of other replicas: private methods of `StreamableHTTPSessionManager`.

    Why: it answers an id that it does not know with 404, and no client begins anew by itself.
    Ends when: the SDK asks somebody about sessions that it does not know.

    Args:
        app: whose lifespan has been entered.
        host: the server that it is of, whose replicas share sessions.
    """
    manager, share = _manager_of(app), host.sessions.share
    if manager is None or share is None:
        return
    handle, share.here = manager._handle_stateful_request, manager._server_instances

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
        elif record is not None and (refusal := await _open_again(manager, host, scope, session_id, record)):
            return await refusal(scope, receive, send)

        async def forgetting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                await share.forget(session_id)  # before its client is told, whose next request may go elsewhere
            await send(message)

        await handle(scope, receive, forgetting if request.method == "DELETE" else send)

    manager._handle_stateful_request = handling


def _manager_of(app: Any) -> Any:
    for route in app.routes:
        found = getattr(route, "app", None)
        while found is not None and not isinstance(found, StreamableHTTPASGIApp):
            found = getattr(found, "app", None)
        if found is not None:
            return found.session_manager
    return None


async def _open_again(
    manager: Any, host: AgentServer, scope: Scope, session_id: str, record: SessionRecord
) -> Response | None:
    """Begin a session as the SDK does after a handshake; return a refusal where its caller has too many open here."""
    user = scope.get("user")
    who = authorization_context(user) if isinstance(user, AuthenticatedUser) else None
    # Only who opened it may; another request may have opened it here meanwhile.
    if tuple(who.values() if who else ()) != record.owner or session_id in manager._server_instances:
        return None
    if isinstance(place := place_for(host, scope), Response):
        return place
    transport = StreamableHTTPServerTransport(
        mcp_session_id=session_id,
        is_json_response_enabled=manager.json_response,
        event_store=manager.event_store,
        security_settings=manager.security_settings,
        retry_interval=manager.retry_interval,
        idle_timeout=manager.session_idle_timeout,
    )
    if who is not None:
        manager._session_owners[session_id] = who
    manager._server_instances[session_id] = transport

    async def run(*, task_status: Any) -> None:
        async with transport.connect() as (read, write):
            task_status.started()
            dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                read, write, inline_methods=frozenset({"initialize"})
            )
            connection = Connection.for_loop(dispatcher, session_id=session_id, protocol_version_hint=record.version)
            connection.client_params = mcp_types.InitializeRequestParams.model_validate(record.params)
            connection.initialized.set()
            connection.exit_stack.enter_context(place)
            try:
                with transport.idle_scope or anyio.CancelScope():
                    await serve_connection(
                        manager.app, dispatcher, connection=connection, lifespan_state=manager._lifespan_state
                    )
            finally:
                await manager._discard_session(session_id, transport)

    await manager._task_group.start(run)
    return None
