"""What is private of the SDK's server, and used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import mcp_types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession

from agent_utilities.compat import Part

PARTS = (
    Part(
        "mcp.server.session:ServerSession._connection",
        "what is kept for a session and told to its client outlives the request that a session object is made for",
        "the request context bears its connection",
    ),
)
_LEVEL = "agent-utilities/log-level"
"""Where a connection's state has the least level that its client takes."""


def connection_of(session: ServerSession) -> Connection:
    """Return the connection that a request's session object is made for."""
    return session._connection


def keep_log_levels(sdk: Server[Any]) -> None:
    """Have a server know the levels that its clients ask for by `logging/setLevel`: FastMCP tells them nobody."""
    entry = sdk.get_request_handler("logging/setLevel")
    if entry is None:
        return

    async def set_level(ctx: ServerRequestContext[Any, Any], params: mcp_types.SetLevelRequestParams) -> Any:
        connection_of(ctx.session).state[_LEVEL] = params.level
        return await entry.handler(ctx, params)

    sdk.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, set_level)


def takes_log_message(
    session: ServerSession,
    meta: Mapping[str, Any],
    level: mcp_types.LoggingLevel,
    default: mcp_types.LoggingLevel | None,
) -> bool:
    """Whether a request's caller takes a log message of a level.

    Callers of 2026-07-28 say so in each request, others for their connection.

    Args:
        default: the least level for those who have not said it; all of them for None.
    """
    if level not in allowed_log_levels(session.protocol_version, cast(Any, meta)):
        return False
    order = get_args(mcp_types.LoggingLevel)
    least = connection_of(session).state.get(_LEVEL, default)
    return least is None or order.index(level) >= order.index(least)
