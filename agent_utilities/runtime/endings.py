"""Waits for tasks to end, whoever loses patience meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any


async def ended(task: asyncio.Task[Any], within_s: float) -> bool:
    """Wait until a task has ended, and say whether it has; a cancellation that comes meanwhile waits for it too.

    What the task brought is left with it.

    Args:
        task: it is not cancelled by this.
        within_s: seconds that are waited.

    Raises:
        CancelledError: the waiting task was cancelled; raised once the other has ended or the seconds have passed.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < until_s:
        try:
            await asyncio.wait([task], timeout=until_s - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    if task.done() and not task.cancelled():
        task.exception()  # taken, so that nobody is told of an exception that was never looked at
    if cancelled is not None:
        raise cancelled
    return task.done()
