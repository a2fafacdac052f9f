"""The log that servers write calls to: behind them, in batches, and never so that a call waits or fails for it.

The event loop puts events in a queue that is bounded; one daemon thread takes them out, opens the file, writes and
prunes it, and tells the event loop what came of each try. A disk that hangs holds back neither a call nor a stop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.runtime.waiting import ended
from agent_utilities.usage.errors import UsageError, usage_error
from agent_utilities.usage.model import Event, Listed, UsageBounds
from agent_utilities.usage.redaction import without_secrets

if TYPE_CHECKING:  # SQLite is loaded by the thread, and by no server that logs nothing
    from agent_utilities.usage.store import UsageStore

logger = logging.getLogger("agent_utilities.usage")

PRUNE_S = 3600.0
"""The most seconds between two looks at what is too old."""
_EVENT_BYTES = 700
"""What an event takes at most without its words: the object, its place, and texts that it has to itself."""
_CHARACTER_BYTES = 4
_WORTH_ANOTHER_TRY = frozenset({"locked", "full", "read-only"})
"""Causes that have nothing to do with what was to be written."""


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
        end_s: seconds that a stop waits for what is not yet written.
    """

    batch_s: float = 0.4
    batch: int = 200
    most_at_once: int = 1_000
    most_bytes: int = 8 << 20
    pause_s: float = 1.0
    longest_pause_s: float = 60.0
    end_s: float = 2.0


_PACE = Pace()


class EventQueue:
    """Events in their order, on their way from the event loop to the thread that writes them.

    They are bounded by what they weigh together, in bytes: the oldest go where there is no room. A batch of them is
    worth writing without waiting for more.
    """

    def __init__(self, most_bytes: int, batch: int) -> None:
        self.n_dropped = 0
        self._most_bytes = most_bytes
        self._batch = batch
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._in_haste = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Take an event in."""
        with self._changed:
            self._events.append(event)
            self._bytes += _weight(event)
            if self._bytes > self._most_bytes:
                self._drop()
            if len(self._events) in (1, self._batch):
                self._changed.notify()

    def put_back(self, events: Sequence[Event]) -> None:
        """Take events in again that were taken, before all others."""
        with self._changed:
            self._events.extendleft(reversed(events))
            self._bytes += sum(map(_weight, events))
            self._drop()

    def pop(self, most: int) -> list[Event]:
        """Return the oldest events, which leave the queue."""
        with self._changed:
            events = [self._events.popleft() for _ in range(min(most, len(self._events)))]
            self._bytes -= sum(map(_weight, events))
            self._in_haste = self._in_haste and bool(self._events)
            return events

    def hurry(self) -> None:
        """Have `wait` wait for no more than there is."""
        with self._changed:
            self._in_haste = True
            self._changed.notify()

    def wait(self, for_more_s: float, for_any_s: float) -> None:
        """Wait for an event, and then for a batch."""
        with self._changed:
            if self._changed.wait_for(lambda: self._in_haste or bool(self._events), for_any_s):
                self._changed.wait_for(lambda: self._in_haste or len(self._events) >= self._batch, for_more_s)

    def _drop(self) -> None:
        while self._bytes > self._most_bytes:
            self._bytes -= _weight(self._events.popleft())
            self.n_dropped += 1


def _weight(event: Event) -> int:
    return _EVENT_BYTES if isinstance(event, Listed) else _EVENT_BYTES + _CHARACTER_BYTES * len(event.request)


class _Writer:
    """Writes a log's events in a daemon thread, for which the process need not wait.

    It tells of each try how many events were written, how many never will be, and why, if it failed.
    """

    def __init__(
        self,
        path: Path,
        bounds: UsageBounds,
        pace: Pace,
        queue: EventQueue,
        *,
        tell: Callable[[int, int, UsageError | None], None],
        end: Callable[[], None],
    ) -> None:
        self._path, self._bounds, self._pace, self._queue = path, bounds, pace, queue
        self._tell, self._end = tell, end
        self._store: UsageStore | None = None
        self._prune_at_s = 0.0
        self._stopping = threading.Event()
        # Most calls of a turn have its words; each takes some 100 µs to look through.
        self._without_secrets = lru_cache(maxsize=128)(without_secrets)

    def start(self) -> None:
        """Begin to write."""
        threading.Thread(target=self._work, name="usage", daemon=True).start()

    def stop(self) -> None:
        """Have it write what is left, if that can be done, and end."""
        self._stopping.set()
        self._queue.hurry()

    def _work(self) -> None:
        try:
            pause_s, error = self._pace.pause_s, self._try([])
            while not self._stopping.is_set() and (error is None or error.is_temporary):
                if error is not None and self._stopping.wait(pause_s):
                    break
                pause_s = self._pace.pause_s if error is None else min(2 * pause_s, self._pace.longest_pause_s)
                self._queue.wait(self._pace.batch_s, PRUNE_S)
                error = self._try(self._queue.pop(self._pace.most_at_once))
            while (events := self._queue.pop(self._pace.most_at_once)) and self._try(events) is None:
                pass
            self._close()
        finally:
            self._end()

    def _try(self, events: list[Event]) -> UsageError | None:
        """Write events, and prune where that is due; return why that can't be done."""
        try:
            if events:
                self._opened().write([self._redacted(event) for event in events])
        except Exception as why:
            self._close()
            error = usage_error(why, self._path)
            is_lost = error.cause not in _WORTH_ANOTHER_TRY
            if not is_lost:
                self._queue.put_back(events)
            self._tell(0, len(events) if is_lost else 0, error)
            return error
        trouble = self._prune()
        if events:  # they are written; the next ones fail where this is worth telling
            trouble = None
        self._tell(len(events), 0, trouble)
        return trouble

    def _redacted(self, event: Event) -> Event:
        if isinstance(event, Listed) or not event.request:
            return event
        return replace(event, request=self._without_secrets(event.request))

    def _prune(self) -> UsageError | None:
        """Delete what is too old or too much, where there is a file and that is due; return why it can't be done."""
        try:
            if self._store is not None or self._path.exists():
                store = self._opened()
                if store.is_due or time.monotonic() >= self._prune_at_s:
                    self._prune_now(store)
        except Exception as why:
            self._close()
            return usage_error(why, self._path)
        return None

    def _prune_now(self, store: UsageStore) -> None:
        store.prune(int(time.time() * 1000))
        self._prune_at_s = time.monotonic() + PRUNE_S

    def _opened(self) -> UsageStore:
        if self._store is None:
            from agent_utilities.usage.store import UsageStore

            self._store = UsageStore(self._path, self._bounds)
            self._prune_now(self._store)  # one that was too full to write may have room again
        return self._store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


class UsageLog:
    """A log of calls, written by one thread; several processes may write one file, which is made with the first event.

    Whatever becomes of the file, `record` goes on, and nothing is raised: there is one warning when logging stops, and
    one line when it works again.
    """

    def __init__(self, path: Path, bounds: UsageBounds, pace: Pace = _PACE) -> None:
        self.path = path
        self.generation = 0
        """How many batches were written: where it has not changed, this process has written nothing new."""
        self.n_written = 0
        self.on_written: Callable[[], None] = lambda: None
        """Called after each batch that was written."""
        self.problem: UsageError | None = None
        """Why nothing is written just now, if so."""
        self._bounds = bounds
        self._pace = pace
        self._queue = EventQueue(pace.most_bytes, pace.batch)
        self._n_recorded = 0
        self._n_refused = 0
        self._is_over = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def n_lost(self) -> int:
        """How many events were recorded and never will be written."""
        return self._n_refused + self._queue.n_dropped

    def record(self, event: Event) -> None:
        """Have an event logged: microseconds, and no I/O. For the event loop that `run` is on."""
        self._n_recorded += 1
        if self.problem is None or self.problem.is_temporary:
            self._queue.put(event)
        else:
            self._n_refused += 1

    def health(self) -> dict[str, str | int]:
        """Return the state for `/ready`: nothing of it keeps a server from being ready."""
        state = "logging" if self.problem is None else "failing" if self.problem.is_temporary else "stopped"
        counts = {"n_written": self.n_written, "n_waiting": len(self._queue), "n_lost": self.n_lost}
        return {"state": state, "cause": self.problem.cause if self.problem else "", **counts}

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
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def in_loop(heard: Callable[..., object], *what: object) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(heard, *what)

        tell, end = partial(in_loop, self._settle), partial(in_loop, over.set)
        writer = _Writer(self.path, self._bounds, self._pace, self._queue, tell=tell, end=end)
        writer.start()
        ending = asyncio.create_task(over.wait())
        try:
            await asyncio.wait([ending])
        finally:
            writer.stop()
            try:
                await ended(ending, self._pace.end_s)
            finally:
                ending.cancel()
                self._give_up_all()

    def _settle(self, n_written: int, n_refused: int, error: UsageError | None) -> None:
        """Note what came of a try, and have those look who wait for something."""
        if self._is_over:  # it hung for so long that what it has was given up
            return
        if n_written:
            self.n_written += n_written
            self.generation += 1
            self.on_written()
        self._n_refused += n_refused
        if error is not None and self.problem is None:
            until = "that is done; it is tried again" if error.is_temporary else "the server is started again"
            logger.warning("%s; calls are answered and not logged until %s", error, until)
        elif error is None and self.problem is not None:
            logger.info("the usage log is written again; %d events are lost", self.n_lost)
        self.problem = error
        self._wake_waiters()

    def _give_up_all(self) -> None:
        """Count what was not written as lost: nobody writes it any more."""
        self._is_over = True
        self._queue.pop(len(self._queue))
        self._n_refused = self._n_recorded - self.n_written - self._queue.n_dropped
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
