"""Files that are watched: whoever reads them reads them again once they have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agent_utilities.runtime.waiting import in_daemon_thread

LOOK_S = 0.4
"""Seconds after which files are looked at again: what was taken out of one holds no more within a second."""


async def looked_at(files: Sequence[Path]) -> AsyncIterator[tuple[bool, bool]]:
    """Yield at each look whether files have changed since the last one, and whether that was done with by then.

    Editors write a file in several steps. Files are looked at, since not every file system tells of changes, nor any of
    the folder that a link leads to from now on. At the first look they count as changed.
    """
    seen: object = None
    settled: object = None
    while True:
        now = await in_daemon_thread(lambda: list(map(_stamp, files)))
        is_settled = now == seen != settled
        yield now != seen, is_settled
        seen, settled = now, now if is_settled else settled
        await asyncio.sleep(LOOK_S)


async def touched(files: Sequence[Path]) -> AsyncIterator[None]:
    """Yield when files have been written, exchanged, made, removed or permitted; once at the start."""
    async for _, is_settled in looked_at(files):
        if is_settled:
            yield


def _stamp(file: Path) -> tuple[int, int, int, int] | None:
    """Return what differs when a file was written, exchanged or permitted to others; None for one that is not there."""
    try:
        stat = file.stat()
    except FileNotFoundError:
        return None
    except OSError as error:  # such as a link to itself, which is there and can't be read
        return error.errno or -1, 0, 0, 0
    return stat.st_ino, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size
