"""`AuditLog` writes one process's record: lines are queued, and a thread formats them and writes them to files.

Noting a line never waits for the disk; whoever must know that a line is written awaits it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import partial
from glob import escape
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from agent_utilities.access.record.chain import Head, read_line, write_line
from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.runtime.waiting import is_set

try:
    import fcntl
except ImportError:  # Windows, where each process needs a file of its own
    fcntl = None  # type: ignore[assignment] # stands for the missing module

_STAMP = "%Y%m%dT%H%M%S.%fZ"
_LONGEST_LINE = 1 << 20


def full_files(path: Path) -> list[Path]:
    """Return the rotated files of a record, the oldest first."""
    near = path.parent.glob(f"{escape(path.stem)}-*Z{escape(path.suffix)}")
    return sorted(file for file in near if _filled_at(file, path) is not None and file.is_file())


def _filled_at(file: Path, path: Path) -> datetime | None:
    """Return the time in a rotated file's name; None for any other name."""
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
    """A file that several processes append to, one thread of each; a batch is written whole or not at all.

    Writers lock it: none writes into another's line, and a batch that a full disk cut is truncated again. A line that a
    killed process left in pieces is ended, and stays.

    Args:
        path: the file; it and its folder are created at the first write.
        max_bytes: the size at which it is rotated.
        max_age_s: the age in seconds, by its first line, at which it is rotated.
    """

    def __init__(self, path: Path, max_bytes: int, max_age_s: float) -> None:
        self.path = path
        self._max_bytes, self._max_age_s = max_bytes, max_age_s
        self._file: BinaryIO | None = None
        self._since_s = 0.0

    def append(self, data: bytes) -> None:
        """Append whole lines and flush them to the disk.

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
        """Close the file, which releases its lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _locked(self, n_bytes: int) -> BinaryIO:
        """Return the file, locked, after a rotation where that many bytes don't fit."""
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


logger = logging.getLogger("agent_utilities.audit")

Fields = Mapping[str, Any]
_Waiting = tuple[float, Callable[[], Fields], "asyncio.Future[None] | None"]
"""A queued line: when it was noted, what makes its fields, and the future of whoever waits."""

_AT_ONCE = 50
"""The most lines that are formatted at a time: the event loop runs while they are written."""


class RecordError(AgentUtilitiesError, OSError):
    """A line can't be written to the record."""


class AuditLog:
    """One chain of lines in a file that other processes may write to as well.

    Args:
        file: where lines are appended.
        opening: the fields of the first line.
    """

    gathers_s = 0.02
    """Seconds that a line waits to be batched with others, where nobody waits for it."""
    pause_s = 1.0
    """Seconds until a write that failed is tried again, unless more is to be written."""
    most_lines = 10_000
    """The most lines in the queue; later ones are lost, counted, and the record says how many."""
    limit_s = 5.0
    """Seconds that anybody waits for a line, and after which a disk that does not answer is reported."""
    end_s = 2.0
    """Seconds that a stop waits for what is not yet written."""

    def __init__(self, file: RecordFile, opening: Fields) -> None:
        self.file = file
        self.head = Head.of_new_chain()
        """The head after the last line on the disk."""
        self.problem = ""
        """Why the last write failed; empty while writing works."""
        self.n_written = 0
        self.n_lost = self._n_told_lost = 0
        """Lines that were noted and never will be written, and how many of them the record reports itself."""
        self._queue: deque[_Waiting] = deque()
        self._pending: deque[_Waiting] = deque()
        """Lines taken from the queue; used by the thread alone."""
        self._busy_since_s: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleep, self._ended = threading.Lock(), asyncio.Event()
        """A lock that the thread sleeps at: `Event.set` would take the loop three times as long."""
        self._sleep.acquire()
        self._is_due = self._is_ending = False
        self.note(lambda: opening)

    # -- for the event loop: nothing here waits for a disk -----------------------------------------------------------

    def note(self, fields: Callable[[], Fields], waits: asyncio.Future[None] | None = None) -> bool:
        """Queue a line; return False where it is lost, since too many wait.

        Args:
            fields: makes its fields, in the thread.
            waits: is resolved once the line is written.
        """
        if self.n_waiting >= self.most_lines or self._is_ending:
            if self.n_lost == self._n_told_lost:
                logger.error("the audit record has ended, or is not written fast enough: lines are lost from now on")
            self.n_lost += 1
            return False
        self._queue.append((time.time(), fields, waits))
        if waits is not None:
            self._wake()
        elif not self._is_due and self._loop is not None:  # to wake a thread takes longer than all else here
            self._is_due = True
            self._loop.call_later(self.gathers_s, self._wake)
        return True

    async def written(self, fields: Callable[[], Fields]) -> None:
        """Write a line, and return once it is on the disk.

        Raises:
            RecordError: it can't be, or the disk does not answer; it is left out where that can still be.
        """
        loop = asyncio.get_running_loop()
        waits = loop.create_future()
        if not self.note(fields, waits):
            raise RecordError("it has ended, or too many lines wait to be written")
        problem = f"the disk has not answered for {self.limit_s:g} s"
        limit = loop.call_later(self.limit_s, _tell, [waits], problem, context=Context())  # else it keeps the request
        try:
            await waits
        finally:
            limit.cancel()

    @property
    def n_waiting(self) -> int:
        """How many lines are yet to be written."""
        return len(self._queue) + len(self._pending)

    def health(self) -> dict[str, str | int]:
        """Return the state for `/ready`: `writing`, `failing` with its cause, or `hanging`."""
        since_s, cause = self._busy_since_s, self.problem
        hangs = since_s is not None and time.monotonic() - since_s > self.limit_s
        state = "hanging" if hangs else "failing" if cause else "writing"
        counts = {"n_written": self.n_written, "n_waiting": self.n_waiting, "n_lost": self.n_lost}
        return {"state": state, "cause": cause, **counts}

    def start(self) -> None:
        """Start writing; call it on the event loop that notes lines."""
        self._loop = asyncio.get_running_loop()
        self._wake()
        threading.Thread(target=self._run, name="audit", daemon=True).start()

    async def close(self, closing: Fields) -> None:
        """Write the queue, then the closing line, and stop; for at most `end_s` seconds."""
        self._queue.append((time.time(), lambda: closing, None))
        self._is_ending = True
        self._wake()
        if not await is_set(self._ended, within_s=self.end_s) or self.n_waiting:
            logger.error("the audit record ends without %d lines: %s", self.n_waiting, self.problem or "hanging")

    def _wake(self) -> None:
        if self._sleep.locked():  # else it was woken before, and has not slept since
            self._sleep.release()

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._sleep.acquire(timeout=self.pause_s if self._pending else -1)
            self._is_due, is_last = False, self._is_ending
            while self._queue:
                self._pending.append(self._queue.popleft())
            while self._pending and self._write():
                pass
        self.file.close()
        self._on_loop(self._ended.set)

    def _write(self) -> bool:
        """Write the next lines; return whether they were written."""
        batch = list(islice(self._pending, 1 if self.problem else _AT_ONCE))
        head, lines, n_lost = self.head, [], self.n_lost
        for at_s, fields, waits in batch:
            if waits is None or not waits.done():  # else nobody goes on with what it tells of
                line, head = _made(head, at_s, fields)
                lines.append(line)
        if n_lost > self._n_told_lost:
            line, head = write_line(head, time.time(), {"event": "lost", "n_lines": n_lost - self._n_told_lost})
            lines.append(line)
        self._busy_since_s = time.monotonic()
        try:
            self.file.append(b"".join(lines))
        except Exception as error:
            self._fail(error)
            return False
        finally:
            self._busy_since_s = None
        if self.problem:
            logger.warning("the audit record is written again; %d lines were lost", n_lost)
        self.head, self.problem, self._n_told_lost = head, "", n_lost
        self.n_written += len(lines)
        self._answer(batch)
        for _ in batch:
            self._pending.popleft()
        return True

    def _fail(self, error: Exception) -> None:
        """Note a failed write, and fail the lines that somebody waits for; the others are retried."""
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        if not self.problem:
            logger.error("the audit record can't be written to %s: %s", self.file.path, cause)
        self.problem = cause
        lines, self._pending = self._pending, deque(each for each in self._pending if each[2] is None)
        self._answer(lines, cause)

    def _answer(self, lines: Iterable[_Waiting], problem: str = "") -> None:
        """Resolve the futures of lines that were written, or fail them with the problem."""
        if waiting := [waits for _, _, waits in lines if waits is not None]:
            self._on_loop(partial(_tell, waiting, problem))

    def _on_loop(self, call: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed: nobody waits any more
                self._loop.call_soon_threadsafe(call)


def _made(head: Head, at_s: float, fields: Callable[[], Fields]) -> tuple[bytes, Head]:
    try:
        return write_line(head, at_s, fields())
    except Exception as error:  # a line that can't be made keeps no other from being written
        logger.exception("a line of the audit record could not be made")
        return write_line(head, at_s, {"event": "unreadable", "reason": type(error).__name__})


def _tell(waiting: Iterable[asyncio.Future[None]], problem: str) -> None:
    for each in waiting:
        if not each.done():
            each.set_exception(RecordError(problem)) if problem else each.set_result(None)
