"""How much a usage log may keep."""

from __future__ import annotations

from dataclasses import dataclass

_ROW_BYTES = 512
"""What a row takes at most by and large: some 150 bytes by measurement, and the words that led to a call."""
_LEAST_BYTES = 1 << 20
_BESIDE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class UsageBounds:
    """The bounds of one log.

    Args:
        days: the age at which what was logged goes.
        rows: the most calls, and as many searches.
        free_bytes: what a log leaves free on its disk.
    """

    days: int = 30
    rows: int = 200_000
    free_bytes: int = 64 << 20

    @property
    def file_bytes(self) -> int:
        """What the file may take once it is pruned."""
        return max(_LEAST_BYTES, self.rows * _ROW_BYTES)

    @property
    def disk_bytes(self) -> int:
        """What it may ever take on the disk, with what was written beside it: then nothing more is written."""
        return 2 * self.file_bytes + _BESIDE_BYTES
