"""The files of a record: the one that is written, and those that were full or old, which have a time in their names."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path
from typing import BinaryIO

from agent_utilities.audit.chain import read_line

try:
    import fcntl
except ImportError:  # Windows, where each process needs a file of its own
    fcntl = None  # type: ignore[assignment] # that is how a module that is not there is told

_STAMP = "%Y%m%dT%H%M%S.%fZ"
_LONGEST_LINE = 1 << 20


def full_files(path: Path) -> list[Path]:
    """Return the files that a record's file was before, the oldest first."""
    near = path.parent.glob(f"{escape(path.stem)}-*Z{escape(path.suffix)}")
    return sorted(file for file in near if _filled_at(file, path) is not None and file.is_file())


def _filled_at(file: Path, path: Path) -> datetime | None:
    """Return the time in the name of a file that a record's file was before; None for any other name."""
    text = file.name.removeprefix(f"{path.stem}-").removesuffix(path.suffix)
    try:
        at = datetime.strptime(text, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return at if at.strftime(_STAMP) == text else None  # `strptime` takes fewer digits too


def all_files(path: Path) -> list[Path]:
    """Return all files of a record, the oldest first."""
    return [*full_files(path), *([path] if path.exists() else [])]


class RecordFile:
    """A file that several processes append to, each batch whole or not at all, for one thread of each.

    They lock it to write: so none writes into the line of another, and what a full disk took of a batch can be taken
    out again. A line that a killed process left in pieces is ended, and stays.

    Args:
        path: the file; it and its folder are made when first written to.
        max_bytes: the most that it may have; then it is renamed, and another one begun.
        max_age_s: the same for its age in seconds, by its first line.
    """

    def __init__(self, path: Path, max_bytes: int, max_age_s: float) -> None:
        self.path = path
        self._max_bytes, self._max_age_s = max_bytes, max_age_s
        self._file: BinaryIO | None = None
        self._since_s = 0.0

    def append(self, data: bytes) -> None:
        """Add whole lines, which are on the disk when this returns.

        Raises:
            OSError: they can't be written; nothing of them is in the file, or it could not be brought to the disk.
        """
        try:
            file = self._locked(len(data))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read(1) != b"\n":
                data = b"\n" + data
            try:
                while data:
                    data = data[file.write(data) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
        except BaseException:
            self.close()
            raise
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close it, and give up its lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _locked(self, n_bytes: int) -> BinaryIO:
        """Return the file, locked, with room for so many bytes."""
        while True:
            file = self._file = self._file or self._opened()
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            if not self._is_current(file):  # another process was faster
                self.close()
                continue
            size = os.fstat(file.fileno()).st_size
            is_due = size + n_bytes > self._max_bytes or time.time() - self._since_s > self._max_age_s
            if not size or not is_due:
                return file
            if fcntl is None:
                self.close()  # what is open can't be renamed there
            self.path.rename(self._next_name())
            self.close()

    def _opened(self) -> BinaryIO:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        follow = getattr(os, "O_NOFOLLOW", 0)
        file = open(self.path, "a+b", buffering=0, opener=lambda path, flags: os.open(path, flags | follow, 0o600))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(errno.EINVAL, "not a file", str(self.path))
        file.seek(0)
        self._since_s = time.time()
        with suppress(ValueError):  # of a line that somebody has changed
            if (first := read_line(file.readline(_LONGEST_LINE).rstrip(b"\n"))) is not None:
                self._since_s = datetime.fromisoformat(first.at).timestamp()
        return file

    def _is_current(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _next_name(self) -> Path:
        """Return a name that sorts after those there are, whatever the clock says."""
        stem, suffix = self.path.stem, self.path.suffix
        at = datetime.now(UTC)
        if full := full_files(self.path):
            last = _filled_at(full[-1], self.path) or at
            with suppress(OverflowError):  # somebody's file of the last moment of all times
                at = max(at, last + timedelta(microseconds=1))
        return self.path.with_name(f"{stem}-{at.strftime(_STAMP)}{suffix}")
