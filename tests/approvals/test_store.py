"""Questions wait within bounds, and of two answers one holds; here, and in a real Redis that replicas share."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_utilities.approvals.shown import described
from agent_utilities.approvals.store import N_OF_CALLER, N_WAITING, QUIET_S, WAIT_S, YES_S, Question, Store
from agent_utilities.state.redis_state import RedisState
from tests.every import every
from tests.fleet.processes.replicas import Shared, shared_redis

KEY = bytes(range(32))
SHOWN = "path: /a"


class Clock:
    """A time that passes when it is told to."""

    now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def question(store: Store, call: str = "a", owner: str = "ann", shown: str = SHOWN) -> Question:
    key, owner = store.hashed(owner, call), store.hashed(owner)
    return Question(key, owner, ("issuer", "ann"), "remove", "files", shown, "0123", False, False, store.now())


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestHere:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def store(self, clock: Clock) -> Store:
        return Store(None, clock)

    async def test_a_yes_is_taken_by_one_of_many(self, store: Store):
        asked, _ = await store.put(question(store))
        assert await store.answer(asked.id, "yes") is not None
        found = await store.find(asked.key)
        assert found is not None
        assert sorted(await asyncio.gather(*(store.take(found) for _ in range(10)))) == [False] * 9 + [True]
        assert await store.find(asked.key) is None

    async def test_of_two_answers_the_first_holds(self, store: Store):
        asked, _ = await store.put(question(store))
        answers = [await store.answer(asked.id, "no"), await store.answer(asked.id, "yes")]
        assert [each is not None for each in answers] == [True, False]
        assert (await store.find(asked.key)).answer == "no"  # type: ignore[union-attr]

    async def test_an_answer_to_an_earlier_question_on_the_same_call_is_none(self, store: Store):
        first, _ = await store.put(question(store))
        await store.answer(first.id, "yes")
        await store.take(first)
        second, _ = await store.put(question(store))
        assert second.id != first.id
        assert await store.answer(first.id, "yes") is None
        assert await store.by_id(first.id) is None

    @every("bad", ["", "x", "a" * 32, "\ud800", "../.."])
    async def test_an_id_that_never_was_is_none(self, store: Store, bad: str):
        assert await store.answer(bad, "yes") is None

    async def test_a_ticket_is_taken_once_and_for_its_key_and_kind_alone(self, store: Store):
        ticket = await store.ticket("ask", "k")
        tries = [
            (ticket, "ask", "j"),
            (ticket, "go", "k"),
            ("x", "ask", "k"),
            (ticket, "ask", "k"),
            (ticket, "ask", "k"),
        ]
        assert [await store.spend(*each) for each in tries] == [False, False, False, True, False]  # type: ignore[arg-type]

    async def test_a_ticket_and_a_yes_end_after_ten_minutes_and_a_question_after_an_hour(
        self, store: Store, clock: Clock
    ):
        ticket, (asked, _) = await store.ticket("ask", "k"), await store.put(question(store))
        waits, _ = await store.put(question(store, "b"))
        await store.answer(asked.id, "yes")
        clock.now_s += YES_S
        assert not await store.spend(ticket, "ask", "k")
        assert await store.find(asked.key) is None
        assert (await store.waiting(10))[0] == [waits]
        clock.now_s += WAIT_S - YES_S
        assert (await store.waiting(10))[0] == []
        assert await store.answer(waits.id, "yes") is None

    async def test_one_callers_flood_gives_up_none_of_anothers(self, store: Store):
        own, _ = await store.put(question(store, "mine", "bob"))
        for i in range(3 * N_OF_CALLER):
            await store.put(question(store, str(i), "ann"))
        waiting, n = await store.waiting(1_000)
        assert (n, own in waiting) == (N_OF_CALLER + 1, True)

    async def test_what_is_given_up_is_the_oldest_and_told_once(self, store: Store):
        first, _ = await store.put(question(store, "first"))
        for i in range(N_OF_CALLER):
            _, given_up = await store.put(question(store, str(i)))
        assert [each.id for each in given_up] == [first.id]
        found = await store.find(first.key)
        assert found is not None
        assert (found.answer, await store.told(found), await store.told(found)) == ("given up", True, False)

    async def test_a_thousand_wait_in_64_mib_and_no_more(self, store: Store):
        worst = described({"body": "\U0001f600" * 100_000, "more": "pad " * 100_000}, 4_000)
        tracemalloc.start()
        for i in range(N_WAITING + 50):
            await store.put(question(store, str(i), f"caller {i}", worst))
        n_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (await store.waiting(1))[1] == N_WAITING
        assert n_bytes < 64 << 20

    async def test_tickets_are_bounded_too(self, store: Store):
        for _ in range(30_000):
            await store.ticket("ask", "k")
        assert len(store._kept._kept) <= 20_000  # type: ignore[union-attr]

    async def test_a_no_is_quiet_for_a_minute(self, store: Store, clock: Clock):
        await store.refuse(question(store))
        found = await store.find(question(store).key)
        assert found is not None
        assert await store.told(found)
        clock.now_s += QUIET_S
        assert await store.find(found.key) is None


@pytest.mark.outside
class TestShared:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def redis(self, tmp_path: Path) -> Iterator[Shared]:
        with shared_redis(tmp_path) as shared:
            yield shared

    @pytest.fixture
    async def stores(self, redis: Shared) -> AsyncIterator[list[Store]]:
        states = [RedisState(redis.url(), "test", "files", KEY) for _ in range(2)]
        yield [Store(each) for each in states]
        for each in states:
            await each.close()

    async def test_a_question_is_answered_at_another_replica_and_its_yes_taken_at_one_of_them(
        self, stores: list[Store]
    ):
        here, there = stores
        asked, _ = await here.put(question(here))
        assert (await there.waiting(10))[0] == [asked]
        assert await there.answer(asked.id, "yes") == asked
        found = await here.find(asked.key)
        assert found is not None
        taken = await asyncio.gather(*(store.take(found) for _ in range(5) for store in (here, there)))
        assert sorted(taken) == [False] * 9 + [True]

    async def test_two_answers_at_once_at_two_replicas_are_one(self, stores: list[Store]):
        for i in range(10):
            asked, _ = await stores[0].put(question(stores[0], str(i)))
            answers = await asyncio.gather(stores[0].answer(asked.id, "yes"), stores[1].answer(asked.id, "no"))
            assert [each is None for each in answers].count(True) == 1

    async def test_a_question_is_read_by_a_replica_that_begins_later(self, stores: list[Store]):
        one, after = stores
        asked, _ = await one.put(question(one))
        assert (await after.waiting(10))[0] == [asked]

    async def test_a_ticket_of_one_is_spent_at_another_once(self, stores: list[Store]):
        here, there = stores
        ticket = await here.ticket("ask", "k")
        spent = await asyncio.gather(*(store.spend(ticket, "ask", "k") for store in (here, there, here, there)))
        assert sorted(spent) == [False, False, False, True]

    async def test_nothing_of_it_can_be_read_there(self, redis: Shared, stores: list[Store]):
        store = stores[0]
        asked, _ = await store.put(replace(question(store), shown="path: /very-own", tool="remove_it"))
        await store.answer(asked.id, "yes")
        told = redis.told()
        assert all(each not in told for each in (b"very-own", b"remove_it", b"issuer", b"yes"))

    async def test_who_writes_to_redis_makes_no_yes(self, redis: Shared, stores: list[Store]):
        store = stores[0]
        one, _ = await store.put(question(store, "a"))
        other, _ = await store.put(question(store, "b"))
        await store.answer(one.id, "yes")
        names = [name for name in redis.admin.scan_iter() if redis.admin.type(name) == b"hash"]
        given = {name: redis.admin.hget(name, "values") for name in names}
        for name in names:  # another's yes in its place
            redis.admin.hset(name, "values", next(value for key, value in given.items() if key != name))
        assert [await store.find(each.key) for each in (one, other)] == [None, None]

    async def test_many_at_once_keep_to_the_bounds(self, stores: list[Store]):
        await asyncio.gather(*(each.put(question(each, str(i))) for i in range(3 * N_OF_CALLER) for each in stores))
        assert (await stores[0].waiting(100))[1] <= N_OF_CALLER

    async def test_where_it_does_not_answer_nothing_is_kept_and_that_is_raised(
        self, redis: Shared, stores: list[Store]
    ):
        store = stores[0]
        redis.kill()
        with pytest.raises(OSError, match="redis"):
            await store.put(question(store))
