"""The query feature: reduces a list to the tools that answer the user's words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.catalog.words import asks_for_everything, is_one_letter
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.waiting import Deadline, in_daemon_thread, is_set
from agent_utilities.seam.caller import caller_key
from agent_utilities.seam.events import CatalogListed, Event, QueryAnswerable, ToolsChanged
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import Host, Pending, Reporting
from agent_utilities.seam.request import Request
from agent_utilities.seam.whole_catalog import WholeCatalog
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import ANSWERED, NOTHING, UNRESOLVED, Resolution, Selection, load_comparison
from agent_utilities.selection.parse import CUT
from agent_utilities.usage.feature import Usage, UsageWritten
from agent_utilities.usage.model import N_NEAR

if TYPE_CHECKING:
    from agent_utilities.query.graph.base import ToolGraph
    from agent_utilities.query.introspection import Introspection
    from agent_utilities.query.resolution.answer import CallerScope, Trail
    from agent_utilities.query.resolution.resolver import Resolver

logger = logging.getLogger("agent_utilities.query")

_SEARCH_S = 10.0
"""The most seconds that a search waits: a model waits for its result, and the first search makes the index."""
_SETTLE_S = 1.0
_LATER_S = 60.0
"""Seconds within which a client is notified that its unanswered list can be answered now."""


class Query(Feature):
    """Resolves callers' queries on the tools that they may use, under one deadline, and searches these tools.

    Args:
        graph: the graph that queries are resolved on; the configured one where None.
        yields: whether graph and index, made soon after a start over HTTP, wait for the first lists to be over.
    """

    name = "query"
    hears = (CatalogListed, ToolsChanged, UsageWritten)
    needs = (Usage, WholeCatalog)
    limit_s = None  # the request's own deadline holds

    def __init__(self, graph: ToolGraph | None = None, *, yields: bool = False) -> None:
        self._graph, self._yields = graph, yields
        self._needed: asyncio.Event | None = None
        """Set once the resolver is made; None unless the server runs."""
        self._unanswered: set[object] = set()
        """Sessions, or callers with their words, that are notified once their unanswered lists can be answered."""

    def attach(self, host: Host) -> None:
        super().attach(host)
        self._usage = self.needed(Usage)
        host.offer(Reporting, lambda: self)

    @cached_property
    def introspection(self) -> Introspection:
        """Lists the server's tools for graph and ranker."""
        from agent_utilities.query.introspection import Introspection  # not before a query needs it

        return Introspection(self.host, self.needed(WholeCatalog), on_news=lambda: self.resolver.refresh())

    @cached_property
    def resolver(self) -> Resolver:
        """Resolves queries; made at first use, which imports graph and ranking."""
        from agent_utilities.query.resolution.resolver import Resolver

        host, operator = self.host, self.host.operator
        resolver = Resolver(
            lambda: host.name,
            self.introspection.live_tools,
            lambda: operator.settings,
            lambda: operator.environ,
            self._graph,
            self._usage.source,
        )
        if self._needed is not None:
            resolver.begin()
            self._needed.set()
        return resolver

    async def _loaded(self) -> Resolver:
        """Return the resolver, imported in a thread, since that takes a tenth of a second (law L7)."""
        if not self._is_made:
            await in_daemon_thread(partial(import_module, "agent_utilities.query.resolution.resolver"))
        return self.resolver

    @property
    def _is_made(self) -> bool:
        return "resolver" in vars(self)

    def check(self) -> None:
        """Validate the settings of graph and ranker, where they are set."""
        if self._is_asked_for or self.host.operator.settings.embeddings:
            self.resolver.check()

    async def run(self) -> None:
        self._needed = asyncio.Event()
        try:
            settle_s = self.settle_s()
            if not self._is_made and (settle_s is None or (self._yields and settle_s)):
                # Loading beside a first list would delay that list.
                for pending in self.host.offered(Pending):
                    await pending.wait_for_first(NOTHING, "tool", None)
                await is_set(self._needed, within_s=settle_s)
            resolver = await self._loaded()
            is_http = self.host.transport not in (None, "stdio")
            await resolver.run(in_daemon_thread(load_comparison) if is_http else None, settle_s)
        finally:
            self._needed = None
            if self._is_made:
                self.introspection.forget()

    @property
    def _is_asked_for(self) -> bool:
        operator = self.host.operator
        return operator.settings.graph not in ("auto", "off") or bool(operator.environ.get("NEO4J_URI", "").strip())

    def settle_s(self) -> float | None:
        """Return the seconds after the start until graph and index are made without a query; None for never.

        An operator's query comes with every list. Over HTTP hosts send queries. Over stdio few clients ever send a
        query, so nothing is loaded there before one does.
        """
        operator = self.host.operator
        if effective(operator.selection).query is not None:
            return 0.0
        is_http = self.host.transport not in (None, "stdio")
        return _SETTLE_S if is_http or self._graph is not None or self._is_asked_for else None

    def notify(self, event: Event) -> None:
        """Update index and learning for changed tools and written usage, once the resolver is made."""
        if not self._is_made:
            return
        match event:
            case CatalogListed(catalog):
                self.introspection.listed(catalog)
            case ToolsChanged():
                self.resolver.refresh()
            case UsageWritten():
                self.resolver.learn_news()

    # -- answers -----------------------------------------------------------------------------------------------------

    async def prefer(self, request: Request) -> Preferences:
        """Return preferences with the answer to a list's query, unless they have one already."""
        preferences = request.verdict.preferences
        if not request.lists_tools or preferences.query is None or preferences.resolution is not UNRESOLVED:
            return preferences
        return replace(preferences, resolution=await self.resolution_of(request, preferences.most_shown))

    async def resolution_of(self, request: Request, limit: int | None) -> Resolution:
        """Return the answer to a request's query; never fails, and waits no longer than the deadline.

        Where it can't be answered yet, the client of a list is notified once it can: many list only once.
        """
        query = request.verdict.preferences.query
        if query is None:
            return UNRESOLVED
        if self.host.operator.settings.curation == "off":
            return Resolution(cause="curation is off")
        if asks_for_everything(query):
            return Resolution(cause="the query asks for all tools")
        if is_one_letter(query):
            return Resolution(cause="one letter is no query")
        answer = await self._answer(request, query, limit)
        if request.method == "tools/list":
            key = request.session or (caller_key(), query)
            if answer.status != "unavailable":
                self._unanswered.discard(key)
            elif key not in self._unanswered and self.host.start(self._answer_later(key, request, query, limit)):
                self._unanswered.add(key)
        setting = request.verdict.effective.query
        if setting is not None and (cut := next((origin for origin in setting.origins if CUT in origin), "")):
            logger.info("%s", cut)
            return replace(answer, cause=", ".join(filter(None, (answer.cause, cut))))
        return answer

    async def _answer(self, request: Request, query: str, limit: int | None) -> Resolution:
        resolver = await self._loaded()
        deadline = await resolver.wait_for_tools()
        if resolver.is_off:
            return UNRESOLVED
        scope = await self.introspection.scope(request.verdict.bounds_alone)
        if scope is None or (pipeline := resolver.pipeline) is None:
            cause = None if resolver.pipeline is None else resolver.pipeline.keeper.cause
            return Resolution("unavailable", cause=cause or "being filled")
        return await pipeline.resolve(query, scope, limit, deadline, self._trail(request, scope))

    async def _answer_later(self, key: object, request: Request, query: str, limit: int | None) -> None:
        """Notify the client of an unanswered list once its query is answered, unless it has listed again by then."""
        try:
            await (await self._loaded()).wait_to_answer(Deadline.after(_LATER_S))
            answer = await self._answer(request, query, limit)
            if answer.tools and key in self._unanswered:
                if request.client is not None:
                    request.client.tell_later()
                else:
                    self.host.notify(QueryAnswerable(query))
        finally:
            self._unanswered.discard(key)

    def _trail(self, request: Request, scope: CallerScope | None) -> Trail:
        """Return the tools that the caller used before, if they may still use them (law L1)."""
        from agent_utilities.query.resolution.answer import NO_TRAIL, Trail  # loaded by now

        if self.resolver.teaching is None or scope is None:
            return NO_TRAIL
        called = self._usage.called(request)
        near = dict.fromkeys((*called, *reversed(request.verdict.preferences.active.names)))
        permitted = scope.names() if near else frozenset[str]()
        return Trail(self._usage.subject(), tuple(name for name in near if name in permitted)[:N_NEAR])

    async def wait_to_search(self) -> None:
        """Wait some seconds for the index where it is being made."""
        resolver = await self._loaded()
        await resolver.wait_to_search(Deadline.after(_SEARCH_S))

    async def search(self, request: Request, words: str, names: frozenset[str], limit: int) -> Resolution:
        """Return the best tools for words out of some names, even if they answer them badly; never fails."""
        deadline = Deadline.after(_SEARCH_S)
        resolver = await self._loaded()
        await resolver.wait_to_search(deadline)
        scope = await self.introspection.scope(request.verdict.bounds_alone)
        from agent_utilities.query.resolution.answer import CallerScope  # loaded by now

        if scope is not None and len(names) != len(permitted := scope.names()):
            digest = blake2b("\n".join(sorted(names)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            scope = CallerScope(f"{scope.digest}:{digest}", lambda: permitted & names)
        return await resolver.search(words, scope, limit, deadline, self._trail(request, scope))

    async def report(self, selection: Selection, make: Callable[[], Awaitable[Request]]) -> Request:
        """Return the request of a report, after making graph and index for its query where no server runs."""
        if self.host.verdict(selection, shapes_lists=True).preferences.query is None:
            return await make()
        return await (await self._loaded()).run_once(make)

    # -- summary and health --------------------------------------------------------------------------------------------

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return how long a queried list may be cached: not at all where it may be answered better later."""
        preferences = request.verdict.preferences
        if not request.lists_tools or preferences.query is None:
            return None
        is_unavailable = preferences.resolution.status == "unavailable"
        return 0 if is_unavailable else self.host.operator.settings.queried_list_ttl_ms

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return how a list's query was answered.

        Keys: `cause` of a limited answer, and a `hint` where a model would improve it. Of an answered list: `ranked`
        names of visible tools, best first; `left_out`, how many more answer it; and `by_usage`, the names of those that
        are there for earlier calls rather than for the query's words.
        """
        resolution = request.verdict.preferences.resolution
        parts: dict[str, Any] = {}
        if resolution.cause and request.lists_tools:
            parts["cause"] = resolution.cause
        if kind == "tool" and decision.status in (*ANSWERED, "no_match") and self.resolver.rankers().lacks_model:
            from agent_utilities.query.ranking.open import WITHOUT_MODEL  # loaded by now

            parts["hint"] = WITHOUT_MODEL
        if kind == "tool" and decision.status in ANSWERED:
            shown = {decision.catalog.entries[i].name for i in decision.visible}
            parts["ranked"] = [name for name in resolution.names if name in shown]
            if by_usage := [tool.name for tool in resolution.tools if tool.by_usage and tool.name in shown]:
                parts["by_usage"] = by_usage
            if resolution.n_left_out:
                parts["left_out"] = resolution.n_left_out
        return parts

    def health(self) -> Mapping[str, Any]:
        if not self._is_made:
            return {"graph": {"status": "off"}, "ranker": {"status": "off"}}
        teaching = self.resolver.teaching
        learned = {} if teaching is None else {"usage": {**self._usage.log_health(), "learned": teaching.health()}}
        return {**self.resolver.health(), **learned}
