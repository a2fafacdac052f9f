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

logger = logging.getLogger("agent_utilities.ranking")

LEARNED_BYTES = 128 << 20
"""What all scopes may take together: one of 4,000 tools with 20 requests of 60 characters each takes some 60 MB."""
_ENTRY_BYTES = 2_000
_TEXT_BYTES = 100


@dataclass(frozen=True, eq=False)
class _Learned:
    """What was learned in one scope.

    Args:
        version: of `requests`.
        requests: by the tool's name, oldest first.
        base: version of the index that `index` was made from; empty before there is any.
        index: the catalog that knows them; None before there is any.
        n_request_bytes: what `requests` take.
        n_index_bytes: what `index` takes beyond the catalog's own.
    """

    version: str
    requests: Mapping[str, Sequence[str]]
    base: str
    index: CatalogIndex | None
    n_request_bytes: int
    n_index_bytes: int = 0

    @property
    def n_bytes(self) -> int:
        """What all of it takes."""
        return self.n_request_bytes + self.n_index_bytes


class LearnedIndexes:
    """Catalogs that know past requests, each for callers of one usage scope alone.

    The index of the catalog stays as it is; what lies over it is small, and is made anew where either changes. Until
    then, and where it can't be made, the catalog is ranked without. Of the scopes those used last are kept.

    Args:
        retry_s: seconds between tries to have the vectors of past requests.
        max_bytes: what all scopes may take together.
    """

    def __init__(self, retry_s: float, max_bytes: int = LEARNED_BYTES) -> None:
        self._retry_s = retry_s
        self._by_scope: BoundedCache[str, _Learned] = BoundedCache(max_bytes, lambda scope, learned: learned.n_bytes)
        self._pending: dict[str, None] = {}
        self._lacking_vectors: set[str] = set()
        self._wake = asyncio.Event()
        self.idle = asyncio.Event()
        """Set while nothing is to be learned."""
        self.idle.set()
        self._n_made = 0

    def teach(self, scope: str, version: str, requests: Mapping[str, Sequence[str]]) -> None:
        """Take the past requests of a scope, to be learned in the background; nothing is done where it has them.

        Args:
            scope: whose they are.
            version: differs where `requests` do.
            requests: by the tool's name, oldest first; none forgets what was learned.
        """
        if not any(requests.values()):
            self._by_scope.pop(scope)
            return
        known = self._by_scope.get(scope)
        if known is not None and known.version == version:
            return
        counting = {name: newest(texts) for name, texts in requests.items() if texts}
        n_bytes = _ENTRY_BYTES + sum(_TEXT_BYTES + 2 * len(text) for texts in counting.values() for text in texts)
        self._lacking_vectors.discard(scope)
        # What was learned before serves until this is.
        learned = _Learned(version, counting, "", None, n_bytes)
        if known is not None and known.index is not None:
            learned = replace(learned, base=known.base, index=known.index, n_index_bytes=known.n_index_bytes)
        self._by_scope.keep(scope, learned)
        self._request(scope)

    def version(self, scope: str) -> str:
        """Return the version of what a scope was taught; empty where that is nothing, or was given up for others."""
        known = self._by_scope.get(scope)
        return "" if known is None else known.version

    def of(self, scope: str, base: CatalogIndex) -> CatalogIndex:
        """Return what a scope's callers are to be answered from; the catalog itself where nothing was learned."""
        known = self._by_scope.get(scope)
        if known is None:
            return base
        if known.index is None or known.base != base.version:
            self._request(scope)
            return base
        return known.index

    def catalog_changed(self) -> None:
        """Learn anew what everybody is answered by; other scopes are learned anew when they ask."""
        if self._by_scope.get("") is not None:
            self._request("")
        elif self._pending:
            self._wake.set()

    def clear(self) -> None:
        """Forget everything."""
        self._by_scope.clear()
        self._pending.clear()
        self.idle.set()
        self._lacking_vectors.clear()

    def _request(self, scope: str) -> None:
        self._pending[scope] = None
        self.idle.clear()
        self._wake.set()

    async def run(self, current: Callable[[], CatalogIndex | None]) -> None:
        """Learn what is taught until cancelled.

        Args:
            current: returns the newest index of the catalog; None while there is none.
        """
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
        """Learn what one scope was taught: words at once, then vectors, which may take long."""
        taught = self._by_scope.get(scope)
        if taught is None:
            self._lacking_vectors.discard(scope)
            return
        has_words = scope in self._lacking_vectors and taught.base == base.version
        try:
            past = await in_daemon_thread(partial(_of_catalog, taught.requests, base.names))
            lexical = await in_daemon_thread(partial(_learned, base.lexical, past))
            if base.best is base.lexical:
                self._keep(scope, taught, base, lexical, lexical, past)
                return
            if taught.base != base.version:
                self._keep(scope, taught, base, lexical, base.best, past)
            best = await in_daemon_thread(partial(_learned, base.best, past))
        except RankerError:  # said by the index
            if not has_words:
                self._keep(scope, taught, base, lexical, base.best, past)
            self._lacking_vectors.add(scope)
        except Exception:
            logger.exception("can't learn past requests; tools are ranked without")
            self._put(scope, taught, replace(taught, base=base.version, index=base))
        else:
            self._lacking_vectors.discard(scope)
            self._keep(scope, taught, base, lexical, best, past)

    def _keep(
        self, scope: str, taught: _Learned, base: CatalogIndex, lexical: Index, best: Index, past: PastRequests
    ) -> None:
        self._n_made += 1
        index = replace(base, version=f"{base.version}:{self._n_made}", lexical=lexical, best=best)
        n_bytes = max(past.n_bytes, getattr(best, "n_learned_bytes", 0))
        self._put(scope, taught, replace(taught, base=base.version, index=index, n_index_bytes=n_bytes))

    def _put(self, scope: str, taught: _Learned, learned: _Learned) -> None:
        """Keep what was learned, unless the scope was taught something else meanwhile, or was given up."""
        known = self._by_scope.get(scope)
        if known is None or known.version != taught.version:
            return
        self._by_scope.keep(scope, learned)
        if self._by_scope.get(scope) is None:
            logger.warning(
                "past requests take %d bytes, more than there is room for; they are left out", learned.n_bytes
            )


def _of_catalog(requests: Mapping[str, Sequence[str]], names: Sequence[str]) -> PastRequests:
    places = {name: place for place, name in enumerate(names)}
    return PastRequests.of({places[name]: texts for name, texts in requests.items() if name in places})


def _learned(index: Index, past: PastRequests) -> Index:
    return index.learn(past) if isinstance(index, LearningIndex) else index
