"""Work beside requests, which lives no longer than its server."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

logger = logging.getLogger("agent_utilities.lifespan")

Job = Callable[[], Awaitable[None]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def with_background(jobs: Callable[[], Sequence[Job]], lifespan: Lifespan | None) -> Lifespan:
    """Return a lifespan that runs jobs beside the author's own lifespan, whose result it keeps.

    The group is asyncio's: FastMCP tears lifespans down under a shield of its own, which anyio's groups, whose scopes
    must nest, can't straddle.

    Args:
        jobs: returns what to run, when the lifespan is entered: until the server stops, then each is cancelled; a
            failure is logged and does not stop the server.
    """

    @asynccontextmanager
    async def combined(server: Any) -> AsyncIterator[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guarded(job())) for job in jobs()]
            try:
                async with lifespan(server) if lifespan else nullcontext({}) as result:
                    yield result
            finally:
                for task in tasks:
                    task.cancel()

    return combined


async def guarded(work: Awaitable[None]) -> None:
    """Do some work; a failure of it is logged, and fails nothing else."""
    try:
        await work
    except Exception:
        logger.exception("work beside requests failed; the server goes on without it")


def calm_collector() -> None:
    """Have garbage collected in short pieces from now on, once a process that serves has loaded what it needs.

    A full collection walks every object there is and holds the event loop for tens of milliseconds (law L7). What is
    there now stays, and need not be walked again; of what comes, old objects are walked a tenth as often.
    """
    gc.freeze()
    gc.set_threshold(700, 10, 100)
