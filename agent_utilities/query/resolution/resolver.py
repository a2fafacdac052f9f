"""Opening what the operator's settings ask for: the graph, and the ranker of its tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_utilities.errors import InputError, SettingsError
from agent_utilities.query.graph.backends import graph_backend
from agent_utilities.query.graph.base import ToolGraph, ToolRecord
from agent_utilities.query.ranking.minilm import INSTALL, N_MEGABYTES, model_folder
from agent_utilities.query.ranking.open import check_provider, open_hybrid
from agent_utilities.query.resolution.answer import (
    FIRST_FILL_SHARE,
    NO_TRAIL,
    CallerScope,
    Limits,
    LiveTools,
    Trail,
)
from agent_utilities.query.resolution.catalog_ranker import CatalogRanker
from agent_utilities.query.resolution.learning import Teaching
from agent_utilities.query.resolution.orchestrator import DynamicToolOrchestrator
from agent_utilities.runtime.caches import cache_bytes
from agent_utilities.runtime.process_io import own_folder
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import UNRESOLVED, Resolution
from agent_utilities.settings import Settings
from agent_utilities.usage.model import UsageSource

if TYPE_CHECKING:
    from agent_utilities.query.ranking.hybrid import HybridRanker


WITHOUT_MODEL = f"ranked by words alone; `{INSTALL}` ({N_MEGABYTES} MB, on the server) ranks by meaning too"
"""What operators and callers are told where no model is installed."""


@dataclass(frozen=True, slots=True)
class Rankers:
    """What a server compares by beside words, where ranking is on; tools and capabilities are compared by the same."""

    by_meaning: HybridRanker | None = None
    is_off: bool = False
    lacks_model: bool = False
    """Whether there are words alone only because no model is installed."""

    def of_catalog(self) -> CatalogRanker | None:
        """Return what ranks a server's tools; None where ranking is off."""
        return None if self.is_off else CatalogRanker(self.by_meaning)


def open_rankers(settings: Settings) -> Rankers:
    """Return what the settings ask for; no model is loaded yet."""
    if settings.embeddings:
        try:
            check_provider(settings.embeddings)
        except InputError as error:
            raise SettingsError(error.what, settings.embeddings, "env MCP_EMBEDDINGS", error.hint) from None
    if settings.ranker == "off":
        return Rankers(is_off=True)
    provider = settings.embeddings or ("minilm" if has_minilm() else "")
    if settings.ranker == "lexical" or (settings.ranker == "auto" and not provider):
        return Rankers(lacks_model=settings.ranker == "auto")
    kind = "hybrid" if settings.ranker == "auto" else settings.ranker
    folder = Path(settings.graph_folder) if settings.graph_folder else own_folder("cache")
    return Rankers(open_hybrid(kind, provider or "minilm", folder / "vectors.db"))


def has_minilm() -> bool:
    """Whether the offline model is installed, looked up without importing anything."""
    return model_folder() is not None


logger = logging.getLogger("agent_utilities.graph")

_ONCE_S = 20.0
_T = TypeVar("_T")


class Resolver:
    """Resolves a server's queries; off where the settings say so, or before it runs.

    Args:
        name_of_server: returns the name under which the graph keeps the server's tools.
        settings, environ: what the operator gave; read when they are first needed.
        graph: a backend to use instead of the configured one.
        usage: returns where it is known from what was called; None where nothing is to be learned.
    """

    def __init__(
        self,
        name_of_server: Callable[[], str],
        introspect: Callable[[], Awaitable[LiveTools]],
        settings: Callable[[], Settings],
        environ: Callable[[], Mapping[str, str]],
        graph: ToolGraph | None = None,
        usage: Callable[[], UsageSource | None] = lambda: None,
    ) -> None:
        self._usage = usage
        self._name = name_of_server
        self._introspect = introspect
        self._settings, self._environ = settings, environ
        self._given_graph = graph
        self.rankers: Callable[[], Rankers] = cache(lambda: open_rankers(settings()))
        self.ranker: CatalogRanker | None = None
        """What ranks the tools; there while the resolver runs, where ranking is on."""
        self.teaching: Teaching | None = None
        """What usage teaches; there while the resolver runs, where anything is to be learned from it."""
        self.orchestrator: DynamicToolOrchestrator | None = None
        self.limits = Limits()
        """What background work may take; `settle_s` of it is `run`'s."""
        self._opened = asyncio.Event()
        """Cleared while graph and ranker are about to be made."""
        self._opened.set()

    # -- answering ---------------------------------------------------------------------------------------------------

    async def wait_for_tools(self) -> Deadline:
        """Return the deadline of a query asked now, after the first fill or index where these are still under way."""
        deadline = Deadline.after(self._settings().graph_deadline_ms / 1000)
        await deadline.wait(self._opened)
        orchestrator, ranker = self.orchestrator, self.ranker
        if orchestrator is None:
            return deadline
        if orchestrator.keeper.cause == "being filled":
            await orchestrator.filled(deadline.share(FIRST_FILL_SHARE) if ranker is not None else deadline)
        if ranker is not None and not ranker.version:
            # A graph that was filled by an earlier run is there sooner than the index, which then answers at once.
            await deadline.wait(ranker.first_try_done)
        return deadline

    @property
    def is_off(self) -> bool:
        """Whether queries are not resolved: not where that is about to begin."""
        return self.orchestrator is None and self._opened.is_set()

    async def wait_to_answer(self, deadline: Deadline) -> None:
        """Wait until a query can be answered for the first time, or can't after a try, up to a deadline."""
        await deadline.wait(self._opened)
        if (orchestrator := self.orchestrator) is not None:
            orchestrator.keeper.open_now()
            kept = orchestrator.keeper if self.ranker is None else self.ranker
            await deadline.wait(kept.first_try_done)

    async def wait_to_search(self, deadline: Deadline) -> None:
        """Wait for the first index where one is being made, or is to be made for this search, up to a deadline."""
        await deadline.wait(self._opened)
        if self.orchestrator is not None and self.ranker is not None:
            self.orchestrator.keeper.open_now()
            await self.ranker.wait_to_search(deadline)

    async def search(
        self, query: str, scope: CallerScope | None, limit: int, deadline: Deadline, trail: Trail = NO_TRAIL
    ) -> Resolution:
        """Return the best tools in scope for a query, best first; never fails, never waits past the deadline.

        A list shows what answers a query, and everything where nothing does; whoever searches wants the best there is.
        A scope that is not known permits nothing.

        Returns:
            `ranked`, or `no_match` where no tool shares anything with the query; `off` where nothing was asked, or
            queries are off; `unavailable` with the cause where there is no ranker, or it has not answered in time.
        """
        if not query.strip():
            return UNRESOLVED
        await self.wait_to_search(deadline)
        if self.orchestrator is None:
            return Resolution(cause="queries are off")
        if scope is None:
            return Resolution("unavailable", cause="no index yet" if self.ranker is not None else "no ranker")
        return await self.orchestrator.search(query, scope, limit, deadline, trail.scope)

    # -- in the background -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `InputError` where the configured graph and ranker can't be meant; nothing is opened."""
        self._graph()
        open_rankers(self._settings())

    def begin(self) -> None:
        """Let queries wait from now on for what `run` opens."""
        if self.orchestrator is None and self._opened.is_set():
            self._opened = asyncio.Event()

    async def run(self, first: Awaitable[None] | None = None, settle_s: float | None = None) -> None:
        """Keep graph and ranker until cancelled; returns at once where they are off.

        Args:
            first: what is to be done before they are made; a query that comes meanwhile waits as it does for them.
            settle_s: seconds until the graph is opened and filled, unless a query comes; None waits for a query.
        """
        self.begin()
        try:
            if first is not None:
                await first
            if self._open(settle_s):
                self._opened.set()
                await self._keep()
        finally:
            self._opened.set()

    async def run_once(self, resolve: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `resolve` gives where no server runs, after graph and index were made for it."""
        if not self._open(0.0):
            return await resolve()
        assert self.orchestrator is not None
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep())
            try:
                async with asyncio.timeout(_ONCE_S):
                    await self.orchestrator.filled(Deadline.after(_ONCE_S))
                    if self.ranker is not None:
                        await self.ranker.wait_until_settled()
            except TimeoutError:
                logger.warning("graph or index not ready within %s s; every permitted tool is shown", _ONCE_S)
            try:
                return await resolve()
            finally:
                keeping.cancel()

    def refresh(self) -> None:
        """Bring changed tools into the graph, in the background."""
        if self.orchestrator is not None:
            self.orchestrator.keeper.tools_changed()

    def learn_news(self) -> None:
        """Have the usage log read again, in the background: it has grown."""
        if self.teaching is not None:
            self.teaching.news()

    def _edges_changed(self) -> None:
        if self.orchestrator is not None:
            self.orchestrator.keeper.edges_changed()

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of graph and ranker."""
        off = {"status": "off"}
        return {
            "graph": off if self.orchestrator is None else self.orchestrator.keeper.health(),
            "ranker": off if self.ranker is None else self.ranker.health(),
        }

    def _graph(self) -> ToolGraph | None:
        if self._given_graph is not None:
            return self._given_graph
        settings = self._settings()
        return graph_backend(settings.graph, self._name(), settings.graph_folder, self._environ())

    def _open(self, settle_s: float | None) -> bool:
        graph = self._graph()
        if graph is None:
            return False
        settings = self._settings()
        self.ranker = self.rankers().of_catalog()
        if self.rankers().lacks_model:
            logger.info("queries are %s", WITHOUT_MODEL)
        if (source := self._usage()) is not None:
            self.teaching = Teaching(source, self.ranker, self._edges_changed, self.limits.refresh_gap_s)
        self.orchestrator = DynamicToolOrchestrator(
            graph,
            self._name(),
            self._records,
            ranker=self.ranker,
            edges=self.teaching.edges if self.teaching is not None else None,
            prior=self.teaching.prior if self.teaching is not None else None,
            deadline_s=settings.graph_deadline_ms / 1000,
            ttl_hours=settings.graph_ttl_hours,
            limits=replace(self.limits, settle_s=settle_s, cache_bytes=cache_bytes(settings.cache_mb, "resolution")),
        )
        return True

    async def _keep(self) -> None:
        assert self.orchestrator is not None
        try:
            async with asyncio.TaskGroup() as group:
                if self.ranker is not None:
                    group.create_task(self.ranker.run())
                if self.teaching is not None:
                    group.create_task(self.teaching.run())
                group.create_task(self.orchestrator.run())
        finally:
            self.orchestrator = self.ranker = self.teaching = None

    async def _records(self) -> Sequence[ToolRecord]:
        try:
            tools = await self._introspect()
        except Exception:
            if self.ranker is not None:
                self.ranker.first_try_done.set()
            raise
        if self.ranker is not None:
            self.ranker.offer(tools.digest, tools.documents)
        return tools.records
