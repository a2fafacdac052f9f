"""Past requests of a running server's ranker: learned in the background, each for its own scope, never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_utilities.query.graph.matching import normalise
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.resolution.answer import CallerScope, Question, Trail
from agent_utilities.query.resolution.catalog_ranker import CatalogRanker
from agent_utilities.query.resolution.teaching import Teaching
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import Resolution
from agent_utilities.usage.model import NOTHING_LEARNED, Learned, UsageSource
from tests.query.graph.wrapped import until
from tests.query.ranking.catalogs import TOOLS, Concepts
from tests.query.resolution.test_catalog_ranker import Gated, kept

pytestmark = pytest.mark.anyio
WHODUNIT = {"clone_repo": ["whodunit over the weekend", "whodunit this morning"]}


class Lessons:
    """What a ranker is taught of each scope."""

    def __init__(self, ranker: CatalogRanker, **options: Any) -> None:
        self.ranker = ranker
        self.learned: dict[str, Learned] = {}
        source = UsageSource(lambda scope: self.learned.get(scope, NOTHING_LEARNED), is_shared=False)
        self.teaching = Teaching(source, ranker, lambda: None, 0.0, **options)

    def teach(self, scope: str = "", version: str = "a", requests: Any = WHODUNIT) -> None:
        """Have a scope learned; what was taught to others before is forgotten."""
        self.learned = {scope: Learned(version, past_requests=requests)}
        self.teaching.of(scope)
        self.teaching.news()

    async def taught(self, scope: str = "", version: str = "a", requests: Any = WHODUNIT) -> None:
        """Teach a scope, and wait until that is all learned."""
        self.teach(scope, version, requests)
        await until(lambda: self.teaching.health()["settled"], "learned")


@asynccontextmanager
async def learning(ranker: CatalogRanker, **options: Any) -> AsyncIterator[Lessons]:
    lessons = Lessons(ranker, **options)
    running = asyncio.create_task(lessons.teaching.run())
    try:
        async with kept(ranker):
            yield lessons
    finally:
        running.cancel()
        await asyncio.wait([running])


async def found(ranker: CatalogRanker, query: str, usage: str = "", scope: CallerScope | None = None) -> Resolution:
    question = Question(query, normalise(query), scope, 5, trail=Trail(usage))
    answer = await ranker.search(question, Deadline.after(10))
    assert answer is not None
    return answer


async def first(ranker: CatalogRanker, query: str, usage: str = "") -> str:
    return (*(await found(ranker, query, usage)).names, "none")[0]


async def indexed(ranker: CatalogRanker, version: str = "1") -> None:
    ranker.offer(version, TOOLS)
    await ranker.wait_until_settled()


@pytest.fixture
def ranker() -> CatalogRanker:
    return CatalogRanker(HybridRanker(Concepts))


class TestLearning:
    async def test_what_was_asked_before_is_found_by_it(self) -> None:
        for better in (None, HybridRanker(Concepts)):
            ranker = CatalogRanker(better)
            async with learning(ranker) as lessons:
                await indexed(ranker)
                assert await first(ranker, "whodunit") != "clone_repo"
                await lessons.taught()
                assert await first(ranker, "whodunit") == "clone_repo"

    async def test_it_may_be_taught_before_there_is_an_index(self, ranker: CatalogRanker) -> None:
        async with learning(ranker) as lessons:
            await lessons.taught()
            await indexed(ranker)
            await until(lambda: ranker.version_for("") != ranker.version, "learned")
            assert await first(ranker, "whodunit") == "clone_repo"

    async def test_a_catalog_that_changes_is_learned_anew(self, ranker: CatalogRanker) -> None:
        async with learning(ranker) as lessons:
            await indexed(ranker)
            await lessons.taught()
            ranker.offer("2", TOOLS[2:])
            await ranker.wait_until_settled()
            await lessons.taught()
            assert await first(ranker, "whodunit") == "clone_repo"

    async def test_what_is_forgotten_is_not_used_any_more(self, ranker: CatalogRanker) -> None:
        async with learning(ranker) as lessons:
            await indexed(ranker)
            before = await found(ranker, "whodunit")
            await lessons.taught()
            await lessons.taught("", "b", {})
            assert await found(ranker, "whodunit") == before

    async def test_tools_that_are_gone_teach_nothing(self, ranker: CatalogRanker) -> None:
        async with learning(ranker) as lessons:
            await indexed(ranker)
            before = await found(ranker, "whodunit")
            await lessons.taught(requests={"gone": ["whodunit"]})
            assert await found(ranker, "whodunit") == before

    async def test_the_same_version_is_learned_once(self, ranker: CatalogRanker) -> None:
        async with learning(ranker) as lessons:
            await indexed(ranker)
            await lessons.taught()
            version = ranker.version_for("")
            await lessons.taught()
            assert ranker.version_for("") == version

    async def test_with_nothing_learned_the_version_is_the_catalogs(self, ranker: CatalogRanker) -> None:
        async with learning(ranker):
            assert ranker.version_for("") == ""
            await indexed(ranker)
            assert ranker.version_for("") == ranker.version


class TestScopes:
    async def test_no_scope_is_answered_by_what_another_asked(self, ranker: CatalogRanker) -> None:
        async with learning(ranker) as lessons:
            await indexed(ranker)
            before = await found(ranker, "whodunit", "bob")
            await lessons.taught("alice")
            assert await first(ranker, "whodunit", "alice") == "clone_repo"
            assert await found(ranker, "whodunit", "bob") == await found(ranker, "whodunit") == before

    async def test_versions_of_two_scopes_differ_even_before_anything_is_learned(self, ranker: CatalogRanker) -> None:
        async with learning(ranker):
            await indexed(ranker)
            assert len({ranker.version_for(scope) for scope in ("", "alice", "bob")}) == 3

    async def test_a_scope_that_learned_is_learned_anew_for_another_catalog_once_it_asks(
        self, ranker: CatalogRanker
    ) -> None:
        async with learning(ranker) as lessons:
            await indexed(ranker)
            await lessons.taught("alice")
            ranker.offer("2", TOOLS[1:])
            await ranker.wait_until_settled()
            assert "git_status" not in (await found(ranker, "what changed in git status", "alice")).names
            await lessons.taught("alice")
            assert await first(ranker, "whodunit", "alice") == "clone_repo"

    async def test_what_there_is_no_room_for_is_left_out_and_told(self, caplog: pytest.LogCaptureFixture) -> None:
        ranker = CatalogRanker()
        async with learning(ranker, max_bytes=10) as lessons:
            await indexed(ranker)
            await lessons.taught()
            assert await first(ranker, "whodunit") != "clone_repo"
        assert "more than there is room for" in caplog.text


class TestVectors:
    async def test_a_request_waits_for_no_vectors_of_past_requests(self) -> None:
        provider = Gated()
        ranker = CatalogRanker(HybridRanker(lambda: provider))
        async with learning(ranker) as lessons:
            await indexed(ranker)
            before = await found(ranker, "whodunit")
            provider.gate.clear()
            n_calls = provider.n_calls
            lessons.teach()
            await until(lambda: provider.n_calls > n_calls, "vectors are being made")
            assert await found(ranker, "whodunit") == before
            provider.gate.set()
            await lessons.taught()
            assert await first(ranker, "whodunit") == "clone_repo"

    async def test_where_they_cant_be_had_tools_are_ranked_without_and_they_are_tried_again(self, caplog) -> None:
        provider = Gated()
        ranker = CatalogRanker(HybridRanker(lambda: provider))
        async with learning(ranker, retry_s=0.01) as lessons:
            await indexed(ranker)
            before = (await found(ranker, "whodunit")).names
            provider.fails = True
            n_calls = provider.n_calls
            lessons.teach()
            await until(lambda: provider.n_calls > n_calls + 2, "tried again")
            assert (await found(ranker, "whodunit")).names == before
            assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
            version = ranker.version_for("")
            provider.fails = False
            await until(lambda: ranker.version_for("") != version, "vectors are learned")
            assert await first(ranker, "whodunit") == "clone_repo"

    async def test_a_stop_in_the_middle_is_no_matter(self) -> None:
        provider = Gated()
        ranker = CatalogRanker(HybridRanker(lambda: provider))
        async with learning(ranker) as lessons:
            await indexed(ranker)
            provider.gate.clear()
            n_calls = provider.n_calls
            lessons.teach()
            await until(lambda: provider.n_calls > n_calls, "vectors are being made")
        provider.gate.set()
        assert ranker.version_for("") == ""
