"""The log that servers write calls to: behind them, in batches, and never so that a call waits or fails for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_utilities.runtime.endings import ended
from agent_utilities.usage.bounds import UsageBounds
from agent_utilities.usage.errors import UsageError
from agent_utilities.usage.event_queue import EventQueue
from agent_utilities.usage.events import Event
from agent_utilities.usage.log_file import PRUNE_S, LogFile
from agent_utilities.usage.one_thread import OneThread

logger = logging.getLogger("agent_utilities.usage")


@dataclass(frozen=True, slots=True)
class Pace:
    """How a log is written.

    Args:
        batch_s: seconds that an event waits for others: what a kill loses is of less than a second.
        batch: events that are written without waiting for more.
        most_at_once: events of one transaction.
        most_bytes: what waiting events may weigh; the oldest go first.
        pause_s: seconds until a failed write is tried again; twice as many after each failure.
        longest_pause_s: where that ends.
        hung_s: seconds after which a write that does not end is told of.
        end_s: seconds that a stop waits for what is not yet written.
    """

    batch_s: float = 0.4
    batch: int = 200
    most_at_once: int = 1_000
    most_bytes: int = 8 << 20
    pause_s: float = 1.0
    longest_pause_s: float = 60.0
    hung_s: float = 30.0
    end_s: float = 2.0


_PACE = Pace()
_WORTH_ANOTHER_TRY = frozenset({"locked", "full", "read-only"})
"""Causes that have nothing to do with what was to be written."""
_Outcome = tuple[bool, UsageError | None]
"""Whether a call in the thread had something to do, and why it failed, if so."""


@dataclass(frozen=True, slots=True)
class _Writing:
    """Events that are being written.

    Args:
        events: they are no longer in the queue.
        done: what comes of it.
    """

    events: list[Event]
    done: asyncio.Future[_Outcome]


class UsageLog:
    """A log of calls, written by one task in one thread; several processes may write one file.

    Whatever becomes of the file, `record` goes on, and nothing is raised: there is one warning when logging stops, and
    one line when it works again.

    Args:
        path: the file; it is made with the first event.
        bounds: what it may keep.
        pace: how it is written.
    """

    def __init__(self, path: Path, bounds: UsageBounds, pace: Pace = _PACE) -> None:
        self.path = path
        self.generation = 0
        """How many batches were written: where it has not changed, this process has written nothing new."""
        self.n_written = 0
        self._bounds = bounds
        self._pace = pace
        self._queue = EventQueue(pace.most_bytes, pace.batch)
        self._n_recorded = 0
        self._n_refused = 0
        self._writing: _Writing | None = None
        self._problem: UsageError | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def n_lost(self) -> int:
        """How many events were recorded and never will be written."""
        return self._n_refused + self._queue.n_dropped

    @property
    def problem(self) -> UsageError | None:
        """Why nothing is written just now, if so."""
        return self._problem

    def record(self, event: Event) -> None:
        """Have an event logged: microseconds, and no I/O. For the event loop that `run` is on."""
        self._n_recorded += 1
        if self._problem is None or self._problem.is_temporary:
            self._queue.put(event)
        else:
            self._n_refused += 1

    def health(self) -> dict[str, str | int]:
        """Return the state for `/ready`: nothing of it keeps a server from being ready."""
        state = "logging" if self._problem is None else "failing" if self._problem.is_temporary else "stopped"
        counts = {"n_written": self.n_written, "n_waiting": len(self._queue), "n_lost": self.n_lost}
        return {"state": state, "cause": self._problem.cause if self._problem else "", **counts}

    async def flushed(self) -> None:
        """Wait until all that was recorded so far is written, or lost for good."""
        n_recorded = self._n_recorded
        self._queue.hurry()
        await self.until(lambda: self.n_written + self.n_lost >= n_recorded)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, which is asked now and after each try to write."""
        while not is_so():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def run(self) -> None:
        """Write what is recorded, until cancelled; then what is left, within a bound."""
        thread, file = OneThread("usage"), LogFile(self.path, self._bounds)
        self._problem = None
        self._queue.attach()
        try:
            await self._write(thread, file)
        finally:
            ending = asyncio.create_task(self._finish(thread, file))
            try:
                await ended(ending, self._pace.end_s)
            finally:
                ending.cancel()
                thread.end(file.close)
                self._give_up_all()

    async def _write(self, thread: OneThread, file: LogFile) -> None:
        """Write batches until that can't be done for good."""
        pause_s = self._pace.pause_s
        await self._prune(thread, file)
        while self._problem is None or self._problem.is_temporary:
            if self._problem is not None:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._pace.longest_pause_s)
            if not await self._queue.wait(self._pace.batch_s, PRUNE_S):
                await self._prune(thread, file)
            elif await self._write_batch(thread, file):
                pause_s = self._pace.pause_s

    async def _finish(self, thread: OneThread, file: LogFile) -> None:
        """Write what is left, and close the file."""
        await self._settle()
        while len(self._queue) and await self._write_batch(thread, file):
            pass
        await thread.call(file.close)

    async def _prune(self, thread: OneThread, file: LogFile) -> None:
        was_there, error = await self._outcome(thread.call(partial(_tried, file.prune)))
        if error is not None:
            self._fails(error)
        elif was_there:
            self._works()
        self._tell()

    async def _write_batch(self, thread: OneThread, file: LogFile) -> bool:
        """Write the oldest events, and say whether that was done."""
        events = self._queue.take(self._pace.most_at_once)
        self._writing = _Writing(events, thread.call(partial(_tried, partial(file.write, events))))
        return await self._settle()

    async def _settle(self) -> bool:
        """Wait for the write that is under way, and say whether it was done; where this is cancelled it still is."""
        if self._writing is None:
            return True
        _, error = await self._outcome(self._writing.done)
        events, self._writing = self._writing.events, None
        if error is None:
            self.n_written += len(events)
            self.generation += 1
            self._works()
        else:
            self._fails(error)
            if error.cause in _WORTH_ANOTHER_TRY:
                self._queue.put_back(events)
            else:
                self._n_refused += len(events)
        self._tell()
        return error is None

    async def _outcome(self, done: asyncio.Future[_Outcome]) -> _Outcome:
        while not (await asyncio.wait([done], timeout=self._pace.hung_s))[0]:
            self._fails(UsageError("failing", self.path, f"a write takes over {self._pace.hung_s:g} s"))
            self._tell()
        return done.result()

    def _give_up_all(self) -> None:
        """Count what was not written as lost: nobody writes it any more."""
        writing, self._writing = self._writing, None
        self._n_refused += len(writing.events if writing else ()) + len(self._queue.take(len(self._queue)))
        self._tell()

    def _fails(self, error: UsageError) -> None:
        if self._problem is None:
            until = "that is done; it is tried again" if error.is_temporary else "the server is started again"
            logger.warning("%s; calls are answered and not logged until %s", error, until)
        self._problem = error

    def _works(self) -> None:
        if self._problem is not None:
            logger.info("the usage log is written again; %d events are lost", self.n_lost)
        self._problem = None

    def _tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _tried(call: Callable[[], bool]) -> _Outcome:
    """Return what a call in the thread gave, or its error: where nobody waits any more, nobody is told of it."""
    try:
        return call(), None
    except UsageError as error:
        return False, error
