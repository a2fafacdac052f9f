"""What an upstream writes to stderr: the last of it in memory and on disk, bounded, readable, with no secret in it."""

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
"""Lines that are kept in memory."""
MAX_LINE_CHARACTERS = 2000
"""Characters of a line that are kept."""
RATE_BYTES, BURST_BYTES = 64 * 1024, 512 * 1024
"""Bytes a second that are kept, and how many at once; of what goes over it only the last is."""
_TAIL_BYTES = 16 * 1024
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class StderrLog:
    """The last lines of one upstream's stderr.

    A flood costs no memory and little time: what comes faster than `RATE_BYTES` a second is passed over, but for its
    end, and how much that was is told.

    Args:
        path: the file that they are kept in, with an older one beside it; None for memory only.
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
        """Take secrets out of all that comes from now on."""
        self._secrets = secrets

    def feed(self, data: bytes) -> None:
        """Take what was read from the pipe, in whatever pieces."""
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
        """Add a line of our own, such as how the process exited, where lines are kept on disk."""
        lines = self._rest.split(b"\n") if self._rest else []
        self._rest = b""
        self._keep(lines)
        if self._file:
            self._file.write([f"-- {self._readable(text.encode())}"])

    def last_lines(self, n: int) -> list[str]:
        """Return the last n lines, oldest first, as they may be shown."""
        # Where something was left out, the first of these is half a line, which may hold half a secret.
        rest = [self._readable(line) for line in self._rest.split(b"\n")[bool(self._n_dropped) :] if line]
        return [*self._lines, *rest][-n:]

    def flush(self, limit_s: float) -> None:
        """Wait until the file has all that was kept, for a disk that answers; not to be called on an event loop."""
        if self._file:
            self._file.flush(limit_s)

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
    """Lines on disk: a file, and the one before it. A full or hung disk delays nobody.

    A thread of its own writes them while there are any, so that a disk that hangs holds up nobody: what comes
    meanwhile is kept up to the size of a file, then the oldest of it is dropped.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes // 2
        self._waiting: deque[bytes] = deque()
        self._n_waiting = 0
        self._lock = threading.Lock()
        self._is_written = threading.Event()
        self._is_written.set()

    def write(self, lines: list[str]) -> None:
        """Add lines, with the time; several gateways may do so."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        data = "".join(f"{now} {line}\n" for line in lines).encode(errors="replace")[-self._max_bytes :]
        with self._lock:
            self._waiting.append(data)
            self._n_waiting += len(data)
            while self._n_waiting > self._max_bytes:
                self._n_waiting -= len(self._waiting.popleft())
            if not self._is_written.is_set():
                return
            self._is_written.clear()
        start_in_daemon_thread(self._write_waiting)

    def flush(self, limit_s: float) -> None:
        """Wait until all is on disk, or could not be brought there."""
        self._is_written.wait(limit_s)

    def _write_waiting(self) -> None:
        while True:
            with self._lock:
                data = b"".join(self._waiting)
                self._waiting.clear()
                self._n_waiting = 0
                if not data:
                    self._is_written.set()
                    return
            self._append(data)

    def _append(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError):
                if self._path.stat().st_size + len(data) > self._max_bytes:
                    self._path.replace(previous(self._path))
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)


def log_file(folder: Path, upstream: str) -> Path:
    """Return where the log of an upstream is: in the folder, whatever its name is."""
    return folder / (quote(upstream, safe=" ") + ".log")


def logged(folder: Path) -> list[str]:
    """Return the names of the upstreams that have a log in a folder, sorted."""
    return sorted(unquote(path.stem) for path in folder.glob("*.log"))


def previous(path: Path) -> Path:
    """Return where the older half of a log is."""
    return path.with_name(f"{path.name}.1")


def readable(line: bytes) -> str:
    """Return a line as it may be shown on a terminal: no escape sequences, no control characters."""
    text = line.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]  # the last state of a progress bar
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", _ESCAPES.sub("", text))


def read_log(path: Path, n: int) -> list[str]:
    """Return the last n lines that a log has on disk, oldest first; none where there is no log."""
    lines: list[str] = []
    for file in (previous(path), path):
        with suppress(OSError):
            with open_regular(file) as opened:
                lines += opened.read().decode(errors="replace").splitlines()
    return lines[-n:] if n > 0 else []
