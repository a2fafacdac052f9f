"""A point in time up to which somebody waits, passed on in place of numbers of seconds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """When waiting ends; everything that is done for one caller shares it, so that waits never add up.

    Args:
        until: the event loop's time, in seconds.
    """

    until: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline that lies so many seconds from now."""
        return cls(asyncio.get_running_loop().time() + seconds)

    @property
    def left_s(self) -> float:
        """The seconds that are left, never below 0."""
        return max(0.0, self.until - asyncio.get_running_loop().time())

    def share(self, fraction: float, *, least_s: float = 0.0) -> Deadline:
        """Return the deadline of a step that may take a share of what is left.

        Args:
            fraction: of the time that is left, 0 to 1.
            least_s: seconds that the step gets in any case, even past this deadline.
        """
        return Deadline.after(max(least_s, fraction * self.left_s))

    def timeout(self) -> asyncio.Timeout:
        """Return a context that raises `TimeoutError` at this deadline."""
        return asyncio.timeout_at(self.until)
