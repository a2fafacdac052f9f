"""How many upstreams are started at once, those first that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module


class StartSlots:
    """A bounded number of places to start in, a quarter of which is for those that somebody waits for.

    One that takes long waits for a network or hangs: it gives its place back after a while, so that no number of
    upstreams that hang delays the others for longer.

    Args:
        n_slots: how many there are.
        longest_s: seconds after which a place is given back.
        before_import: called on the event loop before anything is imported for a start.
    """

    def __init__(self, n_slots: int, longest_s: float, before_import: Callable[[], None] = lambda: None) -> None:
        self._before_import = before_import
        self._n_free, self._longest_s = n_slots, longest_s
        self._n_reserved = max(1, n_slots // 4) if n_slots > 1 else 0
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._importing = asyncio.Lock()

    async def import_module(self, name: str) -> None:
        """Import what a start needs, which takes a second that the event loop has no time for.

        One at a time: threads that import the same packages at once can deadlock.
        """
        async with self._importing:
            self._before_import()
            await asyncio.to_thread(import_module, name)

    @asynccontextmanager
    async def taking(self, is_urgent: Callable[[], bool]) -> AsyncIterator[None]:
        """Wait for a place, and hold it until the block is left, or for as long as it may be held.

        Args:
            is_urgent: whether somebody waits for it now; asked whenever a place gets free.
        """
        await self._take(is_urgent)
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._free()

        timer = asyncio.get_running_loop().call_later(self._longest_s, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()

    def look_again(self) -> None:
        """Give places that are free to those that somebody has begun to wait for."""
        while (chosen := self._next()) is not None:
            self._n_free -= 1
            chosen.set_result(None)

    async def _take(self, is_urgent: Callable[[], bool]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = is_urgent
        self.look_again()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free()
            raise
        finally:
            self._waiting.pop(turn, None)

    def _free(self) -> None:
        self._n_free += 1
        self.look_again()

    def _next(self) -> asyncio.Future[None] | None:
        """Return whose turn it is; None where there is no place for any that waits."""
        waiting = [turn for turn in self._waiting if not turn.done()]
        urgent = next((turn for turn in waiting if self._waiting[turn]()), None)
        if urgent is not None and self._n_free > 0:
            return urgent
        return next(iter(waiting), None) if self._n_free > self._n_reserved else None
