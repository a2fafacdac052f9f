"""Who uses a connection, and since when nobody has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Users:
    """The calls that want one connection, from before it is up until they have ended.

    Args:
        wake: set where those that waited for the last to go have something to do.
    """

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake
        self.n = 0
        self.used_s: float | None = None
        """The event loop's time at which the last one went, since `begin`; None where there was none."""
        self.is_leaving = False
        """Whether new ones are turned away, and the last to go ends the connection."""

    @property
    def are_any_since(self) -> bool:
        """Whether there is one, or has been since `begin`."""
        return self.n > 0 or self.used_s is not None

    def begin(self) -> None:
        """Count from now on, as for a new connection."""
        self.used_s = None

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one for as long as the block takes."""
        self.n += 1
        try:
            yield
        finally:
            self.n -= 1
            self.used_s = asyncio.get_running_loop().time()
            if self.is_leaving and not self.n:
                self._wake.set()
