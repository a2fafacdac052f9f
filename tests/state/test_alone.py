"""What one process at a time does, of all that share a Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.sealed_store import read_key
from agent_utilities.state import redis_state as module
from agent_utilities.state.redis_state import RedisState
from tests.fleet.processes.replicas import KEY, Shared, shared_redis, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]
TURN = "agent-utilities:s:renewal:{one}"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with shared_redis(tmp_path) as shared:
        yield shared


@pytest.fixture
async def states(shared: Shared) -> AsyncIterator[list[RedisState]]:
    states = [RedisState(shared.url(), "agent-utilities", "s", read_key(KEY, "")) for _ in range(2)]
    yield states
    for state in states:
        await state.close()


async def test_is_done_by_one_after_the_other(states: list[RedisState], shared: Shared) -> None:
    within, most = 0, 0

    async def work(state: RedisState) -> None:
        nonlocal within, most
        async with state.alone("renewal", "one"):
            within += 1
            most = max(most, within)
            await state.load("any", "thing")
            within -= 1

    await asyncio.gather(*(work(state) for state in 5 * states))
    assert most == 1
    assert not shared.admin.exists(TURN)


async def test_of_another_name_waits_for_nothing(states: list[RedisState]) -> None:
    here, there = states
    async with here.alone("renewal", "one"), there.alone("renewal", "other"):
        pass


async def test_is_not_waited_for_for_ever_and_ends_nobody_elses(
    states: list[RedisState], shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALONE_S", 0.3)
    shared.admin.set(TURN, "somebody's")  # who was killed would have it end by itself
    began_s = time.monotonic()
    async with states[0].alone("renewal", "one"):
        assert time.monotonic() - began_s < 5
    assert shared.admin.get(TURN) == b"somebody's"


async def test_that_took_too_long_ends_quietly_and_leaves_the_next_one_alone(
    states: list[RedisState], shared: Shared
) -> None:
    here = states[0]
    async with here.alone("renewal", "one"):
        shared.admin.set(TURN, "the next one's")
    assert shared.admin.get(TURN) == b"the next one's"
    assert here.cause == ""


async def test_needs_no_redis_and_lets_an_error_through(states: list[RedisState], shared: Shared) -> None:
    shared.kill()
    with pytest.raises(ValueError, match="mine"):
        async with states[0].alone("renewal", "one"):
            raise ValueError("mine")
    shared.start()


async def test_that_another_does_for_long_is_waited_for_and_no_failure_of_redis(
    states: list[RedisState], shared: Shared
) -> None:
    here, there = states
    there.wait_s = 0.5  # which one question may take, and no more
    ends: list[str] = []

    async def next_one() -> None:
        async with there.alone("renewal", "one"):
            ends.append("next")

    async with here.alone("renewal", "one"):
        waiting = asyncio.create_task(next_one())
        before = shared.commands()
        await until(lambda: shared.commands() - before > 80)  # of its questions, and some of this one's
        ends.append("first")
    await waiting
    assert (ends, there.cause) == (["first", "next"], "")
