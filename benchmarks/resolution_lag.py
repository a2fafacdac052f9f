"""How long an event loop is kept from its tasks."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

TICK_S = 0.001


class Lag:
    """How late the event loop comes to a task that asks to be woken every millisecond.

    `late_s` holds how late each tick was; `blocked_s` the same net of the time that the loop's thread could have run
    and waited for a processor, which other programs cause.
    """

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self.blocked_s: list[float] = []
        self.collections_s: list[float] = []
        self._collecting_at = 0.0

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Tick while a block runs."""
        gc.callbacks.append(self._collected)
        ticking = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        try:
            yield
            await asyncio.sleep(2 * TICK_S)
        finally:
            ticking.cancel()
            gc.callbacks.remove(self._collected)

    async def _tick(self) -> None:
        statistics = os.open("/proc/self/schedstat", os.O_RDONLY)

        def waited_s() -> float:
            return int(os.pread(statistics, 100, 0).split()[1]) / 1e9

        try:
            while True:
                started, waited = time.perf_counter(), waited_s()
                await asyncio.sleep(TICK_S)
                late = time.perf_counter() - started - TICK_S
                self.late_s.append(late)
                self.blocked_s.append(max(0.0, late - (waited_s() - waited)))
        finally:
            os.close(statistics)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_at = time.perf_counter()
        else:
            self.collections_s.append(time.perf_counter() - self._collecting_at)

    def as_dict(self) -> dict[str, Any]:
        """Return every tick, and the longest garbage collection."""
        longest = max(self.collections_s, default=0.0)
        return {"late_s": self.late_s, "blocked_s": self.blocked_s, "longest_collection_s": longest}
