"""Logs for tests: events, and what a file holds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from agent_utilities.usage.log import UsageLog
from agent_utilities.usage.model import Call, UsageBounds

NOW_MS = 1_780_000_000_000
"""In the middle of 2026."""
BOUNDS = UsageBounds(days=3650, free_bytes=0)


def call(number: int = 0, tool: str = "ping", **fields: Any) -> Call:
    """Return a call that its number tells from others."""
    return Call(**{"at_ms": NOW_MS, "server": "demo", "tool": tool, "turn": number, "session": "one", **fields})


def rows(path: Path, statement: str = "SELECT turn FROM calls ORDER BY id") -> list[tuple[Any, ...]]:
    """Return what a file holds, as another program sees it."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def turns(path: Path, where: str = "1") -> list[int]:
    """Return the numbers of the calls in a file, in the order in which they were written."""
    return [number for (number,) in rows(path, f"SELECT turn FROM calls WHERE {where} ORDER BY id")]


def bytes_of(path: Path) -> bytes:
    """Return all that is on the disk of a log."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


def put(path: Path, content: bytes) -> None:
    """Put content where a log would be."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def quick_log(path: Path, bounds: UsageBounds = BOUNDS, **pace: float) -> UsageLog:
    """Return a log that is written at a pace, a quick one where nothing else is said."""
    log = UsageLog(path, bounds)
    for name, value in {"batch_s": 0.02, "pause_s": 0.02, **pace}.items():
        setattr(log, name, value)
    return log


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not is_so():  # noqa: ASYNC110 - the log has no event for it
        await asyncio.sleep(0.005)


async def flushed(log: UsageLog) -> None:
    """Wait until all that was recorded so far is written, or lost for good."""
    n_recorded = log.n_recorded
    await until(lambda: log.n_written + log.n_lost >= n_recorded)


@asynccontextmanager
async def running(path: Path, bounds: UsageBounds = BOUNDS, **pace: float) -> AsyncIterator[UsageLog]:
    """Run a log, and stop it as a server does."""
    log = quick_log(path, bounds, **pace)
    task = asyncio.create_task(log.run())
    try:
        yield log
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            raise error
