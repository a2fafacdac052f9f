"""The server's ranker: an index made in the background, swapped whole, and shared by all requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Index, Ranker, Ranking
from agent_utilities.resolution.answer import INDEX_SHARE, VECTORS_SHARE, Question, Ranked
from agent_utilities.resolution.catalog_index import BY_WORDS, CatalogIndex
from agent_utilities.resolution.learned_indexes import LearnedIndexes
from agent_utilities.runtime.waiting import Deadline, in_daemon_thread
from agent_utilities.selection.model import Resolution

logger = logging.getLogger("agent_utilities.ranking")

_RETRY_S = 60.0
_N_THREADS = 2
_N_RANKED = 100

_T = TypeVar("_T")


class CatalogRanker:
    """Ranks a server's tools by words at once, and by vectors too as soon as they are there.

    Nothing is indexed on the request path: `offer` takes a catalog, `run` indexes it in a thread and swaps it in.
    Where vectors can't be had, words alone are used, and they are tried again after a while.
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
        self._too_long_for = ""
        """Digest of a catalog whose index by vectors a search has waited for in vain."""
        self._index: CatalogIndex | None = None
        self._n_swaps = 0
        self._threads = ThreadPoolExecutor(_N_THREADS, "rank")
        # Of its own, so that words are not kept waiting by a model that hangs.
        self._threads_for_words = ThreadPoolExecutor(1, "rank-words")
        self.learned = LearnedIndexes(retry_s)
        """Catalogs that know past requests, each for callers of one usage scope."""

    @property
    def version(self) -> str:
        """What is ranked from; empty before the first index."""
        return self._index.version if self._index is not None else ""

    def version_for(self, scope: str) -> str:
        """Return what callers of a usage scope are answered from: answers of one version are equal.

        Empty before the first index. No version is that of two scopes, everybody's aside.
        """
        index = self._index_for(scope)
        if index is None:
            return ""
        # What was learned may come between this and the answer: a scope's answers are kept apart from the first.
        return f"{index.version}@{scope}" if scope else index.version

    def _index_for(self, scope: str) -> CatalogIndex | None:
        return None if self._index is None else self.learned.of(scope, self._index)

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of the index: not how many tools are in it, those that nobody may use included."""
        if self._index is None:
            return {"status": "indexing"}
        health: dict[str, Any] = {"status": "ready"}
        if self._index.lacks_vectors:
            health["cause"] = BY_WORDS
        return health

    # -- indexing, in the background ---------------------------------------------------------------------------------

    def offer(self, digest: str, documents: Sequence[ToolDocument]) -> None:
        """Take a catalog to be indexed in the background; nothing is done where it is the one offered last."""
        if self._offered is None or self._offered[0] != digest:
            self._offered = digest, documents
            self.settled.clear()
            self._wake.set()

    async def wait_for_first_try(self, deadline: Deadline) -> None:
        """Wait until there is an index or none can be had for now, offered or not yet, no longer than the deadline."""
        with suppress(TimeoutError):
            async with deadline.timeout():
                await self.first_try_done.wait()

    async def wait_to_search(self, deadline: Deadline) -> None:
        """Wait for the first index, and a part of the time for what is better than words, if that is being made.

        Who searches waits rather than have less. Where vectors take longer than that, nobody waits for them again.
        """
        await self.wait_for_first_try(deadline)
        offered = self._offered
        if offered is None or self.settled.is_set() or self._too_long_for == offered[0]:
            return
        try:
            async with deadline.share(INDEX_SHARE).timeout():
                await self.settled.wait()
        except TimeoutError:
            self._too_long_for = offered[0]

    async def wait_until_settled(self) -> None:
        """Wait until the index is as good as it gets for now, where one is under way."""
        if self._offered is not None:
            await self.settled.wait()

    async def run(self) -> None:
        """Index what is offered until cancelled; by words at once, even while vectors of an older catalog are made."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._index_by_words())
                group.create_task(self.learned.run(lambda: self._index))
                if self._better is not None:
                    group.create_task(self._index_by_vectors(self._better))
        finally:
            self._index = None
            self.learned.clear()
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
        self._index = CatalogIndex(str(self._n_swaps), digest, names, lexical, best, lacks_vectors, documents)
        self.learned.catalog_changed()
        logger.info("index of %d tools is ready%s", len(documents), f" ({best.cause})" if best.cause else "")

    # -- answering ---------------------------------------------------------------------------------------------------

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        """Rank the tools in scope, by words alone where vectors take too long; None where it can't, never fails."""
        index = self._index_for(question.trail.scope)
        return None if index is None else await _attempt(self._rank(index, question, deadline))

    async def _rank(self, index: CatalogIndex, question: Question, deadline: Deadline) -> Ranked:
        ranking, cause, is_temporary = await self._in_time(index, question, deadline)
        return partial(index.answer, question, ranking=ranking, cause=cause, is_temporary=is_temporary)

    async def search(self, question: Question, limit: int, deadline: Deadline) -> Resolution | None:
        """Return the best tools in scope, best first; by words alone where vectors take too long.

        Returns:
            `ranked`, or `no_match` where no tool shares anything with the query; None where it can't rank.
        """
        index = self._index_for(question.trail.scope)
        return None if index is None else await _attempt(self._search(index, question, limit, deadline))

    async def _search(self, index: CatalogIndex, question: Question, limit: int, deadline: Deadline) -> Resolution:
        ranking, cause, is_temporary = await self._in_time(index, question, deadline)
        bearing: Sequence[int] = ()
        if not any(ranking.matched):
            bearing = await _in(self._threads_for_words, deadline, partial(index.bearing, question))
        answer = index.best_tools(limit, ranking, bearing)
        return replace(answer, cause=", ".join(filter(None, (cause, answer.cause))), is_temporary=is_temporary)

    async def _in_time(self, index: CatalogIndex, question: Question, deadline: Deadline) -> tuple[Ranking, str, bool]:
        """Rank the tools in scope in threads, so that the event loop goes on.

        A vector that comes too late goes on being made, and serves the next who asks the same: the embedder remembers
        it. A ranking that still waits for a thread by then is given up.

        Returns:
            The ranking, why it is less than it could be, and whether that may be over at the next request.

        Raises:
            TimeoutError: the deadline passed.
        """
        permitted, limit = index.permitted(question.scope), _N_RANKED + (question.limit or 0)
        by_words = partial(index.lexical.rank, question.query, permitted=permitted, limit=limit)
        if index.lexical is index.best:
            ranking = await _in(self._threads, deadline, by_words)
            return ranking, _cause(index, ranking), False
        try:
            by_vectors = partial(index.best.rank, question.query, permitted=permitted, limit=limit)
            ranking = await _in(self._threads, deadline.share(VECTORS_SHARE), by_vectors)
        except TimeoutError:
            return await _in(self._threads_for_words, deadline, by_words), BY_WORDS, True
        cause = _cause(index, ranking)
        return ranking, cause, bool(cause) and not index.lacks_vectors


def _cause(index: CatalogIndex, ranking: Ranking) -> str:
    return BY_WORDS if index.lacks_vectors or ranking.cause else ""


async def _in(threads: ThreadPoolExecutor, deadline: Deadline, call: Callable[[], _T]) -> _T:
    async with deadline.timeout():
        return await asyncio.get_running_loop().run_in_executor(threads, call)


async def _attempt(answer: Awaitable[_T]) -> _T | None:
    """Return an answer, or None where it fails or comes too late."""
    try:
        return await answer
    except TimeoutError:
        logger.warning("ranking took too long; tools that bear the query's words are shown")
    except Exception:
        logger.exception("can't rank; tools that bear the query's words are shown")
    return None
