"""`CatalogRanker` indexes the server's tools in the background and ranks them; functions make answers of rankings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cachetools import LRUCache

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.base import BY_WORDS, Ranking, bears
from agent_utilities.query.ranking.lexical import LexicalIndex, LexicalRanker
from agent_utilities.query.resolution.answer import INDEX_SHARE, VECTORS_SHARE, CallerScope, Question, Ranked
from agent_utilities.runtime.waiting import Deadline, Job, in_daemon_thread
from agent_utilities.selection.model import RankedTool, Resolution

if TYPE_CHECKING:
    from agent_utilities.query.ranking.hybrid import HybridIndex, HybridRanker

logger = logging.getLogger("agent_utilities.ranking")

RETRY_S = 60.0
_N_THREADS = 2
N_RANKED = 100
_N_SCOPES = 8
"""How many scopes' places are cached: collecting them takes longer than ranking."""
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class CatalogIndex:
    """An indexed catalog.

    Args:
        version: differs from that of every other one.
        digest: of the catalog.
        documents: its tools, in catalog order.
        lexical: by words, which always works.
        best: by what is configured, as far as it is available.
        lacks_vectors: whether that is less than what is configured.
    """

    version: str
    digest: str
    documents: Sequence[ToolDocument]
    lexical: LexicalIndex
    best: LexicalIndex | HybridIndex
    lacks_vectors: bool = False
    _places: LRUCache[str, tuple[int, ...]] = field(default_factory=lambda: LRUCache(_N_SCOPES), init=False)

    def permitted(self, scope: CallerScope | None) -> tuple[int, ...] | None:
        """Return the places of the tools in a scope, in catalog order; None for all."""
        if scope is None:
            return None
        if (places := self._places.get(scope.digest)) is None:
            names = scope.names()
            places = tuple(place for place, tool in enumerate(self.documents) if tool.name in names)
            self._places[scope.digest] = places
        return places

    def answer(
        self, question: Question, literal: Sequence[str], ranking: Ranking, cause: str, *, is_temporary: bool = False
    ) -> Resolution:
        """Return the answer of a ranking and of literal matches."""
        answer = combined_answer(question, literal, self._tools(ranking), ranking.n_claimed)
        why_none = "" if answer.tools else ranking.why_none
        return replace(answer, cause=", ".join(filter(None, (cause, why_none))), is_temporary=is_temporary)

    def bearing(self, text: str, permitted: Sequence[int] | None) -> tuple[int, ...]:
        """Return the places of the permitted tools that match a query literally; processor work, for a thread."""
        places = range(len(self.documents)) if permitted is None else permitted
        return tuple(place for place in places if bears(text, self.documents[place]))

    def best_tools(self, limit: int, ranking: Ranking, bearing: Sequence[int]) -> Resolution:
        """Return the best tools, whether or not they are said to answer.

        Those at the places `bearing` bear the query as it stands, where none has a word of it: part of a name, or words
        written together. They come first, the better ranked before the others.
        """
        ranked = self._tools(ranking)
        literal = list(dict.fromkeys(self.documents[place].name for place in bearing))
        tools = _literal_first(literal, ranked, len(ranked))[: max(0, limit)]
        return Resolution("ranked" if tools else "no_match", tools, "" if literal else ranking.why_none)

    def _tools(self, ranking: Ranking) -> list[RankedTool]:
        return [
            RankedTool(self.documents[place].name, score, words)
            for place, score, words in zip(ranking.indexes, ranking.scores, ranking.matched, strict=True)
        ]


def combined_answer(
    question: Question, literal: Sequence[str], ranked: Sequence[RankedTool] = (), n_claimed: int = 0
) -> Resolution:
    """Return the literal matches, the better ranked ones first, and after them what the ranker claims besides.

    The best of those is named however many tools bear the query. A query that is a tool's name asks for no other.
    """
    if any(name.lower() == question.text for name in literal):
        n_claimed = 0
    tools = _literal_first(literal, ranked, n_claimed)
    shown = tools[: question.limit]
    if n_claimed and ranked[0] not in shown:
        shown = (*shown[:-1], ranked[0])
    return Resolution("fresh" if tools else "no_match", shown, n_left_out=len(tools) - len(shown))


def ranked_alone(answer: Resolution, cause: str) -> Resolution:
    """Return a ranking as the answer to a query that the graph, or vectors, didn't answer for that cause."""
    causes = ", ".join(filter(None, (cause, answer.cause)))
    return replace(answer, status="ranked" if answer.tools else "no_match", cause=causes)


def _literal_first(literal: Sequence[str], ranked: Sequence[RankedTool], n_claimed: int) -> tuple[RankedTool, ...]:
    """Return the literal matches, the better ranked ones first, and after them the others that are claimed."""
    bearing, ranked_names = frozenset(literal), frozenset(tool.name for tool in ranked)
    return (
        *(tool for tool in ranked if tool.name in bearing),
        *(RankedTool(name) for name in literal if name not in ranked_names),
        *(tool for tool in ranked[:n_claimed] if tool.name not in bearing),
    )


class CatalogRanker:
    """Ranks a server's tools by words at once, and by vectors too as soon as they are there.

    Nothing is indexed on the request path: `offer` takes a catalog, `run` indexes it in a thread and swaps it in.
    Where vectors can't be had, words alone are used, and they are tried again after a while.
    """

    def __init__(self, better: HybridRanker | None = None, *, retry_s: float = RETRY_S) -> None:
        self._better = better
        self._by_words = Job(self._index_by_words, self._failed, (retry_s,))
        self._by_vectors = Job(self._index_by_vectors, self._failed, (retry_s,))
        self.first_try_done = self._by_words.first_try_done
        """Set once the first index was made, or could not be."""
        self.learned: Callable[[str, CatalogIndex], CatalogIndex] = lambda scope, index: index
        """Returns the index that knows past requests, for callers of a usage scope, as far as it is made."""
        self.on_index: Callable[[], None] = lambda: None
        """Called when another index is swapped in."""
        self.index: CatalogIndex | None = None
        """The current index; None before the first."""
        self._offered: tuple[str, Sequence[ToolDocument]] | None = None
        self._too_long_for = ""  # the digest of a catalog whose index by vectors a search has waited for in vain
        self._n_swaps = 0
        self._threads = ThreadPoolExecutor(_N_THREADS, "rank")
        # Of its own, so that words are not kept waiting by a model that hangs.
        self._threads_for_words = ThreadPoolExecutor(1, "rank-words")

    @property
    def version(self) -> str:
        """The version of the current index; empty before the first."""
        return self.index.version if self.index is not None else ""

    def version_for(self, scope: str) -> str:
        """Return the version of the index for a usage scope: answers of one version are equal.

        Empty before the first index. No version is that of two scopes, everybody's aside.
        """
        if self.index is None:
            return ""
        # What was learned may come between this and the answer: a scope's answers are kept apart from the first.
        version = self.learned(scope, self.index).version
        return f"{version}@{scope}" if scope else version

    def health(self) -> dict[str, Any]:
        """Return the state for `/ready`, without the number of tools: some of them nobody may use."""
        if self.index is None:
            return {"status": "indexing"}
        return {"status": "ready", **({"cause": BY_WORDS} if self.index.lacks_vectors else {})}

    # -- indexing, in the background ---------------------------------------------------------------------------------

    def offer(self, digest: str, documents: Sequence[ToolDocument]) -> None:
        """Schedule a catalog for indexing in the background, unless it is the last one offered."""
        if self._offered is None or self._offered[0] != digest:
            self._offered = digest, documents
            self._by_words.want(hurry=True)

    async def wait_to_search(self, deadline: Deadline) -> None:
        """Wait for the first index, and a part of the time for what is better than words, if that is being made.

        Who searches waits rather than have less. Where vectors take longer than that, nobody waits for them again.
        """
        await deadline.wait(self.first_try_done)
        offered = self._offered
        if offered is None or self._too_long_for == offered[0]:
            return
        try:
            async with deadline.share(INDEX_SHARE).timeout():
                await self.wait_until_settled()
        except TimeoutError:
            self._too_long_for = offered[0]

    async def wait_until_settled(self) -> None:
        """Wait until the index of what was offered last is as good as it gets for now."""
        jobs = self._by_words, self._by_vectors
        while not all(job.settled.is_set() for job in jobs):
            for job in jobs:
                await job.settled.wait()

    async def run(self) -> None:
        """Index what is offered until cancelled; by words at once, even while vectors of an older catalog are made."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._by_words.run())
                group.create_task(self._by_vectors.run())
        finally:
            self.index = None
            for threads in (self._threads, self._threads_for_words):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _index_by_words(self) -> None:
        assert self._offered is not None
        digest, documents = self._offered
        index = await in_daemon_thread(partial(LexicalRanker().index, documents))
        # A first time costs many times the others, and no caller should pay it.
        await in_daemon_thread(partial(index.rank, "warm up", limit=1))
        lacks_vectors = self._better is not None and bool(documents)
        self._swap(CatalogIndex("", digest, documents, index, index, lacks_vectors))
        if lacks_vectors:
            self._by_vectors.want(hurry=True)

    async def _index_by_vectors(self) -> None:
        """Index the newest catalog by more than words, unless another is indexed meanwhile."""
        index, better = self.index, self._better
        if index is None or better is None or not index.lacks_vectors:
            return
        best = await in_daemon_thread(partial(better.index, index.documents, index.lexical))
        if best.cause:
            raise RankerError(best.cause)
        if self.index is index:
            self._swap(replace(index, best=best, lacks_vectors=False))

    def _failed(self, error: Exception, n_before: int) -> None:
        if n_before == 0 and not isinstance(error, RankerError):  # which the embedder has logged
            logger.error("can't index the tools; what was indexed before is used on", exc_info=error)

    def _swap(self, index: CatalogIndex) -> None:
        self._n_swaps += 1
        self.index = replace(index, version=str(self._n_swaps))
        self.on_index()
        logger.info("index of %d tools is ready", len(index.documents))

    # -- answering ---------------------------------------------------------------------------------------------------

    async def rank(self, question: Question, deadline: Deadline | None) -> Ranked | None:
        """Rank the tools in scope, by words alone where vectors take too long; None where it can't, never fails.

        Args:
            question: the query and its scope.
            deadline: of vectors; None asks for words alone.
        """
        if (made := await self._ranking(question, deadline)) is None:
            return None
        index, ranking, cause, is_temporary = made
        return partial(index.answer, question, ranking=ranking, cause=cause, is_temporary=is_temporary)

    async def search(self, question: Question, deadline: Deadline) -> Resolution | None:
        """Return the best tools in scope, best first; by words alone where vectors take too long.

        Returns:
            `ranked`, or `no_match` where no tool shares anything with the query; None where it can't rank.
        """
        if (made := await self._ranking(question, deadline)) is None:
            return None
        index, ranking, cause, is_temporary = made
        bearing: Sequence[int] = ()
        if not any(ranking.matched):
            looking = partial(index.bearing, question.text, index.permitted(question.scope))
            bearing = await self._by_words_alone(looking)
        answer = index.best_tools(question.limit or 0, ranking, bearing)
        return replace(answer, cause=", ".join(filter(None, (cause, answer.cause))), is_temporary=is_temporary)

    async def _ranking(
        self, question: Question, deadline: Deadline | None
    ) -> tuple[CatalogIndex, Ranking, str, bool] | None:
        """Rank the tools in scope in threads, so that the event loop goes on; None where it can't.

        A vector that comes too late goes on being made, and serves the next who asks the same: the embedder remembers
        it. A ranking by vectors that still waits for a thread by then is cancelled. One by words is waited for however
        late it is: it takes under a millisecond for thousands of tools, and a list of them all a thousand times that.

        Args:
            question: the query and its scope.
            deadline: of vectors; None asks for words alone.

        Returns:
            What was ranked, the ranking, why it is less than it could be, and whether that may be over at the next
            request.
        """
        if self.index is None:
            return None
        index = self.learned(question.trail.scope, self.index)
        permitted, limit = index.permitted(question.scope), N_RANKED + (question.limit or 0)
        by_words = partial(index.lexical.rank, question.query, permitted=permitted, limit=limit)
        by_vectors = partial(index.best.rank, question.query, permitted=permitted, limit=limit)
        has_vectors = index.best is not index.lexical
        try:
            if has_vectors and deadline is not None:
                with suppress(TimeoutError):
                    async with deadline.share(VECTORS_SHARE).timeout():
                        ranking = await asyncio.get_running_loop().run_in_executor(self._threads, by_vectors)
                        return index, ranking, BY_WORDS if ranking.cause else "", bool(ranking.cause)
            ranking = await self._by_words_alone(by_words)
            return index, ranking, BY_WORDS if has_vectors or index.lacks_vectors else "", has_vectors
        except Exception:
            logger.exception("can't rank; tools that bear the query's words are shown")
        return None

    async def _by_words_alone(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads_for_words, call)
