"""What replicas tell one another is heard at once, and made up for where no message came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from agent_utilities.fleet import news as module
from agent_utilities.fleet.news import News, Topic, begun_s_ago
from agent_utilities.state.redis_state import RedisState, StateError
from tests.fleet.processes.replicas import Shared, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
MONTH_S = 30 * 24 * 3600


class Words(Topic):
    """A topic whose words are kept in a set."""

    def __init__(self, state: RedisState, name: str = "words") -> None:
        self.name = name
        super().__init__(state)
        self.told: list[bytes] = []
        self.n_compared = 0

    def heard(self, message: bytes) -> None:
        self.told.append(message)

    async def compare(self, news: News) -> None:
        await self.ask(self.redis.ping())
        self.n_compared += 1


class Replica:
    """One of several that tell news of two topics.

    Args:
        shared: their Redis.
    """

    def __init__(self, shared: Shared) -> None:
        self.state = RedisState(shared.url(), "agent-utilities", "notes", b"k" * 32)
        self.words, self.others = Words(self.state), Words(self.state, "others")
        self.lost: list[bool] = []
        self.news = News(self.state, [self.words, self.others], self.look)

    async def look(self, is_lost: bool) -> None:
        self.lost.append(is_lost)

    async def tell(self, word: bytes) -> None:
        key = self.words.key
        await self.news.tell(self.words, lambda at_once: at_once.sadd(key, word), [word])

    async def looked(self, n: int = 3) -> None:
        """Return once Redis was looked at so many times more."""
        before = len(self.lost)
        await until(lambda: len(self.lost) >= before + n)


@asynccontextmanager
async def replica(shared: Shared) -> AsyncIterator[Replica]:
    """Run one for a block, which has looked and listens once it begins."""
    made = Replica(shared)
    n_before = dict(shared.admin.pubsub_numsub(made.words.key))[made.words.key.encode()]
    task = asyncio.create_task(made.news.run())
    try:
        await until(lambda: dict(shared.admin.pubsub_numsub(made.words.key))[made.words.key.encode()] > n_before)
        await until(lambda: made.others.n_compared > 0)
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
        await made.state.close()


@pytest.fixture
def _seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is looked at so seldom that a test would fail which waits for it."""
    monkeypatch.setattr(module, "COMPARE_S", 600.0)


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARE_S", 0.03)


@pytest.mark.usefixtures("_seldom")
class TestAMessage:
    async def test_is_heard_at_once_by_every_replica_under_its_topic_alone(self, shared: Shared) -> None:
        async with replica(shared) as here, replica(shared) as there:
            await here.tell(b"one")
            await here.tell(b"two")
            await until(lambda: there.words.told == here.words.told == [b"one", b"two"])
            assert there.others.told == here.others.told == []
            assert shared.admin.smembers("agent-utilities:notes:words") == {b"one", b"two"}

    async def test_keeps_what_was_told_for_a_month(self, shared: Shared) -> None:
        async with replica(shared) as here:
            await here.tell(b"one")
        for key in ("words", "news"):
            assert MONTH_S - 60 < shared.admin.ttl(f"agent-utilities:notes:{key}") <= MONTH_S

    async def test_of_while_redis_was_gone_is_an_error_to_who_tells(self, shared: Shared) -> None:
        async with replica(shared) as here:
            shared.kill()
            with pytest.raises(StateError):
                await here.tell(b"one")
            shared.start()

    async def test_is_heard_where_listening_has_failed_by_what_is_no_error_of_redis(
        self, shared: Shared, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing, listen = [RuntimeError("the handler is closed")], Redis.pubsub

        def fail_first(redis: Redis) -> Any:
            if failing:
                raise failing.pop()
            return listen(redis)

        monkeypatch.setattr(Redis, "pubsub", fail_first)
        async with replica(shared) as here:
            await here.tell(b"one")
            await until(lambda: here.words.told == [b"one"])

    async def test_is_heard_after_redis_came_back_and_what_is_kept_is_compared(self, shared: Shared) -> None:
        async with replica(shared) as here, replica(shared) as there:
            n_before = there.words.n_compared
            shared.kill()
            shared.start()
            key = there.words.key
            await until(lambda: dict(shared.admin.pubsub_numsub(key))[key.encode()] == 2)
            await until(lambda: there.words.n_compared > n_before)

            async def is_told() -> bool:
                try:
                    await here.tell(b"late")
                except StateError:
                    return False
                return True

            await until(is_told)
            await until(lambda: b"late" in there.words.told)


class TestWhatIsKept:
    @pytest.mark.usefixtures("_seldom")
    async def test_is_compared_at_once_where_somebody_here_wants_that(self, shared: Shared) -> None:
        async with replica(shared) as here:
            n_before = here.words.n_compared
            here.news.compare()
            await until(lambda: here.words.n_compared > n_before)

    @pytest.mark.usefixtures("_often")
    async def test_is_compared_in_every_topic_where_somebody_told_anything_and_no_message_came(
        self, shared: Shared
    ) -> None:
        async with replica(shared) as here:
            await here.looked()
            before = here.words.n_compared, here.others.n_compared
            shared.admin.set("agent-utilities:notes:news", "another")
            await until(lambda: here.words.n_compared > before[0] and here.others.n_compared > before[1])

    @pytest.mark.usefixtures("_often")
    async def test_is_not_compared_where_nobody_told_anything(self, shared: Shared) -> None:
        async with replica(shared) as here:
            await here.tell(b"one")
            await here.looked()
            before = here.words.n_compared
            await here.looked(9)
            assert here.words.n_compared == before

    @pytest.mark.usefixtures("_often")
    async def test_is_compared_again_where_a_topic_was_not_answered(
        self, shared: Shared, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_AGAIN_S", 0.02)
        async with replica(shared) as here:
            tries: list[int] = []

            async def fail_twice(news: News) -> None:
                tries.append(0)
                if len(tries) < 3:
                    raise StateError("not now")

            monkeypatch.setattr(here.words, "compare", fail_twice)
            here.news.compare()
            await until(lambda: len(tries) == 3)
            await here.looked(9)
            assert len(tries) == 3


class TestARedisThatLostWhatItHad:
    @pytest.mark.usefixtures("_often")
    async def test_is_told_of_once(self, shared: Shared) -> None:
        async with replica(shared) as here:
            await here.looked()
            assert set(here.lost) == {False}
            shared.flush()
            await until(lambda: True in here.lost)
            await here.looked()
            assert here.lost.count(True) == 1

    @pytest.mark.usefixtures("_often")
    async def test_has_begun_when_a_replica_first_looked(self, shared: Shared) -> None:
        state = RedisState(shared.url(), "agent-utilities", "notes", b"k" * 32)
        assert await begun_s_ago(state) == 0
        async with replica(shared):
            key = "agent-utilities:notes:begun"
            assert 0 <= await begun_s_ago(state) < 60
            first = shared.admin.get(key)
            async with replica(shared) as other:
                await other.looked()
            assert shared.admin.get(key) == first
            shared.admin.pexpire(key, (MONTH_S - 1000) * 1000)
            assert 1000 <= await begun_s_ago(state) < 1060
            shared.admin.set(key, "for ever")
            assert await begun_s_ago(state) == 0
        await state.close()
