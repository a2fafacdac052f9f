"""Process I/O: standard input that a signal can end, whole files, watched files, short log records."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import stat
import tempfile
import threading
import traceback
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from agent_utilities.runtime.waiting import in_daemon_thread

_NO_HOME = Path(os.devnull, "HOME-is-not-set")
"""The home of a user who has none: nothing can be there, as in a home that can't be written."""


def expanded(path: str | Path) -> Path:
    """Return a path with a leading `~` replaced by the user's home."""
    try:
        return Path.home() if path == "~" else Path(path).expanduser()
    except RuntimeError:
        return _NO_HOME.joinpath(*Path(path).parts[1:])


def own_folder(kind: Literal["cache", "state", "config", "data"]) -> Path:
    """Return this package's folder in the user's platform directories."""
    import platformdirs

    options: dict[str, Any] = {"appauthor": False, "roaming": True} if kind == "config" else {}
    try:
        return Path(getattr(platformdirs, f"user_{kind}_dir")("agent-utilities", **options))
    except RuntimeError:
        return _NO_HOME / kind


_PIECE_BYTES = 64 * 1024


class EndableStdin:
    """Replaces the process's standard input by a pipe that can be closed from within.

    A thread that waits for input can't be cancelled: a server that has to stop would wait until its client closes the
    pipe. Closing our own makes it stop as if its client had gone.
    """

    def __init__(self) -> None:
        self._source = os.dup(0)
        reads, self._sink = os.pipe()
        os.dup2(reads, 0)
        os.close(reads)
        os.set_blocking(self._sink, False)
        self._woken, self._wake = os.pipe()
        threading.Thread(target=self._hand_on, name="stdin", daemon=True).start()

    def end(self) -> None:
        """End the input."""
        os.write(self._wake, b".")

    def _hand_on(self) -> None:
        try:
            while self._is_ready([self._source], []) and (piece := os.read(self._source, _PIECE_BYTES)):
                while piece:
                    if not self._is_ready([], [self._sink]):
                        return
                    piece = piece[os.write(self._sink, piece) :]
        except OSError:
            pass  # there is no input, or nobody reads it any more
        finally:
            os.close(self._sink)

    def _is_ready(self, reads: list[int], writes: list[int]) -> bool:
        """Wait until a pipe can be read or written; False once `end` was called."""
        readable, _, _ = select.select([self._woken, *reads], writes, [])
        return self._woken not in readable


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to be read; `OSError` for any other, as opening a named pipe would wait for its other end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
        os.close(handle)
        reason = (errno.EISDIR, "is a directory") if stat.S_ISDIR(mode) else (errno.EINVAL, "no regular file")
        raise OSError(*reason, str(path))
    return open(handle, "rb")


def read_whole(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file; `OSError` where it can't be read, is none, or is too long."""
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"over {most_bytes} bytes", str(path))
    return content


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, partial_suffix: str = "") -> None:
    """Replace a file's content atomically and durably; a link is followed. After an `OSError` the file is unchanged."""
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=partial_suffix, dir=path.parent)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:
            os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


_TEXT_CHARACTERS = 200
"""The longest argument of a log message, such as a name that a caller made up."""
_LINE_CHARACTERS = 4_000
"""The longest message, and the longest end of a traceback."""


class ShortRecord(logging.LogRecord):
    """A log record of bounded length: callers and upstreams choose some of its text.

    With `logging.setLogRecordFactory` every logger of the process makes these, libraries' too.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if isinstance(self.args, tuple):
            self.args = tuple(_cut_text(arg) for arg in self.args)
        elif self.args:
            self.args = {name: _cut_text(arg) for name, arg in self.args.items()}
        if self.exc_info and self.exc_info[0] is not None:
            parts = (_cut(each, _LINE_CHARACTERS // 4) for each in traceback.format_exception(*self.exc_info))
            self.exc_text = "".join(parts).rstrip()[-_LINE_CHARACTERS:]

    def getMessage(self) -> str:
        """Return at most 4,000 characters of the message."""
        return _cut(super().getMessage(), _LINE_CHARACTERS)


def _cut_text(arg: object) -> object:
    if isinstance(arg, str | BaseException) and len(text := str(arg)) > _TEXT_CHARACTERS:
        return _cut(text, _TEXT_CHARACTERS)
    return arg


def _cut(text: str, n_characters: int) -> str:
    return text if len(text) <= n_characters else f"{text[:n_characters]}… ({len(text)} characters)"


LOOK_S = 0.4
"""Seconds between two looks at watched files: what was removed from one stops holding within a second."""


async def looked_at(files: Sequence[Path]) -> AsyncIterator[tuple[bool, bool]]:
    """Poll files; yield at each look whether they have changed since the last one, and whether a change has settled.

    Editors write a file in several steps. Polling, since not every file system notifies of changes, nor any of a link's
    new target. At the first look files count as changed.
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
    """Yield at the start, and when files have been written, replaced, created, removed or permitted."""
    async for _, is_settled in looked_at(files):
        if is_settled:
            yield


def _stamp(file: Path) -> tuple[int, int, int, int] | None:
    """Return what changes when a file is written, replaced or permitted to others; None for an absent one."""
    try:
        stat = file.stat()
    except FileNotFoundError:
        return None
    except OSError as error:  # such as a link to itself, which is there and can't be read
        return error.errno or -1, 0, 0, 0
    return stat.st_ino, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size
