"""The file of a usage log: rows in, old rows out. Synchronous, and for one thread; see `agent_utilities.usage.log`."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_utilities.usage.bounds import UsageBounds
from agent_utilities.usage.errors import UsageError, usage_error
from agent_utilities.usage.events import Event
from agent_utilities.usage.opening import open_log
from agent_utilities.usage.pruning import prune
from agent_utilities.usage.rows import insert

_CHECKS_PER_FILL = 50
"""How often the rows are counted while a log fills: it may have a fiftieth too many for each process that writes it."""


class UsageStore:
    """A usage log that is open, in the thread that opened it; several processes may have one file open.

    Args:
        path: the file; it and its folder are made where they are missing.
        bounds: what it may keep.

    Raises:
        UsageError: it can't be opened, or is not ours to write.
    """

    def __init__(self, path: Path, bounds: UsageBounds) -> None:
        self._path = path
        self._bounds = bounds
        self._connection = open_log(path)
        self._file = _identity(path)
        self._n_unchecked = 0

    def write(self, events: Sequence[Event]) -> None:
        """Add events, all or none.

        Raises:
            UsageError: they can't be written.
        """
        with self._explained():
            self._follow()
            self._check_room()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                insert(self._connection, events)
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
        self._n_unchecked += len(events)

    @property
    def is_due(self) -> bool:
        """Whether so much was written that the rows should be counted."""
        return self._n_unchecked * _CHECKS_PER_FILL >= self._bounds.rows

    def prune(self, now_ms: int) -> None:
        """Delete what is too old or too much; other processes write in between.

        Args:
            now_ms: what the clock shows, in UTC epoch milliseconds; see `ClockSeen` for when it is believed.

        Raises:
            UsageError: it can't be done, or not be finished.
        """
        self._n_unchecked = 0
        with self._explained():
            prune(self._connection, self._bounds, now_ms)

    def close(self) -> None:
        """Close the file; the last process to do so works in what was written beside it."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _follow(self) -> None:
        """Begin the file anew where it was moved or deleted: SQLite would go on writing what nobody can find."""
        if _identity(self._path) != self._file:
            self.close()
            self._connection = open_log(self._path)
            self._file = _identity(self._path)

    def _check_room(self) -> None:
        """Check that there is room for more.

        Raises:
            UsageError: `full`: the disk nearly is, or the file may not grow.
        """
        if shutil.disk_usage(self._path.parent).free < self._bounds.free_bytes:
            raise UsageError("full", self._path, f"less than {self._bounds.free_bytes} bytes are free")
        if _size(self._path) > self._bounds.disk_bytes:
            raise UsageError("full", self._path, f"it takes over {self._bounds.disk_bytes} bytes")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise usage_error(error, self._path) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one that later stands at the same path, or None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _size(path: Path) -> int:
    """Return the bytes of a log together with those not yet worked into it."""
    total = 0
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            total += os.stat(f"{path}{suffix}").st_size
    return total
