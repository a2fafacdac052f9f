"""Places to start in."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.upstream.supervision.opening import StartSlots

pytestmark = pytest.mark.anyio


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


class Starts:
    """Starts that go on until they are let end."""

    def __init__(self, slots: StartSlots) -> None:
        self._slots = slots
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, *, is_urgent: bool = False) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, is_urgent))

    def end(self, name: str) -> None:
        self._ends[name].set()

    async def _run(self, name: str, is_urgent: bool) -> None:
        async with self._slots.taking(lambda: is_urgent):
            self.begun.append(name)
            await self._ends[name].wait()


async def test_so_many_at_once_and_at_once_what_somebody_waits_for():
    starts = Starts(StartSlots(1, longest_s=3600))
    starts.begin("a")
    await settled()
    starts.begin("b")
    starts.begin("c", is_urgent=True)
    await settled()
    assert starts.begun == ["a", "c"]
    for name in "acb":
        starts.end(name)
    await asyncio.gather(*starts.tasks.values())
    assert starts.begun == ["a", "c", "b"]


async def test_one_that_is_given_up_while_it_waits_takes_no_place():
    starts = Starts(StartSlots(1, longest_s=3600))
    for name in "abc":
        starts.begin(name)
    await settled()
    starts.tasks["b"].cancel()
    starts.end("a")
    await settled()
    assert starts.begun == ["a", "c"]
    starts.end("c")
    await starts.tasks["c"]


async def test_a_place_is_given_back_after_a_while_and_once():
    starts = Starts(StartSlots(1, longest_s=0.01))
    for name in "abc":
        starts.begin(name)
    async with asyncio.timeout(30):
        while len(starts.begun) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    for name in "abc":
        starts.end(name)
    await asyncio.gather(*starts.tasks.values())
    starts.begin("d")
    starts.begin("e")
    await settled()
    assert starts.begun[3:] == ["d"]
    starts.end("d")
    starts.end("e")
    await asyncio.gather(*starts.tasks.values())


async def test_one_that_somebody_begins_to_wait_for_goes_at_once():
    slots, is_urgent, begun = StartSlots(1, longest_s=3600), False, asyncio.Event()

    async def start() -> None:
        async with slots.taking(lambda: is_urgent):
            begun.set()

    async with slots.taking(lambda: False):
        task = asyncio.create_task(start())
        await settled()
        assert not begun.is_set()
        is_urgent = True
        slots.look_again()
        await begun.wait()
    await task
