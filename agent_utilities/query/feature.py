"""Queries: a list is cut to the tools that answer the user's words."""

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
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import ANSWERED, NOTHING, UNRESOLVED, Resolution, Selection, load_comparison
from agent_utilities.selection.parse import CUT
from agent_utilities.server.events import CatalogListed, Event, ToolsChanged
from agent_utilities.server.feature import Feature
from agent_utilities.server.request import Request
from agent_utilities.server.surface.catalogs import caller_key
from agent_utilities.usage.feature import Usage
from agent_utilities.usage.model import N_NEAR

if TYPE_CHECKING:
    from agent_utilities.query.graph.base import ToolGraph
    from agent_utilities.query.introspection import Introspection
    from agent_utilities.query.resolution.answer import CallerScope, Trail
    from agent_utilities.query.resolution.resolver import Resolver

logger = logging.getLogger("agent_utilities.query")

_SEARCH_S = 10.0
"""Seconds that a search waits at most: a model waits for its result, and the first one makes the index."""
_SETTLE_S = 1.0
_LATER_S = 60.0
"""Seconds within which a client is told that a list which could not be answered would be by now."""


class Query(Feature):
    """Resolves callers' queries on the tools that they may use, under one deadline, and lets these be searched.

    Args:
        usage: knows what was called, which moves tools up or down.
        graph: the graph that queries are resolved on; the configured one where None.
        yields: whether graph and index, made soon after a start over HTTP, wait for the first lists to be over.
    """

    name = "query"
    hears = (CatalogListed, ToolsChanged)
    limit_s = None  # the request's own deadline holds

    def __init__(self, usage: Usage, graph: ToolGraph | None = None, *, yields: bool = False) -> None:
        self._usage, self._graph, self._yields = usage, graph, yields
        self._needed: asyncio.Event | None = None
        """Set once there is a resolver; there while the server runs."""
        self._unanswered: set[object] = set()
        """Sessions, or callers with their words, whose lists were not answered, until they are told that they are."""

    @cached_property
    def introspection(self) -> Introspection:
        """Lists the server's tools for graph and ranker."""
        from agent_utilities.query.introspection import Introspection  # not before a query needs it

        return Introspection(self.host, on_news=lambda: self.resolver.refresh())

    @cached_property
    def resolver(self) -> Resolver:
        """Resolves queries; made, and graph and ranking imported, when it is first needed."""
        from agent_utilities.query.resolution.resolver import Resolver

        host, operator = self.host, self.host.surface.operator
        resolver = Resolver(
            lambda: host.name,
            self.introspection.live_tools,
            lambda: operator.settings,
            lambda: operator.environ,
            self._graph,
            self._usage.source,
        )
        self._usage.on_news = resolver.learn_news
        if self._needed is not None:
            resolver.begin()
            self._needed.set()
        return resolver

    async def _loaded(self) -> Resolver:
        """Return the resolver; its rooms are imported in a thread, since that takes a tenth of a second (law L7)."""
        if not self._is_made:
            await in_daemon_thread(partial(import_module, "agent_utilities.query.resolution.resolver"))
        return self.resolver

    @property
    def _is_made(self) -> bool:
        return "resolver" in vars(self)

    def check(self) -> None:
        """Refuse settings of graph and ranker that can't be; there are none of others."""
        if self._is_asked_for or self.host.surface.operator.settings.embeddings:
            self.resolver.check()

    async def run(self) -> None:
        self._needed = asyncio.Event()
        try:
            settle_s = self.settle_s()
            if not self._is_made and (settle_s is None or (self._yields and settle_s)):
                # What is loaded beside a first list is taken from its time.
                await self.host.features.wait_for_first(NOTHING, "tool")
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
        operator = self.host.surface.operator
        return operator.settings.graph not in ("auto", "off") or bool(operator.environ.get("NEO4J_URI", "").strip())

    def settle_s(self) -> float | None:
        """Return how many seconds after the start graph and index are made where no query comes; None for never.

        An operator's query comes with every list. Over HTTP hosts ask in words. Over stdio few clients ever send a
        query, so nothing is loaded there before one does.
        """
        operator = self.host.surface.operator
        if effective(operator.selection).query is not None:
            return 0.0
        is_http = self.host.transport not in (None, "stdio")
        return _SETTLE_S if is_http or self._graph is not None or self._is_asked_for else None

    def notify(self, event: Event) -> None:
        """Take note of tools that have come or changed, where they were ever listed for a query."""
        if not self._is_made:
            return
        match event:
            case CatalogListed(catalog):
                self.introspection.listed(catalog)
            case ToolsChanged():
                self.resolver.refresh()

    # -- answers -----------------------------------------------------------------------------------------------------

    async def prefer(self, request: Request) -> Preferences:
        """Return preferences with the answer to a list's query, unless there is one already."""
        preferences = request.verdict.preferences
        if not request.lists_tools or preferences.query is None or preferences.resolution is not UNRESOLVED:
            return preferences
        return replace(preferences, resolution=await self.resolution_of(request, preferences.most_shown))

    async def resolution_of(self, request: Request, limit: int | None) -> Resolution:
        """Return the answer to a request's query; never fails, and waits no longer than the deadline.

        Where it can't be answered yet, the client of a list is told once it can: many list once and never again.
        """
        query = request.verdict.preferences.query
        if query is None:
            return UNRESOLVED
        if self.host.surface.operator.settings.curation == "off":
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
        given = request.verdict.effective.query
        if given is not None and (cut := next((origin for origin in given.origins if CUT in origin), "")):
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
        """Tell the client of an unanswered list once its query is answered, unless it has listed again by then."""
        try:
            await (await self._loaded()).wait_to_answer(Deadline.after(_LATER_S))
            answer = await self._answer(request, query, limit)
            if answer.tools and key in self._unanswered:
                if request.client is not None:
                    request.client.tell_later()
                else:
                    self.host.changes.tell_asking(query)
        finally:
            self._unanswered.discard(key)

    def _trail(self, request: Request, scope: CallerScope | None) -> Trail:
        """Return what the caller did before, as far as they may use those tools now (law L1)."""
        from agent_utilities.query.resolution.answer import NO_TRAIL, Trail  # its room is loaded by now

        if self.resolver.teaching is None or scope is None:
            return NO_TRAIL
        called = self._usage.called(request)
        near = dict.fromkeys((*called, *reversed(request.verdict.preferences.active.names)))
        permitted = scope.names() if near else frozenset[str]()
        return Trail(self._usage.subject(), tuple(name for name in near if name in permitted)[:N_NEAR])

    async def wait_to_search(self) -> None:
        """Wait for the index where one is being made, some seconds at most."""
        resolver = await self._loaded()
        await resolver.wait_to_search(Deadline.after(_SEARCH_S))

    async def search(self, request: Request, words: str, names: frozenset[str], limit: int) -> Resolution:
        """Return the best of some tools for words, whether or not they answer them; never fails."""
        deadline = Deadline.after(_SEARCH_S)
        resolver = await self._loaded()
        await resolver.wait_to_search(deadline)
        scope = await self.introspection.scope(request.verdict.bounds_alone)
        from agent_utilities.query.resolution.answer import CallerScope  # its room is loaded by now

        if scope is not None and len(names) != len(permitted := scope.names()):
            digest = blake2b("\n".join(sorted(names)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            scope = CallerScope(f"{scope.digest}:{digest}", lambda: permitted & names)
        return await resolver.search(words, scope, limit, deadline, self._trail(request, scope))

    async def report(self, selection: Selection, make: Callable[[], Awaitable[Request]]) -> Request:
        """Return a request for a report, after graph and index were made for its query where no server runs."""
        if self.host.surface.merged(selection).preferences.query is None:
            return await make()
        return await (await self._loaded()).run_once(make)

    # -- what is told ------------------------------------------------------------------------------------------------

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return how long a list that a query cut may be kept: not at all where it could be cut better later."""
        preferences = request.verdict.preferences
        if not request.lists_tools or preferences.query is None:
            return None
        is_unavailable = preferences.resolution.status == "unavailable"
        return 0 if is_unavailable else self.host.surface.operator.settings.queried_list_ttl_ms

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return how a list's query was answered.

        It is `cause` where that is less than it could be, and `hint` where a model would make it more; where it was
        answered `ranked` names of visible tools, best
        first, `left_out` how many more answer it, `by_usage` names of those of them that stand there for what was
        called before, and not for the query's words.
        """
        resolution = request.verdict.preferences.resolution
        told: dict[str, Any] = {}
        if resolution.cause and request.lists_tools:
            told["cause"] = resolution.cause
        if kind == "tool" and decision.status in (*ANSWERED, "no_match") and self.resolver.rankers().lacks_model:
            from agent_utilities.query.ranking.open import WITHOUT_MODEL  # its room is loaded by now

            told["hint"] = WITHOUT_MODEL
        if kind == "tool" and decision.status in ANSWERED:
            shown = {decision.catalog.entries[i].name for i in decision.visible}
            told["ranked"] = [name for name in resolution.names if name in shown]
            if by_usage := [tool.name for tool in resolution.tools if tool.by_usage and tool.name in shown]:
                told["by_usage"] = by_usage
            if resolution.n_left_out:
                told["left_out"] = resolution.n_left_out
        return told

    def health(self) -> Mapping[str, Any]:
        if not self._is_made:
            return {"graph": {"status": "off"}, "ranker": {"status": "off"}}
        teaching = self.resolver.teaching
        learned = {} if teaching is None else {"usage": {**self._usage.log_health(), "learned": teaching.health()}}
        return {**self.resolver.health(), **learned}
