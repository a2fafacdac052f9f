"""What ranks: words at once, and more than words as soon as that is there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from agent_utilities import ToolRouter
from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import InputError
from agent_utilities.query.ranking.base import Index, Ranking
from agent_utilities.query.ranking.open import open_ranker
from agent_utilities.search.shared_tools import BY_WORDS, open_better
from tests.search.catalogs import catalog, of_topic

pytestmark = pytest.mark.anyio


class LastFirst:
    """A ranker to which every tool answers everything, the last of them best.

    Args:
        made: set when an index may be made.
        error: what ranking raises, if anything.
    """

    def __init__(self, made: threading.Event | None = None, error: Exception | None = None) -> None:
        self._made, self._error = made, error

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        if self._made is not None:
            assert self._made.wait(60)
        return LastFirstIndex(len(documents), self._error)


class LastFirstIndex:
    cause = ""

    def __init__(self, n_tools: int, error: Exception | None) -> None:
        self._n_tools, self._error = n_tools, error

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        if self._error is not None:
            raise self._error
        places = tuple(reversed(range(self._n_tools)))[:limit]
        return Ranking(places, (1.0,) * len(places), False, ((),) * len(places), n_claimed=len(places))


class TestBetterRankers:
    async def test_words_rank_until_the_index_is_made_and_the_result_says_so(self) -> None:
        made = threading.Event()
        router = ToolRouter(catalog(), ranker=LastFirst(made))
        early = await router.search("song")
        assert (set(early.names), early.cause) == (set(of_topic("song")), BY_WORDS)
        made.set()
        await router.indexed()
        late = await router.search("song", max_results=1)
        assert (late.names, late.cause) == (("parcel_rename",), "")

    async def test_words_rank_where_it_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        router = ToolRouter(catalog(), ranker=LastFirst(error=RuntimeError("no model")))
        await router.indexed()
        with caplog.at_level(logging.ERROR, "agent_utilities.router"):
            result = await router.search("song")
        assert (set(result.names), result.cause) == (set(of_topic("song")), BY_WORDS)
        assert "can't rank by more than words" in caplog.text

    async def test_a_turn_takes_them_too(self) -> None:
        router = ToolRouter(catalog(), ranker=LastFirst(), initial_k=2)
        await router.indexed()
        turned = await router.turn("the song")
        assert (turned.added, turned.cause) == (("parcel_archive", "parcel_rename"), "")

    async def test_a_turn_that_attaches_nothing_tells_why_and_by_what_it_was_ranked(self) -> None:
        router = ToolRouter(catalog(), ranker=LastFirst(made := threading.Event()))
        turned = await router.turn("thank you kindly")
        made.set()
        assert turned.cause.startswith(f"{BY_WORDS}, nothing fits")


class TestAskedFor:
    def test_words_are_all_there_is_by_default(self) -> None:
        assert open_better("lexical") is None

    def test_what_embeds_is_opened_without_loading_a_model(self) -> None:
        for kind in ["hybrid", "embedding", "minilm", "fastembed:model", "http://127.0.0.1:1/v1#m"]:
            assert type(open_better(kind)) is type(open_ranker("hybrid"))

    def test_anything_else_is_refused(self) -> None:
        for ranker in ["words", "", 5, None]:
            with pytest.raises(InputError, match="give "):
                open_better(ranker)  # type: ignore[arg-type]


class Threads:
    """A ranker that notes in which thread it works."""

    cause = ""

    def __init__(self) -> None:
        self.seen: set[threading.Thread] = set()

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        self.seen.add(threading.current_thread())
        return self

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        self.seen.add(threading.current_thread())
        return Ranking()


class TestThreads:
    async def test_neither_index_nor_ranking_is_made_on_the_event_loop(self) -> None:
        ranker = Threads()
        router = ToolRouter(catalog(), ranker=ranker)
        await router.indexed()
        await router.turn("the song")
        await router.search("song")
        assert len(ranker.seen) == 3
        assert threading.current_thread() not in ranker.seen
