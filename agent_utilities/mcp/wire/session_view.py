"""The session that a request belongs to, where its protocol has sessions, and its own way to tell the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.mcp.fastmcp_internals import connection_of
from agent_utilities.mcp.search_session import SearchSession, SessionView
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.mcp.session_trail import SessionTrail
from agent_utilities.mcp.wire.bus import LIMIT_S

logger = logging.getLogger("agent_utilities.wire")

_SESSION = "agent-utilities/tool-search"
"""Where a connection's state has its active set, which ends with it."""
_TRAIL = "agent-utilities/usage"
"""Where it has what the session asked for and called."""
_CAPABILITIES = "agent-utilities/capabilities"
"""Where it has which capabilities are on."""

Began = Callable[[Connection, SessionCapabilities], None]
"""Told of each session that begins."""


def session_view(ctx: ServerRequestContext[Any, Any], began: Began) -> SessionView | None:
    """Return the session of a request; None where no request knows of another: in 2026-07-28, or without sessions.

    Args:
        ctx: the request's.
        began: told where this is the session's first request.
    """
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    if not connection_of(ctx).has_standalone_channel:  # `stateless_http`: it is there for this request alone
        return None
    state = connection_of(ctx).state
    if (session := state.get(_SESSION)) is None:
        session, state[_TRAIL] = state.setdefault(_SESSION, SearchSession()), SessionTrail()
        state[_CAPABILITIES] = SessionCapabilities()
        began(connection_of(ctx), state[_CAPABILITIES])

    async def tell_changed() -> None:
        """Tell on the call's own stream where it has one, so that it comes before the call's result."""
        has_stream = ctx.session.can_send_request  # an answer in JSON holds nothing but the answer
        related = ctx.request_id if has_stream else None
        try:
            async with asyncio.timeout(LIMIT_S):
                await ctx.session.send_notification(mcp_types.ToolListChangedNotification(), related)
        except TimeoutError:
            logger.warning("a client read no notice for %s s; its list changed all the same", LIMIT_S)

    return SessionView(session, tell_changed, state[_TRAIL], state[_CAPABILITIES])
