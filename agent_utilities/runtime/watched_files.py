"""Files that are watched: whoever reads them reads them again once they have changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from agent_utilities.runtime.waiting import in_daemon_thread

_SETTLED_MS = 300
"""Milliseconds without a change after which an edit counts as done: editors write a file in several steps."""
_LOOK_AGAIN_MS = 5_000
"""Milliseconds after which files are looked at again though no change was told."""


async def touched(files: Sequence[Path]) -> AsyncIterator[None]:
    """Yield when any of the files has been written, exchanged, made or removed; once at the start.

    Folders are watched, not files: editors and deployments put new files in the place of old ones.
    """
    from watchfiles import awatch

    folders = {path.parent.resolve() for file in files for path in (file.absolute(), file.resolve())}
    seen: object = None
    # It wakes on a timeout too: for an edit just before it watched, and for file systems that tell nobody.
    waking = awatch(*folders, recursive=False, step=_SETTLED_MS, rust_timeout=_LOOK_AGAIN_MS, yield_on_timeout=True)
    async for _ in waking:
        if (now := await in_daemon_thread(partial(stamps, files))) != seen:
            seen = now
            yield


def stamps(files: Sequence[Path]) -> list[tuple[int, int, int] | None]:
    """Return what differs when one of some files was written, exchanged, made or removed."""
    return [_stamp(file) for file in files]


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what differs when a file was written or exchanged; None for one that is not there."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
