"""The index behind a server's queries: made in the background, swapped whole, and never waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import RankerError, SettingsError
from agent_utilities.query.graph.matching import normalise
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.open import open_rankers
from agent_utilities.query.resolution.answer import CallerScope, Question
from agent_utilities.query.resolution.catalog_ranker import BY_WORDS, CatalogRanker
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import Resolution
from agent_utilities.settings import Settings
from tests.query.graph.wrapped import until
from tests.query.ranking.catalogs import TOOLS, Concepts

pytestmark = pytest.mark.anyio
GIT = TOOLS[:3]


class Gated(Concepts):
    """A provider that answers when it is let to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.n_calls = 0

    def embed(self, texts: Sequence[str], kind: str) -> np.ndarray:
        self.n_calls += 1
        if not self.gate.wait(120):
            raise RankerError("never let through")
        return super().embed(texts, kind)


class Raising(Concepts):
    """A provider that raises an error of its own."""

    error: Exception | None = ValueError("vectors of another size")

    def embed(self, texts: Sequence[str], kind: str) -> np.ndarray:
        if self.error is not None:
            raise self.error
        return super().embed(texts, kind)


@asynccontextmanager
async def kept(ranker: CatalogRanker) -> AsyncIterator[CatalogRanker]:
    task = asyncio.create_task(ranker.run())
    try:
        yield ranker
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.done(), "it does not stop"


@asynccontextmanager
async def offered(
    ranker: CatalogRanker, tools: Sequence[ToolDocument] = TOOLS, version: str = "1"
) -> AsyncIterator[CatalogRanker]:
    """Keep a ranker that was offered tools, once its index is of a version: vectors make the second."""
    async with kept(ranker):
        ranker.offer("a", tools)
        await until(lambda: ranker.version >= version, "indexed")
        yield ranker


async def ranked(
    ranker: CatalogRanker, query: str, scope: CallerScope | None = None, timeout_s: float = 10
) -> Resolution:
    ranking = await ranker.rank(Question(query, normalise(query), scope), Deadline.after(timeout_s))
    assert ranking is not None
    return ranking(())


class TestByWords:
    async def test_nothing_is_ranked_before_there_is_an_index(self) -> None:
        ranker = CatalogRanker()
        assert (ranker.version, await ranker.rank(Question("commits", "commits"), Deadline.after(1))) == ("", None)

    async def test_the_best_tool_is_named_with_the_words_it_was_found_by(self) -> None:
        async with offered(CatalogRanker()) as ranker:
            found = await ranked(ranker, "list the newest commits")
            assert (found.names[0], found.tools[0].words, found.cause) == ("git_log", ("list", "newest", "commits"), "")

    async def test_only_tools_in_scope_are_ranked(self) -> None:
        async with offered(CatalogRanker()) as ranker:
            scope = CallerScope("files", lambda: frozenset({"read_file", "deleteFolder"}))
            assert "git_log" in (await ranked(ranker, "read a file of the git log")).names
            in_scope = (await ranked(ranker, "read a file of the git log", scope)).names
            assert (in_scope[0], set(in_scope) <= scope.names()) == ("read_file", True)

    async def test_each_scope_has_its_own_tools_however_often_they_take_turns(self) -> None:
        async with offered(CatalogRanker()) as ranker:
            scopes = [CallerScope(name, lambda name=name: frozenset({name})) for name in ("read_file", "git_log")]
            for scope in (*scopes, *scopes):
                assert (await ranked(ranker, "read a file of the git log", scope)).names == (scope.digest,)

    async def test_a_changed_catalog_takes_the_place_of_the_old_whole(self) -> None:
        async with offered(CatalogRanker(), GIT) as ranker:
            ranker.offer("b", (*GIT[:1], replace(GIT[1], name="history"), *TOOLS[3:]))
            await until(lambda: ranker.version == "2", "indexed anew")
            assert (await ranked(ranker, "commits")).names == ("history",)
            assert (await ranked(ranker, "read a file")).names[0] == "read_file"

    async def test_the_same_catalog_is_not_indexed_again(self) -> None:
        async with offered(CatalogRanker(), GIT) as ranker:
            ranker.offer("a", GIT)
            ranker.offer("b", TOOLS)
            await until(lambda: ranker.version == "2", "the next one")
            assert len((await ranked(ranker, "read a file")).names) > 0

    async def test_an_empty_catalog_has_an_index_that_claims_nothing(self) -> None:
        async with offered(CatalogRanker(HybridRanker(Concepts)), ()) as ranker:
            assert (await ranked(ranker, "commits")).status == "no_match"


class TestLateVectors:
    async def test_serve_the_next_who_asks_the_same(self) -> None:
        provider = Gated()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), version="2") as ranker:
            provider.gate.clear()
            n_before = provider.n_calls
            found = await ranked(ranker, "newest commits", timeout_s=1)
            assert (found.cause, found.is_temporary) == (BY_WORDS, True)
            assert (await ranked(ranker, "newest commits", timeout_s=1)).cause == BY_WORDS
            provider.gate.set()
            found = await ranked(ranker, "newest commits")
            assert (found.cause, found.is_temporary) == ("", False)
            assert provider.n_calls <= n_before + 2

    async def test_are_not_used_for_another_catalog(self) -> None:
        provider = Gated()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), version="2") as ranker:
            provider.gate.clear()
            await ranked(ranker, "newest commits", timeout_s=1)
            provider.gate.set()
            ranker.offer("b", TOOLS[3:])
            await until(lambda: ranker.version == "4", "indexed anew")
            assert "git_log" not in (await ranked(ranker, "newest commits")).names


class TestByVectors:
    async def test_words_rank_until_vectors_are_there(self) -> None:
        provider = Gated()
        provider.gate.clear()
        async with offered(CatalogRanker(HybridRanker(lambda: provider))) as ranker:
            found = await ranked(ranker, "newest commits")
            assert (found.names, found.cause, found.is_temporary) == (("git_log",), BY_WORDS, False)
            assert ranker.health()["cause"] == BY_WORDS
            provider.gate.set()
            await until(lambda: ranker.version == "2", "indexed by vectors")
            found = await ranked(ranker, "who calls our API")
            assert (found.names[0], found.cause, ranker.health()) == ("top_clients", "", {"status": "ready"})

    async def test_a_provider_that_hangs_leaves_words_within_the_time_given(self) -> None:
        provider = Gated()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), version="2") as ranker:
            provider.gate.clear()
            found = await ranked(ranker, "newest commits", timeout_s=4)
            assert (found.names, found.cause, found.is_temporary) == (("git_log",), BY_WORDS, True)
            provider.gate.set()

    async def test_however_many_wait_for_a_provider_that_hangs_words_are_ranked(self) -> None:
        provider = Gated()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), version="2") as ranker:
            provider.gate.clear()
            found = await asyncio.gather(*(ranked(ranker, f"newest commits {i}", timeout_s=2) for i in range(4)))
            assert [answer.names for answer in found] == [("git_log",)] * 4
            provider.gate.set()

    async def test_a_provider_that_fails_leaves_words_and_the_next_request_tries_again(self) -> None:
        provider = Concepts()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), version="2") as ranker:
            provider.fails = True
            found = await ranked(ranker, "newest commits")
            assert (found.names, found.cause, found.is_temporary) == (("git_log",), BY_WORDS, True)
            provider.fails = False
            assert (await ranked(ranker, "newest commits")).cause == ""

    async def test_a_provider_that_is_absent_at_start_is_tried_again(self) -> None:
        provider = Concepts()
        provider.fails = True
        async with offered(CatalogRanker(HybridRanker(lambda: provider), retry_s=0.01)) as ranker:
            await ranker.wait_until_settled()
            found = await ranked(ranker, "newest commits")
            assert (found.names, found.cause, found.is_temporary) == (("git_log",), BY_WORDS, False)
            provider.fails = False

            async def is_whole() -> bool:
                return (await ranked(ranker, "newest commits")).cause == ""

            await until(is_whole, "vectors are there")

    async def test_a_provider_that_raises_what_no_provider_should_is_told_and_tried_again(self) -> None:
        provider = Raising()
        async with offered(CatalogRanker(HybridRanker(lambda: provider), retry_s=0.01)) as ranker:
            await ranker.wait_until_settled()
            assert ((await ranked(ranker, "newest commits")).cause, ranker.health()["cause"]) == (BY_WORDS, BY_WORDS)
            provider.error = None
            await until(lambda: "cause" not in ranker.health(), "vectors are there")

    async def test_a_catalog_that_changes_while_a_model_hangs_is_indexed_by_words(self) -> None:
        provider = Gated()
        provider.gate.clear()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), GIT) as ranker:
            ranker.offer("b", TOOLS)
            await until(lambda: ranker.version == "2", "the next one too")
            assert (await ranked(ranker, "read a file")).names[0] == "read_file"
            provider.gate.set()
            await ranker.wait_until_settled()
            assert (await ranked(ranker, "who calls our API")).names[0] == "top_clients"

    async def test_a_model_that_changes_its_dimensions_leaves_words(self) -> None:
        provider = Concepts()
        async with offered(CatalogRanker(HybridRanker(lambda: provider)), GIT) as ranker:
            await ranker.wait_until_settled()
            provider.n_dimensions = 32
            found = await ranked(ranker, "newest commits")
            assert (found.names[0], found.cause) == ("git_log", BY_WORDS)
            ranker.offer("b", TOOLS)
            await ranker.wait_until_settled()
            assert (await ranked(ranker, "read a file")).names[0] == "read_file"

    async def test_it_stops_while_a_model_hangs(self) -> None:
        provider = Gated()
        provider.gate.clear()
        async with offered(CatalogRanker(HybridRanker(lambda: provider))):
            pass
        provider.gate.set()


class TestSettings:
    def test_off_ranks_nothing(self) -> None:
        assert open_rankers(Settings(ranker="off")).is_off

    def test_a_provider_that_cannot_be_meant_is_refused(self) -> None:
        with pytest.raises(SettingsError, match=r"no such provider: 'gpt' \(from env MCP_EMBEDDINGS\)"):
            open_rankers(Settings(embeddings="gpt"))

    def test_an_endpoint_needs_a_model(self) -> None:
        with pytest.raises(SettingsError, match="without a model"):
            open_rankers(Settings(embeddings="http://127.0.0.1:1/v1"))
