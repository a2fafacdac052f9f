"""Private names of the SDK's server, and what is built on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, cast, get_args

import anyio
import mcp_types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_connection
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.compat import Part

PARTS = (
    Part(
        "mcp.server.session:ServerSession._connection",
        "a session's state, and notifications to its client, outlive the request that a session object is made for",
        "the request context has its connection",
    ),
)
_MANAGER = "mcp.server.streamable_http_manager:StreamableHTTPSessionManager"
SESSION_PARTS = tuple(
    Part(
        f"{_MANAGER}.{name}",
        "the manager answers the id of an unknown session with 404, and no client begins anew by itself",
        "the SDK has a hook for unknown sessions",
        "sessions that another replica opened begin anew here",
    )
    for name in (
        "_handle_stateful_request",
        "_server_instances",
        "_session_owners",
        "_lifespan_state",
        "_task_group",
        "_discard_session",
    )
)
_LEVELS = get_args(mcp_types.LoggingLevel)
_LEVEL = "agent-utilities/log-level"
"""The key of a connection's state for its client's least log level."""


def connection_of(session: ServerSession) -> Connection:
    return session._connection


def keep_log_levels(sdk: Server[Any]) -> None:
    """Remember each client's `logging/setLevel`, which FastMCP does not expose."""
    entry = sdk.get_request_handler("logging/setLevel")
    if entry is None:
        return

    async def set_level(ctx: ServerRequestContext[Any, Any], params: mcp_types.SetLevelRequestParams) -> Any:
        connection_of(ctx.session).state[_LEVEL] = params.level
        return await entry.handler(ctx, params)

    sdk.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, set_level)


def least_log_level(
    session: ServerSession, meta: Mapping[str, Any], default: mcp_types.LoggingLevel | None
) -> mcp_types.LoggingLevel | None:
    """Return the caller's least log level, of the request (2026-07-28) or its connection; None for no log messages."""
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        level = meta.get(mcp_types.LOG_LEVEL_META_KEY)
        return level if level in _LEVELS else None
    return cast("mcp_types.LoggingLevel | None", connection_of(session).state.get(_LEVEL, default))


def takes_log_message(
    session: ServerSession, meta: Mapping[str, Any], level: object, least: mcp_types.LoggingLevel | None
) -> bool:
    """Whether a request's caller accepts a log message of a level; `least` None accepts each."""
    known: mcp_types.LoggingLevel = level if level in _LEVELS else "info"  # type: ignore[assignment]  # some say `warn`
    if known not in allowed_log_levels(session.protocol_version, cast(Any, meta)):
        return False
    return least is None or _LEVELS.index(known) >= _LEVELS.index(least)


class OpenSessions:
    """The open sessions of the handshake's era in a running `StreamableHTTPSessionManager`."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.handle: Callable[..., Awaitable[None]] = manager._handle_stateful_request
        """Serves a request of a session, or one that opens a session."""
        self.by_id: MutableMapping[str, StreamableHTTPServerTransport] = manager._server_instances

    def handle_by(self, handle: Callable[..., Awaitable[None]]) -> None:
        """Replace what serves sessions' requests."""
        self._manager._handle_stateful_request = handle

    async def open(
        self, session_id: str, who: Any, version: str, params: Mapping[str, Any], place: AbstractContextManager[object]
    ) -> None:
        """Open a session as the SDK does after a handshake, with the `params` of its `initialize`.

        Args:
            who: its owner, as the SDK identifies callers; None for nobody.
            place: a context that is held while it is open.
        """
        manager = self._manager
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
        self.by_id[session_id] = transport

        async def run(*, task_status: Any) -> None:
            async with transport.connect() as (read, write):
                task_status.started()
                dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                    read, write, inline_methods=frozenset({"initialize"})
                )
                connection = Connection.for_loop(dispatcher, session_id=session_id, protocol_version_hint=version)
                connection.client_params = mcp_types.InitializeRequestParams.model_validate(params)
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
