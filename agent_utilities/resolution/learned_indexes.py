"""What past requests teach of a catalog, for each usage scope: made in the background, and of those used last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from agent_utilities.errors import RankerError
from agent_utilities.ranking.base import Index, LearningIndex
from agent_utilities.ranking.past_requests import PastRequests, newest
from agent_utilities.resolution.catalog_index import CatalogIndex
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.usage.model import NOTHING_LEARNED, Learned

logger = logging.getLogger("agent_utilities.ranking")

LEARNED_BYTES = 128 << 20
"""What all scopes may take together: one of 4,000 tools with 20 requests of 60 characters each takes some 60 MB."""
_ENTRY_BYTES = 2_000


@dataclass(frozen=True, eq=False)
class _Made:
    """The catalog that one scope is answered from.

    Args:
        learned, base: the versions of what was learned and of the catalog's index, which it was made of.
        index: the catalog that knows past requests; as it was where it can't.
        n_bytes: what it takes beyond the catalog's own.
    """

    learned: str
    base: str
    index: CatalogIndex
    n_bytes: int


class LearnedIndexes:
    """Catalogs that know past requests, each for callers of one usage scope alone.

    The index of the catalog stays as it is; what lies over it is small, and is made anew where either changes. Until
    then, and where it can't be made, the catalog is ranked without. Of the scopes those used last are kept.
    """

    def __init__(self, retry_s: float, max_bytes: int = LEARNED_BYTES) -> None:
        self.source: Callable[[str], Learned] = lambda scope: NOTHING_LEARNED
        """Returns what is known of a scope by now."""
        self._retry_s, self._max_bytes = retry_s, max_bytes
        self._made: BoundedCache[str, _Made] = BoundedCache(max_bytes, lambda scope, made: _ENTRY_BYTES + made.n_bytes)
        self._pending: dict[str, None] = {}
        self._lacking_vectors: set[str] = set()
        self._wake = asyncio.Event()
        self.idle = asyncio.Event()
        """Set while nothing is to be learned."""
        self.idle.set()
        self._n_made = 0

    def of(self, scope: str, base: CatalogIndex) -> CatalogIndex:
        """Return what a scope's callers are to be answered from; the catalog itself where nothing was learned."""
        learned = self.source(scope)
        if not learned.past_requests:
            return base
        made = self._made.get(scope)
        if made is None or (made.learned, made.base) != (learned.version, base.version):
            self.changed(scope)
        # What was learned before serves until what is known now is learned.
        return made.index if made is not None and made.base == base.version else base

    def changed(self, scope: str) -> None:
        """Learn a scope anew, in the background."""
        self._pending[scope] = None
        self.idle.clear()
        self._wake.set()

    def catalog_changed(self) -> None:
        """Learn anew what everybody is answered by, and what waits for a catalog."""
        if self._made.get("") is not None:
            self.changed("")
        self._wake.set()

    def clear(self) -> None:
        """Forget everything."""
        self._made.clear()
        self._pending.clear()
        self._lacking_vectors.clear()
        self.idle.set()

    async def run(self, current: Callable[[], CatalogIndex | None]) -> None:
        """Learn what is known until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s if self._lacking_vectors else None):
                    await self._wake.wait()
            if not self._wake.is_set():
                self._pending |= dict.fromkeys(self._lacking_vectors)
            self._wake.clear()
            while self._pending and (base := current()) is not None:
                scope = next(iter(self._pending))
                del self._pending[scope]
                await self._learn(scope, base)
            if not self._pending:
                self.idle.set()

    async def _learn(self, scope: str, base: CatalogIndex) -> None:
        """Learn what is known of one scope: words at once, then vectors, which may take long."""
        learned, made = self.source(scope), self._made.get(scope)
        has_words = made is not None and (made.learned, made.base) == (learned.version, base.version)
        if has_words and scope not in self._lacking_vectors:
            return
        self._lacking_vectors.discard(scope)
        if not learned.past_requests:
            self._made.pop(scope)
            return
        try:
            past = await in_daemon_thread(partial(_of_catalog, learned.past_requests, base.names))
            lexical = await in_daemon_thread(partial(_learned, base.lexical, past))
            if not has_words:
                best = lexical if base.best is base.lexical else base.best
                self._keep(scope, learned, base, lexical, best, past)
            if base.best is not base.lexical:
                best = await in_daemon_thread(partial(_learned, base.best, past))
                self._keep(scope, learned, base, lexical, best, past)
        except RankerError:  # said by the index
            self._lacking_vectors.add(scope)
        except Exception:
            logger.exception("can't learn past requests; tools are ranked without")
            self._made.keep(scope, _Made(learned.version, base.version, base, 0))

    def _keep(
        self, scope: str, learned: Learned, base: CatalogIndex, lexical: Index, best: Index, past: PastRequests
    ) -> None:
        self._n_made += 1
        index = replace(base, version=f"{base.version}:{self._n_made}", lexical=lexical, best=best)
        n_bytes = max(past.n_bytes, getattr(best, "n_learned_bytes", 0))
        if _ENTRY_BYTES + n_bytes > self._max_bytes:
            logger.warning("past requests take %d bytes, more than there is room for; they are left out", n_bytes)
            index, n_bytes = base, 0
        self._made.keep(scope, _Made(learned.version, base.version, index, n_bytes))


def _of_catalog(requests: Mapping[str, Sequence[str]], names: Sequence[str]) -> PastRequests:
    places = {name: place for place, name in enumerate(names)}
    known = {name: newest(texts) for name, texts in requests.items() if texts and name in places}
    return PastRequests.of({places[name]: texts for name, texts in known.items()})


def _learned(index: Index, past: PastRequests) -> Index:
    return index.learn(past) if isinstance(index, LearningIndex) else index
