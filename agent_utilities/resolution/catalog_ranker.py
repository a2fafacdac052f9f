"""The server's ranker: an index made in the background, swapped whole, and shared by all requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Index, Ranker, Ranking
from agent_utilities.resolution.answer import Question, Ranked
from agent_utilities.resolution.catalog_index import CatalogIndex
from agent_utilities.resolution.deadlines import for_vectors
from agent_utilities.runtime.bounded_cache import BoundedCache
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.selection.resolution import Resolution

logger = logging.getLogger("agent_utilities.ranking")

BY_WORDS = "ranked by words alone"
"""What callers are told where vectors were wanted and aren't there; the reason is for the operator's log."""

_N_THREADS = 2
_N_RANKED = 100
_RETRY_S = 60.0
_LATE_BYTES = 2 << 20

_Asked = tuple[str, str, str, int]
"""Version of the index, query, digest of the scope, and the most to rank."""


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A ranking, why it is less than it could be, and whether the next one may be more."""

    ranking: Ranking
    cause: str
    is_temporary: bool = False


class CatalogRanker:
    """Ranks a server's tools by words at once, and by vectors too as soon as they are there.

    Nothing is indexed on the request path: `offer` takes a catalog, `run` indexes it in a thread and swaps it in.
    Where vectors can't be had, words alone are used, and they are tried again after a while.

    Args:
        lexical: ranks by words.
        better: ranks by more than that, or None.
        retry_s: seconds between tries to have vectors.
    """

    def __init__(self, lexical: Ranker, better: Ranker | None = None, *, retry_s: float = _RETRY_S) -> None:
        self._lexical = lexical
        self._better = better
        self._retry_s = retry_s
        self._offered: tuple[str, Sequence[ToolDocument]] | None = None
        self._wake = asyncio.Event()
        self._improvable = asyncio.Event()
        self.settled = asyncio.Event()
        """Set while the index of what was offered last is as good as it gets for now."""
        self.first_try_done = asyncio.Event()
        """Set once the first index was made, or could not be."""
        self._index: CatalogIndex | None = None
        self._n_swaps = 0
        self._late: BoundedCache[_Asked, Future[Ranking]] = BoundedCache(_LATE_BYTES, _weigh)
        self._threads = ThreadPoolExecutor(_N_THREADS, "rank")
        # Of its own, so that words are not kept waiting by a model that hangs.
        self._threads_for_words = ThreadPoolExecutor(1, "rank-words")

    @property
    def version(self) -> str:
        """What is ranked from; empty before the first index."""
        return self._index.version if self._index is not None else ""

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of the index."""
        if self._index is None:
            return {"status": "indexing"}
        health: dict[str, Any] = {"status": "ready", "n_tools": len(self._index.names)}
        if self._index.lacks_vectors:
            health["cause"] = BY_WORDS
        return health

    # -- indexing, in the background -----------------------------------------------------------------------------

    def offer(self, digest: str, documents: Sequence[ToolDocument]) -> None:
        """Take a catalog to be indexed in the background; nothing is done where it is the one offered last.

        Args:
            digest: the same for equal catalogs.
            documents: its tools, no name twice.
        """
        if self._offered is None or self._offered[0] != digest:
            self._offered = digest, documents
            self.settled.clear()
            self._wake.set()

    async def wait_for_index(self, deadline: Deadline) -> None:
        """Wait for the first index where one is under way, no longer than the deadline."""
        if self._offered is not None:
            await self.wait_for_first_try(deadline)

    async def wait_for_first_try(self, deadline: Deadline) -> None:
        """Wait until there is an index or none can be had for now, offered or not yet, no longer than the deadline."""
        with suppress(TimeoutError):
            async with deadline.timeout():
                await self.first_try_done.wait()

    async def wait_until_settled(self) -> None:
        """Wait until the index is as good as it gets for now, where one is under way."""
        if self._offered is not None:
            await self.settled.wait()

    async def run(self) -> None:
        """Index what is offered until cancelled; by words at once, even while vectors of an older catalog are made."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._index_by_words())
                if self._better is not None:
                    group.create_task(self._index_by_vectors(self._better))
        finally:
            self._index = None
            self._late.clear()
            for threads in (self._threads, self._threads_for_words):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _index_by_words(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            assert self._offered is not None
            digest, documents = self._offered
            try:
                index = await in_daemon_thread(partial(self._lexical.index, documents))
                # A first time costs many times the others, and no caller should pay it.
                await in_daemon_thread(partial(index.rank, "warm up", limit=1))
            except Exception:
                logger.exception("can't index the tools; what was indexed before is used on")
            else:
                self._swap(digest, documents, index, index)
            self.first_try_done.set()
            if self._better is None:
                self._settle()
            else:
                self._improvable.set()

    async def _index_by_vectors(self, better: Ranker) -> None:
        while True:
            lacks_vectors = self._index is not None and self._index.lacks_vectors
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s if lacks_vectors else None):
                    await self._improvable.wait()
            self._improvable.clear()
            try:
                await self._improve(better)
            except Exception:
                logger.exception("can't index the tools by more than words")
            self._settle()

    async def _improve(self, better: Ranker) -> None:
        """Index the newest catalog by more than words, unless that was done, or the catalog has changed meanwhile."""
        if self._offered is None or self._index is None or not self._index.lacks_vectors:
            return
        digest, documents = self._offered
        index = await in_daemon_thread(partial(better.index, documents))
        differs = not index.cause or index.cause != self._index.best.cause
        if self._index.digest == digest and differs:
            self._swap(digest, documents, self._index.lexical, index)

    def _settle(self) -> None:
        is_newest = self._index is None or self._offered is None or self._index.digest == self._offered[0]
        if is_newest and not self._improvable.is_set():
            self.settled.set()

    def _swap(self, digest: str, documents: Sequence[ToolDocument], lexical: Index, best: Index) -> None:
        self._n_swaps += 1
        lacks_vectors = self._better is not None and bool(documents) and (best is lexical or bool(best.cause))
        names = tuple(document.name for document in documents)
        self._index = CatalogIndex(str(self._n_swaps), digest, names, lexical, best, lacks_vectors)
        logger.info("index of %d tools is ready%s", len(documents), f" ({best.cause})" if best.cause else "")

    # -- answering -----------------------------------------------------------------------------------------------

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        """Rank the tools in scope; by words alone where vectors take too long. See `ToolRanker`."""
        index = self._index
        ranked = await self._try_ranking(index, question, deadline) if index is not None else None
        if index is None or ranked is None:
            return None
        return partial(
            index.answer, question, ranking=ranked.ranking, cause=ranked.cause, is_temporary=ranked.is_temporary
        )

    async def search(self, question: Question, limit: int, deadline: Deadline) -> Resolution | None:
        """Return the best tools in scope, best first; by words alone where vectors take too long.

        It never fails, never waits past the deadline and blocks nothing.

        Args:
            question: what is asked.
            limit: the most to name.
            deadline: until when it is waited for.

        Returns:
            None where it can't rank.
        """
        index = self._index
        ranked = await self._try_ranking(index, question, deadline) if index is not None else None
        if index is None or ranked is None:
            return None
        return index.best_tools(question, limit, ranked.ranking, ranked.cause, is_temporary=ranked.is_temporary)

    async def _try_ranking(self, index: CatalogIndex, question: Question, deadline: Deadline) -> _Ranked | None:
        """Return a ranking of the tools in scope; None where there is none by the deadline, for whatever reason."""
        try:
            return await self._rank_from(index, question, deadline)
        except TimeoutError:
            logger.warning("ranking took too long; tools that bear the query's words are shown")
        except Exception:
            logger.exception("can't rank; tools that bear the query's words are shown")
        return None

    async def _rank_from(self, index: CatalogIndex, question: Question, deadline: Deadline) -> _Ranked:
        permitted = index.permitted(question.scope)
        limit = _N_RANKED + (question.limit or 0)
        rank_by_words = partial(index.lexical.rank, question.query, permitted=permitted, limit=limit)
        if index.lexical is index.best:
            async with deadline.timeout():
                ranking = await _in(self._threads, rank_by_words)
            return _Ranked(ranking, _cause(index, ranking))
        try:
            ranking = await self._rank_by_vectors(index, question, permitted, limit, for_vectors(deadline))
        except TimeoutError:
            async with deadline.timeout():
                ranking = await _in(self._threads_for_words, rank_by_words)
            return _Ranked(ranking, BY_WORDS, is_temporary=True)
        cause = _cause(index, ranking)
        return _Ranked(ranking, cause, is_temporary=bool(cause) and not index.lacks_vectors)

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


async def _in(threads: ThreadPoolExecutor, rank: Callable[[], Ranking]) -> Ranking:
    return await asyncio.get_running_loop().run_in_executor(threads, rank)
