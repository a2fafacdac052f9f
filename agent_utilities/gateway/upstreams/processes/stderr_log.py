"""The log of an upstream's stderr: its last lines in memory and on disk, bounded, readable and without secrets."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from agent_utilities.gateway.upstreams.secrets import without
from agent_utilities.runtime.process_io import open_regular
from agent_utilities.runtime.waiting import start_in_daemon_thread

MAX_LINES = 200
"""The most lines in memory."""
MAX_LINE_CHARACTERS = 2000
RATE_BYTES, BURST_BYTES = 64 * 1024, 512 * 1024
"""Bytes a second that are kept, and at once; of more only the end is kept."""
_TAIL_BYTES = 16 * 1024
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class StderrLog:
    """The last lines of one upstream's stderr.

    A flood costs no memory and little time: of what comes faster than `RATE_BYTES` a second only the end is kept, and a
    line says how much was left out.

    Args:
        path: their file, with an older one beside it; None for memory only.
    """

    def __init__(self, path: Path | None = None, max_bytes: int = 1_000_000) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._file = None if path is None else _LogFile(path, max_bytes)
        self._secrets: Sequence[str] = ()
        self._rest = b""
        self._n_allowed, self._allowed_at = float(BURST_BYTES), time.monotonic()
        self._n_dropped = 0
        self._is_cut = False

    def hide(self, secrets: Sequence[str]) -> None:
        """Hide secrets in all later output."""
        self._secrets = secrets

    def feed(self, data: bytes) -> None:
        """Add output as it was read from the pipe."""
        now = time.monotonic()
        self._n_allowed = min(BURST_BYTES, self._n_allowed + (now - self._allowed_at) * RATE_BYTES)
        self._allowed_at = now
        if len(data) > self._n_allowed:
            whole = self._rest + data
            self._rest = whole[-_TAIL_BYTES:]
            self._n_dropped += len(whole) - len(self._rest)
            return
        self._n_allowed -= len(data)
        if self._is_cut:
            _, end, data = data.partition(b"\n")
            self._is_cut = not end
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _TAIL_BYTES:  # a line without an end
            lines.append(self._rest)
            self._rest, self._is_cut = b"", True
        self._keep(lines)

    def note(self, text: str) -> None:
        """Add a line of our own to the file, such as how the process exited."""
        lines = self._rest.split(b"\n") if self._rest else []
        self._rest = b""
        self._keep(lines)
        if self._file:
            self._file.write([f"-- {self._readable(text.encode())}"])

    def last_lines(self, n: int) -> list[str]:
        """Return the last n lines, oldest first, safe to show."""
        # After a gap the first of these is half a line, which may have half a secret.
        rest = [self._readable(line) for line in self._rest.split(b"\n")[bool(self._n_dropped) :] if line]
        return [*self._lines, *rest][-n:]

    def flush(self, limit_s: float) -> None:
        """Wait until the file is written, up to a limit; not on an event loop."""
        if self._file:
            self._file.is_written.wait(limit_s)

    def _readable(self, line: bytes) -> str:
        text = without(self._secrets, readable(line))
        return text if len(text) <= MAX_LINE_CHARACTERS else f"{text[:MAX_LINE_CHARACTERS]}..."

    def _keep(self, lines: list[bytes]) -> None:
        if self._n_dropped and lines:
            lines[0] = b"-- %d KiB were left out" % (self._n_dropped // 1024 + 1)  # in place of half a line
            self._n_dropped = 0
        shown = [self._readable(line) for line in lines]
        self._lines.extend(shown)
        if self._file and shown:
            self._file.write(shown)


class _LogFile:
    """Lines on disk: a file, and the one before it.

    A thread of its own writes them, so that a full or hung disk delays nobody: up to the size of a file is queued
    meanwhile, then the oldest lines are dropped.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes // 2
        self._waiting: deque[bytes] = deque()
        self._n_waiting = 0
        self._lock = threading.Lock()
        self.is_written = threading.Event()
        self.is_written.set()

    def write(self, lines: list[str]) -> None:
        """Add lines with the time; several gateways may write to the file."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        data = "".join(f"{now} {line}\n" for line in lines).encode(errors="replace")[-self._max_bytes :]
        with self._lock:
            self._waiting.append(data)
            self._n_waiting += len(data)
            while self._n_waiting > self._max_bytes:
                self._n_waiting -= len(self._waiting.popleft())
            if not self.is_written.is_set():
                return
            self.is_written.clear()
        start_in_daemon_thread(self._write_waiting)

    def _write_waiting(self) -> None:
        while True:
            with self._lock:
                data = b"".join(self._waiting)
                self._waiting.clear()
                self._n_waiting = 0
                if not data:
                    self.is_written.set()
                    return
            self._append(data)

    def _append(self, data: bytes) -> None:
        def opened(path: str, flags: int) -> int:
            return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)

        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError):
                if self._path.stat().st_size + len(data) > self._max_bytes:
                    self._path.replace(previous(self._path))
            with open(self._path, "ab", opener=opened) as file:
                file.write(data)


def log_file(folder: Path, upstream: str) -> Path:
    """Return the log file of an upstream, within the folder whatever its name is."""
    return folder / (quote(upstream, safe=" ") + ".log")


def logged(folder: Path) -> list[str]:
    """Return the names of the upstreams that have a log in a folder, sorted."""
    return sorted(unquote(path.stem) for path in folder.glob("*.log"))


def previous(path: Path) -> Path:
    """Return the file with the older half of a log."""
    return path.with_name(f"{path.name}.1")


def readable(line: bytes) -> str:
    """Return a line that is safe on a terminal: no escape sequences, no control characters."""
    text = line.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]  # the last state of a progress bar
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", _ESCAPES.sub("", text))


def read_log(path: Path, n: int) -> list[str]:
    """Return the last n lines of a log on disk, oldest first; none where there is no log."""
    lines: list[str] = []
    for file in (previous(path), path):
        with suppress(OSError):
            with open_regular(file) as opened:
                lines += opened.read().decode(errors="replace").splitlines()
    return lines[-n:] if n > 0 else []
