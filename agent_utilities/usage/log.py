"""`UsageLog` writes events to a file in the background, in batches; no call waits for it or fails by it.

Events wait in a bounded queue. A daemon thread takes one batch after another, and opens, writes and prunes the file: a
disk that hangs delays neither a call nor a stop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.runtime.waiting import ended, in_daemon_thread, is_set
from agent_utilities.usage.model import PRUNE_S, Call, Entry, Listed, Read, Search, UsageBounds, UsageError, usage_error
from agent_utilities.usage.redaction import without_secrets

if TYPE_CHECKING:  # SQLite is loaded by the thread, and by no server that logs nothing
    from agent_utilities.usage.store import UsageStore

logger = logging.getLogger("agent_utilities.usage")

_EVENT_BYTES = 700
"""The most that an event takes without its words: the object, its slot, and its own texts."""
_CHARACTER_BYTES = 4
_WORTH_ANOTHER_TRY = frozenset({"locked", "full", "read-only"})
"""Causes that don't lie in the events: these are written again later."""


class UsageLog:
    """A log of calls, written by one thread at a time; several processes may write one file.

    The file is made with the first event. Whatever becomes of it, `record` goes on, and nothing is raised: there is
    one warning when logging stops, and one line when it works again.
    """

    batch_s = 0.4
    """Seconds that an event waits for others; a kill loses those of less than a second."""
    most_bytes = 8 << 20
    """The most bytes of waiting events; the oldest are dropped first."""
    pause_s = 5.0
    """Seconds until a failed write is tried again."""
    end_s = 2.0
    """Seconds that a stop waits for what is not yet written."""

    def __init__(self, path: Path, bounds: UsageBounds) -> None:
        self.path = path
        self.n_recorded = 0
        self.n_written = 0
        self.n_lost = 0
        """How many events were recorded and never will be written."""
        self.on_written: Callable[[], None] = lambda: None
        """Called after each batch that was written."""
        self.problem: UsageError | None = None
        """The error of the last write; None while writing works."""
        self._bounds = bounds
        self._store: UsageStore | None = None
        """The open file; used by the thread alone."""
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._any, self._stopping = asyncio.Event(), asyncio.Event()
        self._is_given_up = False
        # Most calls of a turn have its words; each takes some 100 µs to look through.
        self._without_secrets = lru_cache(maxsize=128)(without_secrets)

    def record(self, event: Entry) -> None:
        """Queue an event, without I/O; call it on the event loop of `run`."""
        self.n_recorded += 1
        if self.problem is not None and not self.problem.is_temporary:
            self.n_lost += 1
            return
        self._waiting.append(event)
        self._bound(_weight(event))

    def health(self) -> dict[str, str | int]:
        """Return the state for `/ready`; a failing log does not make a server unready."""
        state = "logging" if self.problem is None else "failing" if self.problem.is_temporary else "stopped"
        counts = {"n_written": self.n_written, "n_waiting": len(self._waiting), "n_lost": self.n_lost}
        return {"state": state, "cause": self.problem.cause if self.problem else "", **counts}

    async def run(self) -> None:
        """Write recorded events until cancelled; then the rest, for at most `end_s` seconds."""
        writing = asyncio.create_task(self._write_batches())
        try:
            await asyncio.wait([writing])
        finally:
            self._stopping.set()
            self._any.set()
            try:
                await ended(writing, self.end_s)
            finally:
                self._is_given_up = True
                writing.cancel()
                self.n_lost = self.n_recorded - self.n_written  # nobody writes the rest any more
                self._waiting.clear()

    async def _write_batches(self) -> None:
        await self._try()
        while not self._stopping.is_set() and (self.problem is None or self.problem.is_temporary):
            if self.problem is not None:
                await is_set(self._stopping, within_s=self.pause_s)
            await is_set(self._any, within_s=PRUNE_S)
            await is_set(self._stopping, within_s=self.batch_s)
            await self._try()
        if self._waiting:
            await self._try()
        await in_daemon_thread(self._close)

    async def _try(self) -> None:
        """Write all waiting events in a thread, and note success or failure."""
        events, self._bytes = list(self._waiting), 0
        self._waiting.clear()
        self._any.clear()
        try:
            await in_daemon_thread(partial(self._write, events))
        except Exception as why:
            error = usage_error(why, self.path)
            if error.cause in _WORTH_ANOTHER_TRY:
                self._waiting.extendleft(reversed(events))
                self._bound(sum(map(_weight, events)))
            else:
                self.n_lost += len(events)
            if self.problem is None:
                until = "that is done; it is tried again" if error.is_temporary else "the server is started again"
                logger.warning("%s; calls are answered and not logged until %s", error, until)
            self.problem = error
        else:
            if self.problem is not None:
                logger.info("the usage log is written again; %d events are lost", self.n_lost)
            self.problem = None
            if events:
                self.n_written += len(events)
                self.on_written()

    def _bound(self, n_added: int) -> None:
        """Count bytes added to the queue, and drop the oldest events while it is over its bound."""
        self._bytes += n_added
        while self._bytes > self.most_bytes:
            self._bytes -= _weight(self._waiting.popleft())
            self.n_lost += 1
        if self._waiting:
            self._any.set()

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _write(self, events: list[Entry]) -> None:
        """Write events, and prune where that is due; without a file and events, create nothing."""
        if self._store is None and not events and not self.path.exists():
            return
        try:
            if self._store is None:
                from agent_utilities.usage.store import UsageStore

                self._store = UsageStore(self.path, self._bounds)
                self._store.prune(_now_ms())  # one that was too full to write may have room again
            self._store.write([self._redacted(event) for event in events])
        except BaseException:
            self._close()
            raise
        if self._store.is_due:
            with suppress(UsageError):  # what was to be written is; the next write fails where this is worth telling
                self._store.prune(_now_ms())
        if self._is_given_up:  # nobody waits for this thread any more
            self._close()

    def _redacted(self, event: Entry) -> Entry:
        if isinstance(event, Read):  # names of fields may be keys of a mapping, such as tokens by their users
            is_plain = not event.projection or self._without_secrets(event.projection) == event.projection
            return event if is_plain else replace(event, projection="")
        if isinstance(event, Listed) or not event.request:
            return event
        return replace(event, request=self._without_secrets(event.request))

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _weight(event: Entry) -> int:
    return _EVENT_BYTES + _CHARACTER_BYTES * (len(event.request) if isinstance(event, Call | Search) else 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
