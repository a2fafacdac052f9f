"""Counts of replicas in a real Redis: all or nothing by one script, and what nobody here wrote counts as none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.state.counts import Wanted
from agent_utilities.state.redis_state import RedisState
from agent_utilities.state.shared_counts import SharedCounts
from tests.every import every
from tests.fleet.processes.services import redis_server

pytestmark = [pytest.mark.outside, pytest.mark.anyio]
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


class Patient(RedisState):
    """Waits for Redis however busy this machine is."""

    wait_s = 60.0


@pytest.fixture
async def state(server: Any) -> AsyncIterator[Patient]:
    server.flush()
    made = Patient(server.url(), "agent-utilities", "one", KEY)
    yield made
    await made.close()


def counts(state: RedisState) -> SharedCounts:
    return SharedCounts(state, 60, 100)


def calls(of: str = "ann", n: int = 1, limit: int | None = 2) -> Wanted:
    return Wanted(of, "calls", n, limit)


async def n_taken(kept: SharedCounts, *wanted: Wanted) -> int:
    """Return how often all of it was counted before any was full, of nine times."""
    for number in range(9):
        if await kept.take(wanted):
            return number
    return 9


class TestReplicas:
    async def test_count_together_and_are_told_when_the_window_ends(self, state: Patient) -> None:
        here, there = counts(state), counts(state)
        assert [await each.take([calls()]) for each in (here, there)] == [{}, {}]
        for each in (there, here):
            ((full, left_s),) = (await each.take([calls()])).items()
            assert full == calls()
            assert 50 < left_s <= 60

    async def test_that_ask_at_once_take_no_more_than_there_is(self, state: Patient) -> None:
        asked = await asyncio.gather(*(counts(state).take([calls(limit=7)]) for _ in range(30)))
        assert asked.count({}) == 7

    async def test_count_nothing_where_anything_is_full(self, state: Patient, server: Any) -> None:
        await counts(state).take([calls("ann", n=2)])
        told = await asyncio.gather(*(counts(state).take([calls("tool"), calls("ann")]) for _ in range(20)))
        assert all(list(each) == [calls("ann")] for each in told)
        assert len(list(server.admin.scan_iter())) == 1

    async def test_know_a_full_count_without_asking_again(self, state: Patient, server: Any) -> None:
        here = counts(state)
        await counts(state).take([calls(n=2)])
        await here.take([calls()])
        before = server.commands()
        assert list(await here.take([calls()])) == [calls()]
        assert server.commands() - before <= 1

    async def test_ask_whether_there_may_be_more_without_counting(self, state: Patient, server: Any) -> None:
        assert await n_taken(counts(state), calls(n=0)) == 9
        assert list(server.admin.scan_iter()) == []

    async def test_count_what_nothing_bounds(self, state: Patient) -> None:
        await counts(state).take([calls(n=1000, limit=None)])
        assert list(await counts(state).take([calls(limit=1000)])) == [calls(limit=1000)]

    async def test_begin_a_window_that_is_no_longer_than_theirs(self, state: Patient, server: Any) -> None:
        here = counts(state)
        await here.take([calls(limit=9)])
        (key,) = server.admin.scan_iter()
        server.admin.pexpire(key, 20_000)
        await here.take([calls(limit=9)])
        assert 15_000 < server.admin.pttl(key) <= 20_000

    async def test_count_for_whoever_a_token_names_however_their_name_is_written(self, state: Patient) -> None:
        """JSON may have half a sign of two, which no file and no key can be named after."""
        here, there = counts(state), counts(state)
        for name in ("\ud800", "\udfff", "é", ""):
            assert [await each.take([calls(name)]) for each in (here, there)] == [{}, {}]
            assert list(await here.take([calls(name)])) == [calls(name)]


class TestOwnCounts:
    """Who may write to Redis lets nobody have more than where each replica counts by itself."""

    async def test_hold_where_redis_forgot_and_are_written_back_with_what_is_left_of_their_window(
        self, state: Patient, server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, there = counts(state), counts(state)
        await here.take([calls(n=2, limit=5)])
        server.admin.flushdb()
        monkeypatch.setattr("agent_utilities.state.counts.monotonic", lambda now=here._kept: _later(now, 40))
        await here.take([calls(limit=5)])
        (key,) = server.admin.scan_iter()
        assert server.admin.get(key) == b"3"
        assert 10_000 < server.admin.pttl(key) <= 20_000
        assert await n_taken(there, calls(limit=5)) == 2

    async def test_hold_where_redis_forgets_between_calls_that_come_at_once(self, state: Patient, server: Any) -> None:
        here = counts(state)
        await here.take([calls(n=9, limit=10)])
        server.admin.flushdb()
        assert (await asyncio.gather(*(here.take([calls(limit=10)]) for _ in range(5)))).count({}) == 1

    async def test_hold_where_redis_has_a_count_end_at_once(self, state: Patient, server: Any) -> None:
        here = counts(state)
        await here.take([calls()])
        (key,) = server.admin.scan_iter()
        server.admin.set(key, 0, px=60_000)
        server.admin.pexpire(key, 20)
        await here.take([calls()])
        await asyncio.sleep(0.03)
        assert list(await here.take([calls()])) == [calls()]

    async def test_hold_while_redis_does_not_answer_for_calls_that_come_at_once(self, tmp_path: Path) -> None:
        with redis_server(tmp_path) as gone:
            state = RedisState(gone.url(), "agent-utilities", "one", KEY)
            gone.kill()
            asked = await asyncio.gather(*(counts(state).take([calls("other")]) for _ in range(2)))
            here = counts(state)
            assert (await asyncio.gather(*(here.take([calls()]) for _ in range(9)))).count({}) == 2
            assert asked == [{}, {}]
            gone.start()
            await state.close()


def _later(kept: Any, seconds: float) -> float:
    """Return a time so many seconds after the windows began, of those that are kept."""
    return float(min(ends_s for _, ends_s in kept.values()) - 60 + seconds)


class TestWhatIsNoCountOfOurs:
    @every("value", ["abc", "", "-1000", "1e3", "0x10", " 7", "7.5", "nan", "inf", "9" * 16, "7\n"])
    async def test_counts_as_none_where_it_is_no_whole_number(self, value: str, state: Patient, server: Any) -> None:
        await counts(state).take([calls()])
        (key,) = server.admin.scan_iter()
        server.admin.set(key, value, px=30_000)
        assert await n_taken(counts(state), calls()) == 2
        assert server.admin.get(key) == b"2"

    @every("kind", ["list", "set", "hash", "stream"])
    async def test_counts_as_none_where_it_is_of_another_type(self, kind: str, state: Patient, server: Any) -> None:
        await counts(state).take([calls()])
        (key,) = server.admin.scan_iter()
        server.admin.delete(key)
        put = {"list": server.admin.rpush, "set": server.admin.sadd}
        put |= {"hash": lambda key, one: server.admin.hset(key, one, 1)}
        put |= {"stream": lambda key, one: server.admin.xadd(key, {one: 1})}
        put[kind](key, "7")
        assert await n_taken(counts(state), calls()) == 2
        assert await n_taken(counts(state), calls(n=0, limit=2)) == 0

    @every("ttl_ms", [None, 120_000, 10**9])
    async def test_counts_as_none_where_it_has_no_end_or_too_late_a_one(
        self, ttl_ms: int | None, state: Patient, server: Any
    ) -> None:
        await counts(state).take([calls()])
        (key,) = server.admin.scan_iter()
        server.admin.set(key, 1000, px=ttl_ms)
        assert await n_taken(counts(state), calls()) == 2
        assert 50_000 < server.admin.pttl(key) <= 60_000

    async def test_is_logged_as_a_warning_once(
        self, state: Patient, server: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "agent_utilities.state")
        await counts(state).take([calls(), calls("bob")])
        keys = list(server.admin.scan_iter())
        assert caplog.records == []
        for key in keys:
            server.admin.set(key, "abc")
        await counts(state).take([calls(), calls("bob")])
        assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]
        assert all(key.decode() in caplog.text for key in keys)

    async def test_is_nobody_elses_count(self, state: Patient, server: Any) -> None:
        """Keys have one tag, so that a cluster keeps them together, and bear no name but that of what is counted."""
        await counts(state).take([calls(), calls("bob"), Wanted("ann", "bytes", 1)])
        keys = sorted(key.decode() for key in server.admin.scan_iter())
        assert len({key.rpartition(":")[0] for key in keys}) == 2
        assert all(key.startswith("agent-utilities:one:counts:{all}:") for key in keys)
        assert sorted(key.rpartition(":")[2] for key in keys) == ["bytes", "calls", "calls"]
        assert not any(name in key for key in keys for name in ("ann", "bob"))
