"""Updates of an upstream's resources, on one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import mcp_types
from mcp import MCPError

if TYPE_CHECKING:
    from agent_utilities.upstream.connections.session import UpstreamSession

_UNSUBSCRIBE_S = 5.0


async def updates_of(session: UpstreamSession, uri: str, heard: Callable[[], None]) -> asyncio.Task[None]:
    """Have an upstream tell of a resource's updates; return what runs for as long as it does, and may be cancelled.

    Raises:
        MCPError: it refuses.
    """
    is_told = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_told(session, uri, heard, is_told))
    try:
        await asyncio.wait([task, is_told], return_when=asyncio.FIRST_COMPLETED)
        if not is_told.done():
            await task
    except BaseException as error:
        task.cancel()
        if isinstance(error, RuntimeError):  # as the SDK has it where a stream ends before it began
            raise MCPError(mcp_types.INTERNAL_ERROR, f"no updates are told: {error}") from None
        raise
    return task


async def _told(session: UpstreamSession, uri: str, heard: Callable[[], None], is_told: asyncio.Future[None]) -> None:
    from mcp.client.subscriptions import listen

    session.told_of[uri] = heard
    try:
        if session.is_modern:
            async with listen(session, resource_subscriptions=[uri]) as updates:
                if uri not in (updates.honored.resource_subscriptions or ()):
                    raise MCPError(mcp_types.INVALID_PARAMS, f"no updates of {uri!r} are told")
                is_told.set_result(None)
                async for _ in updates:
                    pass  # heard with all else that it tells
        else:
            await session.ask("resources/subscribe", {"uri": uri})
            is_told.set_result(None)
            await session.ended.wait()
    finally:
        del session.told_of[uri]
        if is_told.done() and not session.is_modern and not session.ended.is_set():
            with suppress(MCPError, TimeoutError):
                async with asyncio.timeout(_UNSUBSCRIBE_S):
                    await session.ask("resources/unsubscribe", {"uri": uri})
