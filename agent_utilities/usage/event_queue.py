"""Events on their way to the log: taken in at no cost, and never more than a bound, however long nothing is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from agent_utilities.usage.events import Event, Listed

_EVENT_BYTES = 700
"""What an event takes at most without its words: the object, its place, and texts that it has to itself."""
_CHARACTER_BYTES = 4


class EventQueue:
    """Events in their order, bounded by what they weigh: the oldest go where there is no room. For one event loop.

    Args:
        most_bytes: what the events may weigh together.
        batch: how many are worth writing at once, without waiting for more.
    """

    def __init__(self, most_bytes: int, batch: int) -> None:
        self.n_dropped = 0
        self._most_bytes = most_bytes
        self._batch = batch
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._in_haste = False
        self._some = self._many = asyncio.Event()
        self.attach()

    def __len__(self) -> int:
        return len(self._events)

    def attach(self) -> None:
        """Wait on the event loop that runs from now on."""
        self._some, self._many = asyncio.Event(), asyncio.Event()
        self._tell()

    def put(self, event: Event) -> None:
        """Take an event in."""
        self._events.append(event)
        self._bytes += _weight(event)
        if self._bytes > self._most_bytes:
            self._drop()
        self._tell()

    def put_back(self, events: Iterable[Event]) -> None:
        """Take events in again that were taken, before all others."""
        events = list(events)
        self._events.extendleft(reversed(events))
        self._bytes += sum(map(_weight, events))
        self._drop()
        self._tell()

    def take(self, most: int) -> list[Event]:
        """Return the oldest events, which leave the queue."""
        events = [self._events.popleft() for _ in range(min(most, len(self._events)))]
        self._bytes -= sum(map(_weight, events))
        if not self._events:
            self._some.clear()
            self._in_haste = False
        if not self._in_haste and len(self._events) < self._batch:
            self._many.clear()
        return events

    def hurry(self) -> None:
        """Have `wait` wait for no more than there is."""
        self._in_haste = bool(self._events)
        self._tell()

    async def wait(self, for_more_s: float, for_any_s: float) -> bool:
        """Wait for an event, and then for a batch; say whether there is an event.

        Args:
            for_more_s: seconds that an event may wait for others.
            for_any_s: seconds to wait for the first one.
        """
        if not await _within(self._some, for_any_s):
            return False
        await _within(self._many, for_more_s)
        return True

    def _tell(self) -> None:
        if self._events:
            self._some.set()
        if self._in_haste or len(self._events) >= self._batch:
            self._many.set()

    def _drop(self) -> None:
        while self._bytes > self._most_bytes:
            self._bytes -= _weight(self._events.popleft())
            self.n_dropped += 1


async def _within(event: asyncio.Event, seconds: float) -> bool:
    if not event.is_set():
        try:
            # Not `wait_for`: in Python 3.11 it swallows a cancellation that comes with the event.
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
    return True


def _weight(event: Event) -> int:
    return _EVENT_BYTES if isinstance(event, Listed) else _EVENT_BYTES + _CHARACTER_BYTES * len(event.request)
