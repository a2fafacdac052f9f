"""Work beside requests: bounded, and nobody's failure but its own."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.mcp.lifespan import MOST, BackgroundWork

pytestmark = pytest.mark.anyio


async def test_work_that_fails_ends_nothing_else():
    done = asyncio.Event()

    async def fail() -> None:
        raise ValueError("of its own")

    async def work() -> None:
        done.set()

    async with asyncio.TaskGroup() as group:
        background = BackgroundWork(lambda: group)
        assert background.start(fail())
        await asyncio.sleep(0)
        assert background.start(work())
        await done.wait()


async def test_no_more_is_started_than_there_is_room_for_and_room_is_made_by_what_ends():
    may_end = asyncio.Event()

    async def wait() -> None:
        await may_end.wait()

    async with asyncio.TaskGroup() as group:
        background = BackgroundWork(lambda: group)
        assert all(background.start(wait()) for _ in range(MOST))
        assert not background.start(wait())
        may_end.set()
        await asyncio.wait(background._tasks)
        assert background.start(wait())


async def test_nothing_is_started_where_no_server_runs():
    async def work() -> None:
        raise AssertionError("it was not to be started")

    assert not BackgroundWork(lambda: None).start(work())


async def test_nothing_is_started_while_the_server_stops():
    async def work() -> None:
        raise AssertionError("it was not to be started")

    async with asyncio.TaskGroup() as group:
        background = BackgroundWork(lambda: group)
    assert not background.start(work())
