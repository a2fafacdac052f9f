"""One call for everybody who asks for the same thing at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.runtime.deadline import Deadline

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class NotRunningError(AgentUtilitiesError, RuntimeError):
    """Nothing can be asked: the service has not started, or is stopping."""


class SingleFlight(Generic[_K, _V]):
    """Runs one call a key at a time, and gives what it brings to all who wait for it.

    A flight belongs to the task group, not to the one who asked first: it goes on when they stop waiting, and what it
    brings may still be remembered. The calls must not raise, since that would end the whole group.
    """

    def __init__(self) -> None:
        self.group: asyncio.TaskGroup | None = None
        """What owns the flights; set while the service runs."""
        self._flights: dict[_K, asyncio.Task[_V]] = {}

    def __contains__(self, key: _K) -> bool:
        """Whether a flight for a key is under way."""
        return key in self._flights

    async def join(self, key: _K, call: Callable[[], Coroutine[Any, Any, _V]], deadline: Deadline) -> _V:
        """Return what the flight for a key brings; it is started where none is under way.

        Args:
            key: what is asked for.
            call: makes the flight; not called where one is under way.
            deadline: until when this caller waits.

        Raises:
            TimeoutError: the deadline passed; the flight goes on.
            NotRunningError: there is no task group, or the flight was ended by its group.
        """
        flight = self._flights.get(key)
        if flight is None:
            if self.group is None:
                raise NotRunningError("not running")
            flight = self._flights[key] = self.group.create_task(call())
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        done, _ = await asyncio.wait([flight], timeout=deadline.left_s)
        if not done:
            raise TimeoutError
        if flight.cancelled():
            raise NotRunningError("stopping")
        return flight.result()
