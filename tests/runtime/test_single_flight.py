"""One call for all who ask for the same thing at once; it outlives those who stop waiting."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.runtime.deadline import Deadline
from agent_utilities.runtime.single_flight import NotRunningError, SingleFlight

pytestmark = pytest.mark.anyio


class Held:
    """A call that answers when it is let go, and counts how often it was made."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.go = asyncio.Event()

    async def __call__(self) -> str:
        self.n_calls += 1
        await self.go.wait()
        return "done"


async def test_those_who_ask_together_share_one_call():
    flights: SingleFlight[str, str] = SingleFlight()
    call = Held()
    async with asyncio.TaskGroup() as group:
        flights.group = group
        asked = [group.create_task(flights.join("key", call, Deadline.after(30))) for _ in range(3)]
        await asyncio.sleep(0)
        call.go.set()
    assert ([task.result() for task in asked], call.n_calls) == (["done"] * 3, 1)


async def test_who_asks_afterwards_starts_another():
    flights: SingleFlight[str, str] = SingleFlight()
    call = Held()
    call.go.set()
    async with asyncio.TaskGroup() as group:
        flights.group = group
        await flights.join("key", call, Deadline.after(30))
        await flights.join("key", call, Deadline.after(30))
    assert call.n_calls == 2


async def test_a_flight_goes_on_when_its_caller_stops_waiting():
    flights: SingleFlight[str, str] = SingleFlight()
    call = Held()
    async with asyncio.TaskGroup() as group:
        flights.group = group
        with pytest.raises(TimeoutError):
            await flights.join("key", call, Deadline.after(0))
        assert "key" in flights
        call.go.set()
        assert await flights.join("key", call, Deadline.after(30)) == "done"
    assert call.n_calls == 1


async def test_a_caller_that_is_cancelled_takes_the_flight_from_nobody():
    flights: SingleFlight[str, str] = SingleFlight()
    call = Held()
    async with asyncio.TaskGroup() as group:
        flights.group = group
        first = group.create_task(flights.join("key", call, Deadline.after(30)))
        second = group.create_task(flights.join("key", call, Deadline.after(30)))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        call.go.set()
        assert await second == "done"
    assert call.n_calls == 1


async def test_nothing_flies_without_a_group():
    flights: SingleFlight[str, str] = SingleFlight()
    with pytest.raises(NotRunningError):
        await flights.join("key", Held(), Deadline.after(30))


async def test_those_who_wait_are_told_when_the_service_stops():
    flights: SingleFlight[str, str] = SingleFlight()
    stop = asyncio.Event()

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            flights.group = group
            await stop.wait()
            raise asyncio.CancelledError

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(flights.join("key", Held(), Deadline.after(30)))
    await asyncio.sleep(0)
    stop.set()
    with pytest.raises(NotRunningError):
        await waiting
    await asyncio.wait([serving])
