"""`Teaching` reads the usage log in the background, for ranker, graph and prior; no request waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cachetools import LRUCache

from agent_utilities.errors import RankerError
from agent_utilities.query.graph.sync import ToolEdge
from agent_utilities.query.ranking.answerability import PastRequests
from agent_utilities.query.ranking.lexical import LexicalIndex
from agent_utilities.query.resolution.catalog_ranker import RETRY_S, CatalogIndex, CatalogRanker
from agent_utilities.query.resolution.prior import NO_PRIOR, Prior, tool_edges
from agent_utilities.runtime.waiting import Job, in_daemon_thread, is_set
from agent_utilities.usage.model import EVERYBODY, NOBODY, NOTHING_LEARNED, Learned, UsageSource

logger = logging.getLogger("agent_utilities.usage")

_N_SCOPES = 64
MOST_BYTES = 128 << 20
"""The bytes of the indexes of all scopes together: one of 4,000 tools with 20 requests of 60 characters each takes some
60 MB."""
_OTHERS_S = 60.0
_REST = 20.0
"""The pause after a reading, as a multiple of its time: a log of 200,000 calls takes a second of a processor."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a usage scope.

    Args:
        learned, prior: what its log teaches, in two forms.
        index: the catalog that knows its past requests; None where it was not made.
        made_of: the versions of the catalog's own index and of the log that it was made of.
        n_bytes: what it takes beyond the catalog's own.
    """

    learned: Learned = NOTHING_LEARNED
    prior: Prior = NO_PRIOR
    index: CatalogIndex | None = None
    made_of: tuple[str, str] = "", ""
    n_bytes: int = 0


_UNREAD = Known()


class Teaching:
    """Learns from a server's usage: a scope when it is first used, and again when the log has grown.

    The index of the catalog is shared; the overlay of a scope with past requests is small, and is rebuilt when either
    changes. Until then, and where it can't be built, the catalog is ranked without.

    Args:
        ranker: ranks by past requests; None where nothing ranks.
        on_edges: called when other edges may be known than before.
        gap_s: seconds between two readings of the log at least.
        retry_s: seconds between tries to have vectors of past requests.
        max_bytes: what indexes may take together.
    """

    def __init__(
        self,
        source: UsageSource,
        ranker: CatalogRanker | None,
        on_edges: Callable[[], None],
        gap_s: float,
        *,
        retry_s: float = RETRY_S,
        max_bytes: int = MOST_BYTES,
    ) -> None:
        self._read, self._ranker, self._on_edges, self._gap_s = source.read, ranker, on_edges, gap_s
        self._max_bytes = max_bytes
        # A scope without an index weighs as much as leaves room for so many of them.
        self._known: LRUCache[str, Known] = LRUCache(
            max_bytes, lambda known: max(max_bytes // _N_SCOPES, known.n_bytes)
        )
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()
        self._has_failed = False
        self._indexing = Job(self._make_indexes, self._index_failed, (retry_s,))
        self.settled = asyncio.Event()
        """Set while every scope in use was read, and the log has not grown here since."""
        self.settled.set()
        if ranker is not None:
            ranker.learned, ranker.on_index = self._index_of, self._index_anew
        if source.is_shared:
            self.of(EVERYBODY)

    def prior(self, scope: str) -> Prior | None:
        """Return the prior of a scope, as far as it was read; None where nothing was learned."""
        known = self.of(scope)
        return None if known.learned is NOTHING_LEARNED else known.prior

    def of(self, scope: str) -> Known:
        """Return what is known of a scope by now; nothing at its first use, which has it read."""
        if scope == NOBODY:
            return _UNREAD
        known = self._known.get(scope)
        if known is None:
            self._known[scope] = known = _UNREAD
            self._want(scope)
        return known

    def news(self) -> None:
        """Schedule every known scope to be read again: the log has grown."""
        for scope in self._known:
            self._want(scope)

    def _want(self, scope: str) -> None:
        self._wanted.add(scope)
        self.settled.clear()
        self._wake.set()

    async def edges(self) -> Sequence[ToolEdge]:
        """Return the edges between tools in every known scope."""
        learned = {scope: known.learned for scope, known in self._known.items()}
        return await in_daemon_thread(lambda: [edge for scope in learned for edge in tool_edges(learned[scope], scope)])

    def health(self) -> dict[str, Any]:
        """Return the state for `/ready`: how much is known, and whether all of the log was read."""
        learned = self._known.get(EVERYBODY, _UNREAD).learned
        n_requests = sum(map(len, learned.past_requests.values()))
        is_settled = self.settled.is_set() and self._indexing.settled.is_set()
        return {"scopes": len(self._known), "tools": len(learned.uses), "requests": n_requests, "settled": is_settled}

    async def run(self) -> None:
        """Read the scheduled scopes until cancelled, one after the other, and build their indexes."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._indexing.run())
            while True:
                await is_set(self._wake, within_s=_OTHERS_S)
                self._wake.clear()
                wanted, self._wanted = self._wanted or set(self._known), set()
                started_s = time.monotonic()
                for scope in sorted(wanted):
                    await self._learn(scope)
                if not self._wanted:
                    self.settled.set()
                await asyncio.sleep(max(self._gap_s, _REST * (time.monotonic() - started_s)))

    async def _learn(self, scope: str) -> None:
        try:
            learned, prior = await in_daemon_thread(partial(self._read_with_prior, scope))
        except Exception as error:
            if not self._has_failed:
                logger.warning("can't read the usage log (%s); what was learned before is used on", error)
            self._has_failed = True
            return
        self._has_failed = False
        before = self._known.get(scope)
        if before is None or learned.version == before.learned.version:
            return  # unchanged, or the scope was evicted since
        self._known[scope] = replace(before, learned=learned, prior=prior)
        self._index_anew()
        self._on_edges()

    def _read_with_prior(self, scope: str) -> tuple[Learned, Prior]:
        learned = self._read(scope)
        return (learned, Prior(learned.uses)) if learned.version else (NOTHING_LEARNED, NO_PRIOR)

    # -- indexes that know past requests -----------------------------------------------------------------------------

    def _index_of(self, scope: str, base: CatalogIndex) -> CatalogIndex:
        """Return the index that answers a scope's callers: the old overlay serves until a new one is built."""
        known = self.of(scope)
        if known.index is None or known.made_of[0] != base.version or not known.learned.past_requests:
            return base
        return known.index

    def _index_anew(self) -> None:
        """Schedule the indexes that are out of date."""
        if self._ranker is not None:
            self._indexing.want(hurry=True)

    async def _make_indexes(self) -> None:
        """Build each index that is out of date with its scope's log or with the catalog.

        Raises `RankerError` where past requests can't be embedded; the embedder has logged it.
        """
        failure: RankerError | None = None
        for scope, known in list(self._known.items()):
            base = self._ranker.index if self._ranker is not None else None
            if base is None:
                return
            made_of = base.version, known.learned.version
            if known.made_of == made_of or not known.learned.past_requests:
                continue
            try:
                index, n_bytes = await in_daemon_thread(partial(_with_past_requests, base, known.learned))
            except RankerError as error:
                # What was made of an older log may hold requests that were forgotten since.
                failure = error
                if (now := self._known.get(scope)) is not None:
                    self._known[scope] = replace(now, index=None, made_of=("", ""), n_bytes=0)
                continue
            if n_bytes > self._max_bytes:
                logger.warning("past requests take %d bytes, more than there is room for; they are left out", n_bytes)
                index, n_bytes = base, 0
            if (now := self._known.get(scope)) is not None:
                index = replace(index, version=":".join(made_of))
                self._known[scope] = replace(now, index=index, made_of=made_of, n_bytes=n_bytes)
        if failure is not None:
            raise failure

    def _index_failed(self, error: Exception, n_before: int) -> None:
        if not isinstance(error, RankerError) and n_before == 0:
            logger.error("can't learn past requests; tools are ranked without", exc_info=error)


def _with_past_requests(base: CatalogIndex, learned: Learned) -> tuple[CatalogIndex, int]:
    """Return a catalog's index with past requests, and the bytes that these add; for a thread."""
    places = {tool.name: place for place, tool in enumerate(base.documents)}
    past = PastRequests.of({places[name]: texts for name, texts in learned.past_requests.items() if name in places})
    lexical = base.lexical.learn(past)
    best = lexical if base.best is base.lexical else base.best.learn(past)
    of_vectors = None if isinstance(best, LexicalIndex) else best.learned
    n_bytes = past.n_bytes + (0 if of_vectors is None else of_vectors.n_bytes)
    return replace(base, lexical=lexical, best=best), n_bytes
