"""Work that a request starts and does not wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

logger = logging.getLogger("agent_utilities.wire")

MOST = 100
"""The most pieces of work that are under way at once."""


class Beside:
    """Does work beside requests while the server runs.

    Args:
        group: returns what owns the work; None where the server does not run.
    """

    def __init__(self, group: Callable[[], asyncio.TaskGroup | None]) -> None:
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> bool:
        """Start some work; a failure of it is logged, and fails nothing else.

        Returns:
            Whether it was started: not where a hundred others are under way, nor while the server stops.
        """
        group = self._group()
        guarded = _guarded(work)
        try:
            if group is None or len(self._tasks) >= MOST:
                raise RuntimeError("no room for more work")
            task = group.create_task(guarded)
        except RuntimeError:
            guarded.close()
            work.close()
            return False
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True


async def _guarded(work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except Exception:
        logger.exception("work beside a request failed; the server goes on without it")
