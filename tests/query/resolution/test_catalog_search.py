"""Searching by words: the best tools in scope, claimed or not, remembered, and never waited for past a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.graph.base import ToolGraph, ToolRecord
from agent_utilities.query.graph.matching import normalise
from agent_utilities.query.ranking.base import Ranking
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalIndex, LexicalRanker
from agent_utilities.query.resolution.answer import UNRANKED, CallerScope, LiveTools, Question
from agent_utilities.query.resolution.catalog_ranker import BY_WORDS, CatalogIndex, CatalogRanker
from agent_utilities.query.resolution.resolver import Resolver
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import UNRESOLVED, Resolution
from agent_utilities.settings import read_settings
from agent_utilities.testing import FailingGraph, memory_graph
from tests.every import every
from tests.query.graph.wrapped import Held, until
from tests.query.ranking.catalogs import TOOLS, Concepts
from tests.query.ranking.strategies import catalogs, texts
from tests.query.resolution.test_catalog_ranker import Gated, kept

pytestmark = pytest.mark.anyio


def scope_of(tools: Sequence[ToolDocument], digest: str = "all") -> CallerScope:
    return CallerScope(digest, lambda: frozenset(tool.name for tool in tools))


ALL = scope_of(TOOLS)


class Live:
    """A server's live tools; a test changes them, or makes listing them fail."""

    def __init__(self, tools: Sequence[ToolDocument] = TOOLS) -> None:
        self.tools = tools
        self.error: Exception | None = None
        self.n_calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> LiveTools:
        self.n_calls += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        records = [
            ToolRecord(tool.name, tool.title, tool.description, tool.tags, tool.name, read_only=False)
            for tool in self.tools
        ]
        return LiveTools("-".join(tool.name for tool in self.tools), records, self.tools)


@asynccontextmanager
async def running(live: Live, graph: ToolGraph | None = None, **variables: str) -> AsyncIterator[Resolver]:
    """Run the resolver of a server to which nobody has sent a query yet."""
    environ = {"MCP_RANKER": "lexical", **variables}
    settings = read_settings(environ)
    given = memory_graph() if graph is None and settings.graph != "off" else graph
    resolver = Resolver(lambda: "s", live, lambda: settings, lambda: environ, given)
    task = asyncio.create_task(resolver.run())
    await asyncio.sleep(0)
    try:
        yield resolver
    finally:
        task.cancel()
        await asyncio.wait([task])


async def search(resolver: Resolver, query: str, scope: CallerScope | None = ALL, limit: int = 5) -> Resolution:
    return await resolver.search(query, scope, limit, Deadline.after(30))


class TestWhatIsFound:
    async def test_the_best_tool_comes_first_with_its_score(self) -> None:
        async with running(Live()) as resolver:
            found = await search(resolver, "list the newest commits")
            assert (found.status, found.names[0], found.cause) == ("ranked", "git_log", "")
            assert found.tools[0].score is not None

    async def test_what_a_list_would_not_claim_is_found_with_the_reason(self) -> None:
        async with running(Live()) as resolver:
            found = await search(
                resolver,
                "book two flights and rent bicycles in autumn, tree houses beside lakes, mountains, forests, islands",
            )
            assert found.names == ("git_status",)
            assert found.cause.startswith("nothing fits: the best score")

    async def test_nothing_shared_is_no_match(self) -> None:
        async with running(Live()) as resolver:
            found = await search(resolver, "hotel")
            assert (found.status, found.tools) == ("no_match", ())

    async def test_a_tool_that_is_named_comes_first(self) -> None:
        async with running(Live()) as resolver:
            assert (await search(resolver, "list commits, newest first, not deleteFolder")).names[0] == "deleteFolder"

    async def test_no_more_are_named_than_asked_for(self) -> None:
        async with running(Live()) as resolver:
            assert len((await search(resolver, "git log of a file", limit=5)).names) == 5
            assert (await search(resolver, "git log of a file", limit=2)).names == ("git_log", "read_file")

    @every("written", ["clon", "cloneRepo", "gitstatus", "COMMITS,"])
    async def test_part_of_a_name_finds_the_tool_where_it_is_no_tools_word(self, written: str) -> None:
        tools = (*TOOLS, ToolDocument("x", description="Say COMMITS, loudly."))
        async with running(Live(tools)) as resolver:
            found = await search(resolver, written, scope_of(tools))
            assert found.status == "ranked"
            assert found.names[0] in ("clone_repo", "git_status", "git_log", "x")

    async def test_words_say_nothing_of_tools_that_bear_them_as_parts_of_others(self) -> None:
        async with running(Live((*TOOLS, ToolDocument("catalog", description="Blogs.")))) as resolver:
            assert "catalog" not in (await search(resolver, "log")).names

    async def test_a_blank_query_asks_nothing(self) -> None:
        live = Live()
        async with running(live) as resolver:
            assert (await search(resolver, " \n"), live.n_calls) == (UNRESOLVED, 0)


class TestScope:
    """What a caller may not use moves nothing (law L1)."""

    @given(catalogs, texts, st.sets(st.integers(0, 11)))
    def test_an_answer_is_that_of_a_catalog_of_the_permitted_tools(
        self, catalog: list[ToolDocument], query: str, denied: set[int]
    ) -> None:
        tools = [replace(tool, name=f"{tool.name}_{place}") for place, tool in enumerate(catalog)]
        permitted = [tool for place, tool in enumerate(tools) if place not in denied]
        scope = scope_of(permitted)
        assert best(tools, query, scope) == best(permitted, query, scope) == best(permitted, query, None)

    async def test_a_denied_tool_leaves_no_trace_whether_it_is_there_or_not(self) -> None:
        secret = ToolDocument("commits_of_secret", description="List secret commits, newest first.", server="git")
        seen = []
        for tools in (TOOLS, (secret, *TOOLS), (*TOOLS, secret, replace(secret, name="secrets"))):
            async with running(Live(tools)) as resolver:
                words = ("list the newest commits", "secret", "commits_of_secret", "ecret", "show `secrets`")
                seen.append(repr([await search(resolver, query) for query in words]))
        assert seen == [seen[0]] * 3

    async def test_a_scope_that_is_not_known_finds_nothing(self) -> None:
        async with running(Live()) as resolver:
            assert await search(resolver, "commits", None) == Resolution("unavailable", cause="no index yet")

    async def test_what_one_scope_found_is_not_given_to_another(self) -> None:
        async with running(Live()) as resolver:
            found = [(await search(resolver, "git", scope_of(tools, str(tools)))).names for tools in (TOOLS, TOOLS[1:])]
            assert "git_status" in found[0]
            assert "git_status" not in found[1]


def best(tools: Sequence[ToolDocument], query: str, scope: CallerScope | None) -> Resolution:
    lexical = LexicalRanker().index(tools)
    index = CatalogIndex("1", "", tools, lexical, lexical)
    question = Question(query, normalise(query), scope)
    ranking = lexical.rank(query, permitted=index.permitted(scope))
    return index.best_tools(
        5, ranking, index.bearing(question.text, index.permitted(question.scope)) if query.strip() else ()
    )


class TestWaiting:
    async def test_the_first_search_makes_the_index_and_waits_for_it(self) -> None:
        live = Live()
        async with running(live) as resolver:
            assert live.n_calls == 0
            assert (await search(resolver, "commits")).names == ("git_log",)

    async def test_a_graph_that_hangs_is_not_waited_for(self) -> None:
        graph = Held(memory_graph(), reads=True, writes=True)
        async with running(Live(), graph) as resolver:
            assert (await search(resolver, "commits")).names == ("git_log",)
            graph.release()

    async def test_a_graph_that_fails_takes_nothing_away(self) -> None:
        async with running(Live(), FailingGraph()) as resolver:
            assert (await search(resolver, "commits")).names == ("git_log",)

    async def test_tools_that_are_not_known_by_the_deadline_are_not_waited_for_longer(self) -> None:
        live = Live()
        live.gate.clear()
        async with running(live) as resolver:
            found = await resolver.search("commits", ALL, 5, Deadline.after(0.01))
            assert found == Resolution("unavailable", cause="no index yet")
            live.gate.set()
            assert (await search(resolver, "commits")).status == "ranked"

    async def test_tools_that_can_not_be_listed_are_not_waited_for(self) -> None:
        live = Live()
        live.error = OSError("gone")
        async with running(live) as resolver:
            async with asyncio.timeout(60):
                found = await resolver.search("commits", ALL, 5, Deadline.after(3600))
            assert found == Resolution("unavailable", cause="no index yet")

    async def test_nothing_is_waited_for_before_the_server_runs(self) -> None:
        settings = read_settings({})
        resolver = Resolver(lambda: "s", Live(), lambda: settings, dict, memory_graph())
        assert (await search(resolver, "commits")).status == "off"


class TestWithoutRanker:
    async def test_a_ranker_that_is_off_is_told(self) -> None:
        async with running(Live(), MCP_RANKER="off") as resolver:
            assert await search(resolver, "commits") == Resolution("unavailable", cause="no ranker")

    async def test_queries_that_are_off_are_told(self) -> None:
        async with running(Live(), MCP_GRAPH="off") as resolver:
            assert await search(resolver, "commits") == Resolution("off", cause="queries are off")

    async def test_a_ranker_that_raises_is_told_and_asked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> Ranking:
            raise ValueError("broken")

        async with running(Live()) as resolver:
            await search(resolver, "file")
            with monkeypatch.context() as broken:
                broken.setattr(LexicalIndex, "rank", fail)
                assert await search(resolver, "commits") == Resolution("unavailable", cause=UNRANKED)
            assert (await search(resolver, "commits")).names == ("git_log",)


class TestMemory:
    async def test_what_was_found_is_found_again_without_ranking(self, n_ranked: list[str]) -> None:
        async with running(Live()) as resolver:
            assert await search(resolver, "commits") is await search(resolver, "commits")
            assert n_ranked.count("commits") == 1

    async def test_many_who_search_the_same_at_once_are_answered_by_one_ranking(self, n_ranked: list[str]) -> None:
        async with running(Live()) as resolver:
            found = await asyncio.gather(*(search(resolver, "commits") for _ in range(20)))
            assert (len(set(found)), n_ranked.count("commits")) == (1, 1)

    async def test_tools_that_come_are_found_by_words_that_were_searched_before(self) -> None:
        live = Live(TOOLS[:3])
        async with running(live) as resolver:
            assert (await search(resolver, "file")).status == "no_match"
            live.tools = TOOLS
            await until(lambda: resolver.health()["graph"]["status"] == "ready", "filled")
            resolver.refresh()
            assert resolver.ranker is not None
            await until(lambda: resolver.ranker is not None and resolver.ranker.version == "2", "indexed")
            assert (await search(resolver, "file")).names[0] == "read_file"

    async def test_nothing_is_remembered_where_there_is_no_room(self, n_ranked: list[str]) -> None:
        async with running(Live(), MCP_CACHE_MB="0") as resolver:
            for _ in range(2):
                await search(resolver, "commits")
            assert n_ranked.count("commits") == 2


@pytest.fixture
def n_ranked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the queries that were ranked."""
    ranked: list[str] = []
    rank = LexicalIndex.rank

    def count(self: LexicalIndex, query: str, **given: Any) -> Ranking:
        ranked.append(query)
        return rank(self, query, **given)

    monkeypatch.setattr(LexicalIndex, "rank", count)
    return ranked


class TestVectors:
    """A search waits a while for vectors of the tools, where a list would make do with words."""

    async def test_the_first_search_is_by_vectors_where_they_are_there_in_time(self) -> None:
        async with kept(CatalogRanker(HybridRanker(Concepts))) as ranker:
            ranker.offer("a", TOOLS)
            await ranker.wait_to_search(Deadline.after(60))
            found = await find(ranker, "erase a folder")
            assert (found.names[0], found.cause, found.is_temporary) == ("deleteFolder", "", False)

    async def test_words_answer_where_vectors_take_longer_and_nobody_waits_for_those_again(self) -> None:
        provider = Gated()
        provider.gate.clear()
        async with kept(CatalogRanker(HybridRanker(lambda: provider))) as ranker:
            try:
                ranker.offer("a", TOOLS)
                await ranker.wait_to_search(Deadline.after(0.02))
                await Deadline.after(60).wait(ranker.first_try_done)
                await ranker.wait_to_search(Deadline.after(0.02))
                async with asyncio.timeout(60):
                    await ranker.wait_to_search(Deadline.after(3600))
                found = await find(ranker, "list commits")
                assert (found.names[0], found.cause) == ("git_log", BY_WORDS)
            finally:
                provider.gate.set()

    async def test_an_answer_for_want_of_vectors_is_not_to_be_remembered(self) -> None:
        provider = Gated()
        async with kept(CatalogRanker(HybridRanker(lambda: provider))) as ranker:
            ranker.offer("a", TOOLS)
            await ranker.wait_to_search(Deadline.after(60))
            provider.gate.clear()
            try:
                first = await ranker.search(Question("erase a folder", "erase a folder", ALL, 5), Deadline.after(0.5))
            finally:
                provider.gate.set()
            assert first is None or (first.cause, first.is_temporary) == (BY_WORDS, True)
            assert (await find(ranker, "erase a folder")).cause == ""

    async def test_part_of_a_name_comes_before_what_vectors_find(self) -> None:
        async with kept(CatalogRanker(HybridRanker(Concepts))) as ranker:
            ranker.offer("a", TOOLS)
            await ranker.wait_to_search(Deadline.after(60))
            assert (await find(ranker, "clon")).names[0] == "clone_repo"


async def find(ranker: CatalogRanker, query: str) -> Resolution:
    found = await ranker.search(Question(query, normalise(query), ALL, 5), Deadline.after(60))
    assert found is not None
    return found
