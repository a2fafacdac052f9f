"""What the process reads and writes: input that a signal ends, whole files, files that change, short log records."""

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
"""Stands for the home of a user who has none: nothing can be there, as where a home can't be written."""


def expanded(path: str | Path) -> Path:
    """Return a path with the user's home for a `~` at its beginning."""
    try:
        return Path.home() if path == "~" else Path(path).expanduser()
    except RuntimeError:
        return _NO_HOME.joinpath(*Path(path).parts[1:])


def own_folder(kind: Literal["cache", "state", "config", "data"]) -> Path:
    """Return the user's own folder for what this package keeps, where applications have it on this system."""
    import platformdirs

    options: dict[str, Any] = {"appauthor": False, "roaming": True} if kind == "config" else {}
    try:
        return Path(getattr(platformdirs, f"user_{kind}_dir")("agent-utilities", **options))
    except RuntimeError:
        return _NO_HOME / kind


_PIECE_BYTES = 64 * 1024


class EndableStdin:
    """Stands between the process's standard input and whoever reads that, from now on.

    A thread that waits for input can't be cancelled: a server that is told to stop would wait with it until its client
    closes the pipe. So the input comes through a pipe of our own, which is closed when it ends, or when it is to end:
    the server then stops as it does where its client has gone.
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
        """End it, whatever else comes."""
        os.write(self._wake, b".")

    def _hand_on(self) -> None:
        try:
            while self._is_ready([self._source], []) and (piece := os.read(self._source, _PIECE_BYTES)):
                while piece:
                    if not self._is_ready([], [self._sink]):
                        return
                    piece = piece[os.write(self._sink, piece) :]
        except OSError:
            pass  # there is no input, or nobody reads it any more: that is its end
        finally:
            os.close(self._sink)

    def _is_ready(self, reads: list[int], writes: list[int]) -> bool:
        """Wait until a pipe can be read or written; False where all is to end."""
        readable, _, _ = select.select([self._woken, *reads], writes, [])
        return self._woken not in readable


def open_regular(path: Path) -> BinaryIO:
    """Return a regular file, open to be read; whoever opens a named pipe would wait for its other end.

    Raises:
        OSError: it can't be opened, or is a folder, a pipe, a device or a socket.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
        os.close(handle)
        reason = (errno.EISDIR, "is a directory") if stat.S_ISDIR(mode) else (errno.EINVAL, "no regular file")
        raise OSError(*reason, str(path))
    return open(handle, "rb")


def read_whole(path: Path, most_bytes: int) -> bytes:
    """Return what a regular file holds.

    Raises:
        OSError: it can't be read, is no regular file, or holds more than so many bytes.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"over {most_bytes} bytes", str(path))
    return content


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, partial_suffix: str = "") -> None:
    """Put content in place of what a file held, on the disk by the time that it is seen; a link stays, and is followed.

    Where that can't be written (`OSError`) the file is as it was.
    """
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
"""The most of one text, such as a name that a caller made up."""
_LINE_CHARACTERS = 4_000
"""The most of a message, and of a traceback, whose end says what went wrong."""


class ShortRecord(logging.LogRecord):
    """A log record that no text fills: what a caller or an upstream gave is cut, at 200 characters, as is the message.

    `logging.setLogRecordFactory` has every logger of the process make these, libraries' too.
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
        """Return the message, at most 4,000 characters of it."""
        return _cut(super().getMessage(), _LINE_CHARACTERS)


def _cut_text(arg: object) -> object:
    if isinstance(arg, str | BaseException) and len(text := str(arg)) > _TEXT_CHARACTERS:
        return _cut(text, _TEXT_CHARACTERS)
    return arg


def _cut(text: str, n_characters: int) -> str:
    return text if len(text) <= n_characters else f"{text[:n_characters]}… ({len(text)} characters)"


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
