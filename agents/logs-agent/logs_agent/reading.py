"""Lines of a file in constant memory: plain or gzip, whatever its bytes are, within a budget."""

from __future__ import annotations

import io
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from anyio import from_thread
from fastmcp.exceptions import ToolError

MAX_LINE_BYTES = 65_536
"""Bytes of one line that are kept; the rest of it is skipped and the line counted as clipped."""

LOOK_S = 0.02
"""Seconds between two looks whether the caller is still there."""

_CHUNK = 262_144
_PACKED_CHUNK = 16_384
_GZIP = b"\x1f\x8b"
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}[A-Za-z]")


@dataclass
class Budget:
    """How much one call may read; `spent` says which bound ended the reading."""

    bytes_left: int
    deadline: float
    seconds: float
    spent: str | None = None
    _next_look: float = 0.0

    @classmethod
    def from_env(cls) -> Budget:
        """Return a full budget: `LOGS_AGENT_MAX_SCAN_MIB` (1024) unpacked, `LOGS_AGENT_MAX_SCAN_S` (30)."""
        seconds = _positive("LOGS_AGENT_MAX_SCAN_S", 30)
        mib = _positive("LOGS_AGENT_MAX_SCAN_MIB", 1024)
        return cls(int(mib * 1_048_576), time.monotonic() + seconds, seconds)

    def take(self, wanted: int) -> int:
        """Return how many of the wanted bytes may be read now; 0 once the budget is spent."""
        if self.bytes_left <= 0:
            self.spent = "the size limit of one call was reached (LOGS_AGENT_MAX_SCAN_MIB)"
        return 0 if self.is_late() or self.spent else min(wanted, self.bytes_left)

    def is_late(self) -> bool:
        """Whether the time is up; cheap enough to be asked for each record.

        Raises:
            BaseException: the event loop's own for a cancelled task, where the caller of the tool has left.
        """
        now = time.monotonic()
        is_late = now > self.deadline
        if is_late and self.spent is None:
            self.spent = f"the time limit of one call, {self.seconds:g} s, was reached (LOGS_AGENT_MAX_SCAN_S)"
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            with suppress(RuntimeError):  # no server runs the tool
                from_thread.check_cancelled()
        return is_late


@dataclass
class Flaws:
    """What reading came across: kept beside the lines, for the result to say."""

    damaged_gzip: list[str] = field(default_factory=list)
    clipped_lines: int = 0


def is_gzip(fd: int) -> bool:
    """Whether a file begins with gzip's two magic bytes; its name is not asked."""
    return os.pread(fd, 2, 0) == _GZIP


def lines(fd: int, shown: str, budget: Budget, flaws: Flaws) -> Iterator[str]:
    """Yield a file's lines without their ends, as far as it reached when it was opened.

    Bytes that aren't UTF-8 become U+FFFD, NUL bytes and colour codes are dropped.
    """
    size = os.fstat(fd).st_size
    raw: _Source = _Gunzipped(fd, size, budget) if is_gzip(fd) else _Source(fd, size, budget)
    with io.BufferedReader(raw, _CHUNK) as stream:
        first = True
        while (line := _next_line(stream, flaws)) is not None:
            yield text_of(line.removeprefix(b"\xef\xbb\xbf") if first else line)
            first = False
    if raw.damaged:
        flaws.damaged_gzip.append(shown)


def text_of(line: bytes) -> str:
    """Return a line's text without its end, NUL bytes and colour codes."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if "\0" in text:
        text = text.replace("\0", "")
    return _COLOUR.sub("", text) if "\x1b" in text else text


def _next_line(stream: io.BufferedReader[_Source], flaws: Flaws) -> bytes | None:
    chunk = stream.readline(MAX_LINE_BYTES)
    if not chunk:
        return None
    if chunk.endswith(b"\n") and chunk[0]:
        return chunk
    kept, clipped = b"", False
    while chunk:
        part = chunk if kept else chunk.lstrip(b"\0")  # a truncated log often begins with a hole of NULs
        clipped = clipped or len(kept) + len(part.rstrip(b"\r\n")) > MAX_LINE_BYTES
        kept += part[: MAX_LINE_BYTES - len(kept)]
        if chunk.endswith(b"\n"):
            break
        chunk = stream.readline(MAX_LINE_BYTES)
    flaws.clipped_lines += clipped
    return kept


class _Source(io.RawIOBase):
    """A file's bytes up to the size it had, charged to the budget."""

    damaged = False

    def __init__(self, fd: int, size: int, budget: Budget) -> None:
        self._fd, self._size, self._budget, self._at = fd, size, budget, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = self._budget.take(len(buffer))
        data = self._packed(room) if room else b""
        self._budget.bytes_left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def _packed(self, wanted: int) -> bytes:
        data = os.pread(self._fd, min(wanted, self._size - self._at), self._at)
        self._at += len(data)
        return data


class _Gunzipped(_Source):
    """The unpacked bytes of a gzip file, never more than asked for at once; all readable of a damaged one."""

    def __init__(self, fd: int, size: int, budget: Budget) -> None:
        super().__init__(fd, size, budget)
        self._stream = zlib.decompressobj(31)
        self._pending = b""

    def readinto(self, buffer: Any) -> int:
        while room := self._budget.take(len(buffer)):
            data = self._unpacked(room)
            if data is None:
                return 0
            if data:
                self._budget.bytes_left -= len(data)
                buffer[: len(data)] = data
                return len(data)
        return 0

    def _unpacked(self, wanted: int) -> bytes | None:
        """Return some bytes, none for now (`b""`), or `None` at the end."""
        if self.damaged:
            return None
        if self._stream.eof:  # another member may follow, after padding
            self._pending = (self._stream.unused_data or self._packed(_PACKED_CHUNK)).lstrip(b"\0")
            if not self._pending and self._at >= self._size:
                return None
            if self._pending:
                self._stream = zlib.decompressobj(31)
            return self._member(wanted) if self._pending else b""
        return self._member(wanted)

    def _member(self, wanted: int) -> bytes | None:
        fresh = self._pending or self._packed(_PACKED_CHUNK)
        before = self._stream.copy()
        try:
            data = self._stream.decompress(fresh, wanted)
        except zlib.error:
            self.damaged = True
            return _up_to_damage(before, fresh, wanted)
        self._pending = self._stream.unconsumed_tail
        if not fresh and not data and not self._stream.eof:
            self.damaged = True
            return None
        return data


def _up_to_damage(stream: Any, packed: bytes, wanted: int) -> bytes:
    data = bytearray()
    try:
        for at in range(len(packed)):
            if len(data) < wanted:
                data += stream.decompress(packed[at : at + 1], wanted - len(data))
    except zlib.error:
        pass
    return bytes(data)


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise ToolError(f"not a positive number: {text!r} in the setting {name}")
    return value
