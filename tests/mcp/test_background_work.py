"""Work beside requests: bounded, and nobody's failure but its own."""

from __future__ import annotations

import asyncio

import pytest
from fastmcp import Client

from agent_utilities.mcp.changes.changes import MOST_WORK
from tests.mcp.servers import log_server

pytestmark = pytest.mark.anyio


async def test_work_that_fails_ends_nothing_else():
    done, server = asyncio.Event(), log_server()

    async def fail() -> None:
        raise ValueError("of its own")

    async def work() -> None:
        done.set()

    async with Client(server):
        assert server.start(fail())
        await asyncio.sleep(0)
        assert server.start(work())
        await done.wait()


async def test_no_more_is_started_than_there_is_room_for_and_room_is_made_by_what_ends():
    may_end, server = asyncio.Event(), log_server()

    async def wait() -> None:
        await may_end.wait()

    async with Client(server):
        assert all(server.start(wait()) for _ in range(MOST_WORK))
        assert not server.start(wait())
        may_end.set()
        await asyncio.wait(server.changes._work)
        assert server.start(wait())


async def test_nothing_is_started_where_no_server_runs():
    server = log_server()

    async def work() -> None:
        raise AssertionError("it was not to be started")

    assert not server.start(work())
    async with Client(server):
        pass
    assert not server.start(work())


async def test_nothing_is_started_while_the_server_stops():
    server, refused = log_server(), []

    async def work() -> None:
        raise AssertionError("it was not to be started")

    async def until_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            refused.append(not server.start(work()))

    async with Client(server):
        assert server.start(until_the_end())
        await asyncio.sleep(0)
    assert refused == [True]
