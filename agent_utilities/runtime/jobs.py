"""A job: work that is done behind everything, one run at a time, and until it succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent_utilities.runtime.waiting import is_set


class Job:
    """Something that is done behind everything: one run at a time, once more where it is asked for meanwhile.

    What fails is done again until it succeeds.

    Args:
        work: what is done.
        on_failure: told of each failure, and how many came before it in a row.
        retry_s: pauses in seconds after failures, one after the other; the last one for all that follow.
        gap_s: seconds between the starts of two runs, but for the first two.
        limit_s: seconds that one run may take; None for any number.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[None]],
        on_failure: Callable[[Exception, int], None],
        retry_s: Sequence[float],
        *,
        gap_s: float = 0.0,
        limit_s: float | None = None,
    ) -> None:
        self._work, self._on_failure, self._retry_s = work, on_failure, retry_s
        self._gap_s, self._limit_s = gap_s, limit_s
        self._wanted, self._hurried = asyncio.Event(), asyncio.Event()
        self.is_idle = True
        """Whether nothing is under way, asked for, or to be done again."""
        self.first_try_done = asyncio.Event()
        """Set once it was done, or could not be."""
        self.settled = asyncio.Event()
        """Set while all that was asked for was tried."""
        self.settled.set()

    def want(self, *, hurry: bool = False) -> None:
        """Ask for a run, which nobody waits for; one that hurries does not wait for the pause after a failure."""
        self.is_idle = False
        self.settled.clear()
        self._wanted.set()
        if hurry:
            self._hurried.set()

    async def run(self) -> None:
        """Do what is asked for, until cancelled."""
        now_s = asyncio.get_running_loop().time
        next_s, n_runs, n_failures = 0.0, 0, 0
        while True:
            await self._wanted.wait()
            await asyncio.sleep(next_s - now_s())
            self._wanted.clear()
            self._hurried.clear()
            if n_runs:
                next_s = now_s() + self._gap_s
            n_runs += 1
            try:
                async with asyncio.timeout(self._limit_s):
                    await self._work()
                n_failures = 0
            except Exception as error:
                self._on_failure(error, n_failures)
                self._tried()
                await is_set(self._hurried, within_s=self._retry_s[min(n_failures, len(self._retry_s) - 1)])
                n_failures += 1
                self._wanted.set()
            else:
                self._tried()
                self.is_idle = not self._wanted.is_set()

    def _tried(self) -> None:
        self.first_try_done.set()
        if not self._wanted.is_set():
            self.settled.set()
