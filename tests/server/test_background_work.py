"""Work beside requests: bounded, and nobody's failure but its own."""

from __future__ import annotations

import asyncio

import pytest
from fastmcp import Client
from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from agent_utilities.server.changes.changes import MOST_WORK, MOST_WORK_OF_ALL
from tests.server.servers import log_server

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
    may_end, server, under_way = asyncio.Event(), log_server(), list[asyncio.Task[None]]()

    async def wait() -> None:
        under_way.append(asyncio.current_task())
        await may_end.wait()

    async with Client(server):
        assert all(server.start(wait()) for _ in range(MOST_WORK))
        assert not server.start(wait())
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait(under_way)
        assert server.start(wait())


async def test_who_fills_their_room_takes_none_of_another_caller_and_all_together_have_a_bound():
    may_end, server = asyncio.Event(), log_server()

    async def wait() -> None:
        await may_end.wait()

    def n_started(name: str) -> int:
        before = auth_context_var.set(AuthenticatedUser(AccessToken(token=name, client_id=name, scopes=[])))
        try:
            return sum(server.start(wait()) for _ in range(MOST_WORK + 1))
        finally:
            auth_context_var.reset(before)

    async with Client(server):
        callers = [n_started(f"caller {number}") for number in range(MOST_WORK_OF_ALL // MOST_WORK + 1)]
        may_end.set()
    assert callers == [MOST_WORK] * (MOST_WORK_OF_ALL // MOST_WORK) + [0]


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
