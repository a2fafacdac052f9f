"""Private names of the SDK's client, which upstreams are reached by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types
from mcp import ClientSession, MCPError

from agent_utilities.compat import Part

PARTS = (
    Part(
        "mcp.client._probe:negotiate_auto",
        "an upstream may speak either era: `Client` negotiates by this, and the session of an upstream is no `Client`",
        "`ClientSession` has a method for it",
        "upstreams are greeted as before 2026-07-28",
    ),
    Part(
        "mcp.client._input_required:run_input_required_driver",
        "upstreams request input in the middle of a call, which `Client` answers by this",
        "`ClientSession` has a method for it",
        "upstreams that ask in the middle of a call are answered with an error",
    ),
    Part(
        "mcp.client.session:ClientSession._absorb_tool_listing",
        "a call has headers of its arguments (`x-mcp-header`), which a session knows from its own `list_tools()` alone:"
        " that validates a page at once on the event loop, and a connection made for a call has listed nothing",
        "`ClientSession` takes known tools, or its lists take items one by one",
        "calls of upstreams bear no headers of their arguments",
    ),
    Part(
        "mcp.shared._httpx_utils:next_request_within_origin",
        "an error that names a redirect must agree with whether the SDK's transport follows it",
        "it is public, or a transport reports what it does not follow",
        "no redirect of an upstream is followed",
    ),
    Part(
        "mcp.shared._httpx_utils:sse_within_origin",
        "our own reader of the legacy transport bounds its messages",
        "it is public",
        "no redirect of an upstream's `/sse` is followed",
    ),
)


async def negotiate(session: ClientSession) -> None:
    """Negotiate a protocol version of either era with a session's server; `MCPError` where they have none in common."""
    try:
        from mcp.client._probe import negotiate_auto
    except ImportError:
        await session.initialize()
    else:
        await negotiate_auto(session)


async def answer_rounds(
    first: Any, *, ask: Callable[[str, Any], Awaitable[Any]], again: Callable[..., Awaitable[Any]], n_rounds: int
) -> Any:
    """Answer a call's input requests until it returns a result; `MCPError` after `n_rounds`."""
    try:
        from mcp.client._input_required import InputRequiredRoundsExceededError, run_input_required_driver
    except ImportError:
        raise MCPError(mcp_types.INTERNAL_ERROR, "the upstream asks, and the installed mcp can't answer") from None
    try:
        return await run_input_required_driver(first, dispatch=ask, retry=again, max_rounds=n_rounds)
    except InputRequiredRoundsExceededError:
        message = f"the upstream asked for input more than {n_rounds} times in one call"
        raise MCPError(mcp_types.INTERNAL_ERROR, message) from None


def learn_page(session: ClientSession, tools: Sequence[mcp_types.Tool]) -> None:
    """Register tools with a session that did not list them, so that it sends the headers that their schemas require."""
    absorb = getattr(session, "_absorb_tool_listing", None)
    if absorb is not None:
        absorb(mcp_types.ListToolsResult(tools=list(tools)), complete=False)


def is_followed(response: httpx2.Response) -> bool:
    """Whether the SDK's transport follows a redirect: within the origin alone."""
    try:
        from mcp.shared._httpx_utils import next_request_within_origin
    except ImportError:
        return False
    return next_request_within_origin(response) is not None


@asynccontextmanager
async def events_of(client: httpx2.AsyncClient, url: str) -> AsyncIterator[httpx2.EventSource]:
    """Open a stream of events of any length; follows redirects within the origin alone."""
    try:
        from mcp.shared._httpx_utils import sse_within_origin
    except ImportError:
        async with client.sse(url, follow_redirects=False, max_event_size=None) as events:
            yield events
    else:
        async with sse_within_origin(client, url, max_event_size=None) as events:
            yield events
