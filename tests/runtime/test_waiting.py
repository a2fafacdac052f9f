"""Deadlines, calls that many share, and long work in turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_utilities.runtime import waiting
from agent_utilities.runtime.waiting import Deadline, NotRunningError, SingleFlight, in_turns

pytestmark = pytest.mark.anyio


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch):
    """Set the event loop's time."""

    def set_time(seconds: float) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: seconds)

    return set_time


async def test_what_is_left_goes_down_and_never_below_nothing(at):
    deadline = Deadline(100.0)
    at(90.0)
    assert deadline.left_s == 10.0
    at(101.0)
    assert deadline.left_s == 0.0


async def test_a_share_is_of_what_is_left_not_of_what_there_was(at):
    at(90.0)
    deadline = Deadline.after(10.0)
    at(96.0)
    assert deadline.share(0.5) == Deadline(98.0)


async def test_a_share_is_no_less_than_its_least(at):
    at(100.0)
    assert Deadline(100.0).share(0.5, least_s=0.25) == Deadline(100.25)


async def test_its_timeout_ends_at_the_same_point_wherever_it_begins():
    deadline = Deadline.after(0)
    with pytest.raises(TimeoutError):
        async with deadline.timeout():
            await asyncio.Event().wait()


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


pytestmark = pytest.mark.anyio


async def given() -> AsyncIterator[int]:
    for number in range(5):
        yield number


async def test_yields_all_in_order_from_either_kind_of_iterable() -> None:
    assert [number async for number in in_turns(range(5))] == [0, 1, 2, 3, 4]
    assert [number async for number in in_turns(given())] == [0, 1, 2, 3, 4]


async def test_others_run_whenever_the_time_of_a_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_TURN_S", -1.0)
    seen: list[str] = []

    async def work(name: str) -> None:
        async for number in in_turns(range(3)):
            seen.append(f"{name}{number}")

    await asyncio.gather(work("a"), work("b"))
    assert seen == ["a0", "b0", "a1", "b1", "a2", "b2"]
