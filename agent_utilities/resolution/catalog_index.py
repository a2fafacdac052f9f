"""One catalog made ready to be ranked, rankings of it by a deadline, and the answers that they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Index, Ranking
from agent_utilities.ranking.plain_words import bears
from agent_utilities.resolution.answer import VECTORS_SHARE, CallerScope, Question, combined_answer
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import RankedTool, Resolution

_SCOPES_BYTES = 2 << 20


def _scope_cache() -> BoundedCache[str, tuple[int, ...]]:
    return BoundedCache(_SCOPES_BYTES, lambda digest, places: 200 + 8 * len(places))


@dataclass(frozen=True, eq=False)
class CatalogIndex:
    """A catalog made ready to be ranked.

    Args:
        version: differs from that of every other one.
        digest: of the catalog.
        names: of its tools, in catalog order.
        lexical: by words, which always works.
        best: by whatever was asked for, as far as it can be had.
        lacks_vectors: whether that is less than what was asked for.
        documents: its tools, aligned with `names`.
    """

    version: str
    digest: str
    names: tuple[str, ...]
    lexical: Index
    best: Index
    lacks_vectors: bool
    documents: Sequence[ToolDocument] = ()
    _places_by_scope: BoundedCache[str, tuple[int, ...]] = field(default_factory=_scope_cache)

    def permitted(self, scope: CallerScope | None) -> tuple[int, ...] | None:
        """Return the places of the tools in a scope, in catalog order; None for all."""
        if scope is None:
            return None
        places = self._places_by_scope.get(scope.digest)
        if places is None:
            names = scope.names()
            places = tuple(place for place, name in enumerate(self.names) if name in names)
            self._places_by_scope.keep(scope.digest, places)
        return places

    def answer(
        self, question: Question, literal: Sequence[str], ranking: Ranking, cause: str, *, is_temporary: bool = False
    ) -> Resolution:
        """Return what a ranking comes to, together with the literal matches.

        Args:
            question: what was asked.
            literal: names of the tools in scope that bear the query as it stands.
            ranking: of the tools in scope.
            cause: why the ranking is less than it could be; empty where it isn't.
            is_temporary: whether that may be over at the next request.
        """
        answer = combined_answer(question, literal, self._tools(ranking), ranking.n_claimed)
        why_none = "" if answer.tools else ranking.why_none
        return replace(answer, cause=", ".join(filter(None, (cause, why_none))), is_temporary=is_temporary)

    def bearing(self, question: Question) -> tuple[int, ...]:
        """Return the places of the tools in scope that bear a query as it stands; processor work, for a thread."""
        permitted = self.permitted(question.scope)
        places = range(len(self.documents)) if permitted is None else permitted
        return tuple(place for place in places if bears(question.text, self.documents[place]))

    def best_tools(self, limit: int, ranking: Ranking, bearing: Sequence[int]) -> Resolution:
        """Return the best tools, whether or not they are said to answer.

        Args:
            limit: the most to name.
            ranking: of the tools in scope; those named come first in it.
            bearing: places of those that bear the query as it stands, where none has a word of it: part of a name, or
                words written together. They come first, the better ranked before the others.
        """
        ranked = {self.names[place]: tool for place, tool in zip(ranking.indexes, self._tools(ranking), strict=True)}
        literal = frozenset(self.names[place] for place in bearing)
        tools = (
            *(tool for name, tool in ranked.items() if name in literal),
            *(RankedTool(name) for name in map(self.names.__getitem__, bearing) if name not in ranked),
            *(tool for name, tool in ranked.items() if name not in literal),
        )[: max(0, limit)]
        return Resolution("ranked" if tools else "no_match", tools, "" if literal else ranking.why_none)

    def _tools(self, ranking: Ranking) -> list[RankedTool]:
        return [
            RankedTool(self.names[place], score, words)
            for place, score, words in zip(ranking.indexes, ranking.scores, ranking.matched, strict=True)
        ]


BY_WORDS = "ranked by words alone"
"""What callers are told where vectors were wanted and aren't there; the reason is for the operator's log."""

_N_THREADS = 2
_N_RANKED = 100
_LATE_BYTES = 2 << 20

_T = TypeVar("_T")
_Asked = tuple[str, str, str, int]
"""Version of the index, query, digest of the scope, and the most to rank."""


@dataclass(frozen=True, slots=True)
class TimedRanking:
    """A ranking that was there in time.

    Args:
        ranking: of the tools in scope.
        cause: why it is less than it could be; empty where it isn't.
        is_temporary: whether that may be over at the next request.
    """

    ranking: Ranking
    cause: str
    is_temporary: bool = False


class TimelyRankings:
    """Ranks in threads, so that the event loop goes on; a vector that comes too late serves the next who asks."""

    def __init__(self) -> None:
        self._late: BoundedCache[_Asked, Future[Ranking]] = BoundedCache(_LATE_BYTES, _weigh)
        self._threads = ThreadPoolExecutor(_N_THREADS, "rank")
        # Of its own, so that words are not kept waiting by a model that hangs.
        self._threads_for_words = ThreadPoolExecutor(1, "rank-words")

    def close(self) -> None:
        """Forget what came late, and let the threads end."""
        self._late.clear()
        for threads in (self._threads, self._threads_for_words):
            threads.shutdown(wait=False, cancel_futures=True)

    async def rank(self, index: CatalogIndex, question: Question, deadline: Deadline) -> TimedRanking:
        """Rank the tools in scope.

        Raises:
            TimeoutError: the deadline passed.
        """
        permitted = index.permitted(question.scope)
        limit = _N_RANKED + (question.limit or 0)
        rank_by_words = partial(index.lexical.rank, question.query, permitted=permitted, limit=limit)
        if index.lexical is index.best:
            async with deadline.timeout():
                ranking = await _in(self._threads, rank_by_words)
            return TimedRanking(ranking, _cause(index, ranking))
        try:
            ranking = await self._rank_by_vectors(index, question, permitted, limit, deadline.share(VECTORS_SHARE))
        except TimeoutError:
            async with deadline.timeout():
                ranking = await _in(self._threads_for_words, rank_by_words)
            return TimedRanking(ranking, BY_WORDS, is_temporary=True)
        cause = _cause(index, ranking)
        return TimedRanking(ranking, cause, is_temporary=bool(cause) and not index.lacks_vectors)

    async def bearing(self, index: CatalogIndex, question: Question, deadline: Deadline) -> Sequence[int]:
        """Return the places of the tools in scope that bear the query as it stands.

        Raises:
            TimeoutError: the deadline passed.
        """
        async with deadline.timeout():
            return await _in(self._threads_for_words, partial(index.bearing, question))

    async def _rank_by_vectors(
        self, index: CatalogIndex, question: Question, permitted: Sequence[int] | None, limit: int, deadline: Deadline
    ) -> Ranking:
        """Rank by vectors; where that comes too late for this request, keep it for the next one that asks the same.

        Raises:
            TimeoutError: the deadline passed. A ranking that runs goes on; one that waits for a thread is given up,
                so that no thread is kept by what nobody waits for.
        """
        asked = (index.version, question.query, question.scope.digest if question.scope is not None else "", limit)
        running = self._late.get(asked)
        if running is None or _is_lesser(running):
            rank = partial(index.best.rank, question.query, permitted=permitted, limit=limit)
            running = self._threads.submit(rank)
        try:
            async with deadline.timeout():
                return await asyncio.shield(asyncio.wrap_future(running))
        except TimeoutError:
            if not running.cancel():
                self._late.keep(asked, running)
            raise


def _is_lesser(ranking: Future[Ranking]) -> bool:
    """Whether a ranking that was waited for has failed, or is by words for want of vectors."""
    return ranking.done() and (ranking.exception() is not None or bool(ranking.result().cause))


def _weigh(asked: _Asked, ranking: Future[Ranking]) -> int:
    """Return the most bytes that a ranking may come to."""
    _, query, _, limit = asked
    return 1000 + 2 * len(query) + 200 * limit


def _cause(index: CatalogIndex, ranking: Ranking) -> str:
    return BY_WORDS if index.lacks_vectors or ranking.cause else ""


async def _in(threads: ThreadPoolExecutor, call: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(threads, call)
