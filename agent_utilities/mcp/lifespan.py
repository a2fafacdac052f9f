"""Background work that lives exactly as long as its server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

logger = logging.getLogger("agent_utilities.lifespan")

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def with_background(run: Callable[[], Awaitable[None]], lifespan: Lifespan | None) -> Lifespan:
    """Return a lifespan that runs a job beside the author's own lifespan, whose result it keeps.

    The group is asyncio's: FastMCP tears lifespans down under a shield of its own, which anyio's groups, whose
    scopes must nest, can't straddle.

    Args:
        run: the job; it is cancelled when the server stops, and a failure is logged and does not stop the server.
        lifespan: the author's lifespan, or None.
    """

    async def guarded() -> None:
        try:
            await run()
        except Exception:
            logger.exception("background job failed; the server goes on without it")

    @asynccontextmanager
    async def combined(server: Any) -> AsyncIterator[Any]:
        async with asyncio.TaskGroup() as group:
            job = group.create_task(guarded())
            try:
                async with lifespan(server) if lifespan else nullcontext({}) as result:
                    yield result
            finally:
                job.cancel()

    return combined
