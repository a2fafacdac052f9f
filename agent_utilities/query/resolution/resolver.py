"""`Resolver` answers a server's queries from graph and ranker, which it opens as the operator's settings ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal, TypeVar

from agent_utilities.query.graph.backends import graph_backend
from agent_utilities.query.graph.base import GraphError, ToolGraph, ToolRecord
from agent_utilities.query.graph.matching import Matches, match_literally, match_terms, names_of, normalise
from agent_utilities.query.ranking.open import WITHOUT_MODEL, Rankers, open_rankers
from agent_utilities.query.resolution.answer import (
    FIRST_FILL_SHARE,
    GRAPH_SHARE,
    LEAST_RANKING_S,
    NO_TRAIL,
    RANKING_SHARE,
    UNRANKED,
    CallerScope,
    Limits,
    LiveTools,
    Question,
    Ranked,
    Trail,
)
from agent_utilities.query.resolution.catalog_ranker import CatalogRanker, combined_answer, ranked_alone
from agent_utilities.query.resolution.graph_keeper import GraphKeeper
from agent_utilities.query.resolution.prior import shares_off_loop, with_prior
from agent_utilities.query.resolution.teaching import Teaching
from agent_utilities.runtime.caches import cache_bytes, key_of
from agent_utilities.runtime.waiting import Deadline, beside
from agent_utilities.selection.model import UNRESOLVED, Resolution
from agent_utilities.settings import Settings
from agent_utilities.usage.model import UsageSource

logger = logging.getLogger("agent_utilities.graph")

_ONCE_S = 20.0
_T = TypeVar("_T")


def _key(question: Question, kind: Literal["answer", "ranking", "search", "words"]) -> bytes:
    """Return the cache key of an answer, a ranking without the graph, or a search: equal for all who ask the same.

    Capitals and quotes tell names from words in a search.
    """
    version = f"{question.edition}/{question.ranker_version}" if kind == "answer" else question.ranker_version
    scope_digest = question.scope.digest if question.scope is not None else ""
    text = question.query if kind == "search" else question.text
    return key_of(kind, text, version, scope_digest, question.limit, question.trail)


class Pipeline:
    """Answers queries on one server's tools, without an LLM (laws L5, L7).

    A query seen before is answered from the cache. Another is sent to graph and ranker once, however many callers
    wait, and each waits no longer than the deadline; past it words alone answer. Tools that bear the query literally
    come first, then those that the ranker claims, or, while it can't rank, those that bear the query's words apart.
    While the graph is not filled, or fails, the ranker alone answers (`ranked`); where it can't either the answer is
    `unavailable`, which shows everything permitted.

    Args:
        deadline_s: seconds that `resolve` waits at most where it is called without a deadline.
    """

    def __init__(
        self, keeper: GraphKeeper, ranker: CatalogRanker | None, teaching: Teaching | None, deadline_s: float
    ) -> None:
        self.keeper, self.memo = keeper, keeper.memo
        self._ranker, self._teaching, self._deadline_s = ranker, teaching, deadline_s
        self.n_reads = 0
        """How many queries were sent to the graph; one whose words stand nowhere together may take two statements."""

    async def resolve(
        self,
        query: str,
        scope: CallerScope | None = None,
        limit: int | None = None,
        deadline: Deadline | None = None,
        trail: Trail = NO_TRAIL,
    ) -> Resolution:
        """Return the answer to a query on the server's tools; never fails, waits past the deadline for words alone."""
        if not (text := normalise(query)):
            return UNRESOLVED
        state, edition = self.keeper.state, self.keeper.edition(with_edges=bool(trail.near))
        version = self._ranker.version_for(trail.scope) if self._ranker is not None else ""
        question = Question(query, text, scope, limit, trail, edition, version)
        if state is None:
            self.keeper.open_now()
        until = deadline or Deadline.after(self._deadline_s)
        prior = self._teaching.prior(trail.scope) if self._teaching is not None else None
        answer = await self._once(_key(question, "answer"), lambda: self._ask(question, until), until)
        if answer.status == "unavailable" and version:
            # By words alone, however late that is.
            ranked = await self.keeper.once(_key(question, "words"), lambda: self._rank(question, None), None)
            if not (ranked is None or isinstance(ranked, GraphError)):
                answer = ranked_alone(ranked(()), answer.cause)
        if state is not None:
            # Whoever waited may find that a refresh is over by now, and starts no other.
            self.keeper.refresh_if_stale()
            if answer.status == "fresh" and self.keeper.is_stale(state):
                answer = replace(answer, status="stale")
        return answer if prior is None or scope is None else with_prior(answer, prior, scope.names(), limit)

    async def search(
        self, query: str, scope: CallerScope | None, limit: int, deadline: Deadline, usage_scope: str
    ) -> Resolution:
        """Return the best tools in scope for a query, claimed or not; never fails, never waits past the deadline."""
        ranker = self._ranker
        if ranker is None or not ranker.version or scope is None:
            return Resolution("unavailable", cause="no ranker" if ranker is None else "no index yet")
        version = ranker.version_for(usage_scope)
        question = Question(query, normalise(query), scope, limit, Trail(usage_scope), ranker_version=version)
        key = _key(question, "search")

        async def find() -> Resolution:
            answer = await ranker.search(question, deadline)
            return Resolution("unavailable", cause=UNRANKED) if answer is None else self.memo.keep(key, answer)

        prior = self._teaching.prior(usage_scope) if self._teaching is not None else None
        answer = await self._once(key, find, deadline)
        # A search by words returns only what matches them: usage fills nothing in.
        return answer if prior is None else with_prior(answer, prior, scope.names(), len(answer.tools))

    async def _once(
        self, key: bytes, find: Callable[[], Coroutine[Any, Any, Resolution]], deadline: Deadline | None
    ) -> Resolution:
        """Return an answer that is computed once for all who ask the same; wait for it no longer than a deadline."""
        answer = await self.keeper.once(key, find, deadline)
        return Resolution("unavailable", cause=answer.cause) if isinstance(answer, GraphError) else answer

    async def _ask(self, question: Question, deadline: Deadline) -> Resolution:
        """Ask graph and ranker, and remember the answer; without the graph, that of the ranker alone.

        Past the deadline nobody waits for it, but the graph's part of it is still remembered.
        """
        by_ranker: Resolution | None = self.memo.get(_key(question, "ranking"))
        ranked: Ranked | None = None
        if by_ranker is None:
            # At once: what the ranker answers does not depend on the graph, which may not be there.
            matching = self._match(question, deadline)
            matches, ranked = await asyncio.gather(matching, self._rank(question, deadline))
        elif not isinstance(matches := await self._match(question, deadline), GraphError):
            ranked = await self._rank(question, deadline)
        answer = await self._combine(question, matches, ranked, deadline)
        if isinstance(answer, Resolution):
            return self.memo.keep(_key(question, "answer"), answer)
        if by_ranker is None and ranked is not None:
            by_ranker = self.memo.keep(_key(question, "ranking"), ranked(()))
        if by_ranker is None:
            return Resolution("unavailable", cause=answer.cause)
        return ranked_alone(by_ranker, f"graph {answer.cause}")

    async def _match(self, question: Question, deadline: Deadline) -> Matches | GraphError:
        """Return what bears the query literally, or why the graph can't say; in time for the ranker to stand in."""
        keeper = self.keeper
        if not question.edition:
            return GraphError(keeper.cause or "being filled", "not filled yet")
        trail = question.trail if keeper.knows_edges and question.trail.near else NO_TRAIL

        async def read() -> Matches:
            self.n_reads += 1
            return await match_literally(keeper.graph, keeper.server, question.text, trail.near, trail.scope)

        key = key_of("literal", question.text, question.edition, trail)
        return await keeper.read(key, read, deadline.share(GRAPH_SHARE) if question.ranker_version else deadline)

    async def _rank(self, question: Question, deadline: Deadline | None) -> Ranked | None:
        """Return the ranker's answer, to be completed; None where there is no ranker, or it can't rank."""
        if self._ranker is None or not question.ranker_version:
            return None
        until = None if deadline is None else deadline.share(RANKING_SHARE, least_s=LEAST_RANKING_S)
        return await self._ranker.rank(question, until)

    async def _combine(
        self, question: Question, matches: Matches | GraphError, ranked: Ranked | None, deadline: Deadline
    ) -> Resolution | GraphError:
        """Return what literal matches and ranking come to; without a ranking, the query's terms are matched apart."""
        if isinstance(matches, GraphError):
            return matches
        permitted = question.scope.names() if question.scope is not None else None
        neighbours: tuple[tuple[str, float], ...] = ()
        if matches.neighbour_rows:
            neighbours = await shares_off_loop(matches, question.trail.near, permitted)
        literal = names_of(matches, permitted)
        if ranked is not None:
            answer = ranked(literal)
            is_match = bool(answer.tools)
        else:
            is_match = bool(literal)
            if not literal:
                terms = await self.keeper.read(
                    key_of("terms", question.text, question.edition),
                    lambda: match_terms(self.keeper.graph, self.keeper.server, question.text),
                    deadline,
                )
                if isinstance(terms, GraphError):
                    return terms
                literal, is_match = names_of(terms, permitted), bool(terms.by_term)
            cause = UNRANKED if self._ranker is not None else ""
            answer = replace(combined_answer(question, literal), cause=cause, is_temporary=bool(cause))
        if not is_match and (error := await self.keeper.ask(self.keeper.check_held)) is not None:
            return error
        return replace(answer, neighbours=neighbours)


class Resolver:
    """Answers a server's queries while it runs, where the operator's settings have that on.

    Args:
        name_of_server: returns the name under which the graph keeps the server's tools.
        settings, environ: return what the operator set; called when they are first needed.
        graph: a backend to use instead of the configured one.
        usage: returns the source of what calls teach; None where nothing is to be learned.
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
        self._name, self._introspect, self._usage = name_of_server, introspect, usage
        self._settings, self._environ, self._own_graph = settings, environ, graph
        self.rankers: Callable[[], Rankers] = cache(lambda: open_rankers(settings()))
        self.ranker: CatalogRanker | None = None
        """Ranks the tools; there while the resolver runs, where ranking is on."""
        self.teaching: Teaching | None = None
        """Learns from usage; there while the resolver runs, where anything is to be learned from it."""
        self.pipeline: Pipeline | None = None
        """Answers queries; there while the resolver runs."""
        self.limits = Limits()
        """What background work may take; `settle_s` of it is `run`'s."""
        self._opened = asyncio.Event()
        """Cleared while graph and ranker are about to be made."""
        self._opened.set()

    # -- answering ---------------------------------------------------------------------------------------------------

    async def wait_for_tools(self) -> Deadline:
        """Return the deadline of a query that comes now, after waiting for a first fill or index under way."""
        deadline = Deadline.after(self._settings().graph_deadline_ms / 1000)
        await deadline.wait(self._opened)
        pipeline, ranker = self.pipeline, self.ranker
        if pipeline is not None and pipeline.keeper.cause == "being filled":
            await pipeline.keeper.filled(deadline.share(FIRST_FILL_SHARE) if ranker is not None else deadline)
        if ranker is not None and not ranker.version:
            # A graph that was filled by an earlier run is there sooner than the index, which then answers at once.
            await deadline.wait(ranker.first_try_done)
        return deadline

    @property
    def is_off(self) -> bool:
        """Whether queries are not resolved: not where that is about to begin."""
        return self.pipeline is None and self._opened.is_set()

    async def wait_to_answer(self, deadline: Deadline) -> None:
        """Wait until a query can be answered for the first time, or can't after a try, up to a deadline."""
        await deadline.wait(self._opened)
        if (pipeline := self.pipeline) is not None:
            pipeline.keeper.open_now()
            await deadline.wait((self.ranker or pipeline.keeper).first_try_done)

    async def wait_to_search(self, deadline: Deadline) -> None:
        """Wait for the first index where one is being made, or is to be made for this search, up to a deadline."""
        await deadline.wait(self._opened)
        if self.pipeline is not None and self.ranker is not None:
            self.pipeline.keeper.open_now()
            await self.ranker.wait_to_search(deadline)

    async def search(
        self, query: str, scope: CallerScope | None, limit: int, deadline: Deadline, trail: Trail = NO_TRAIL
    ) -> Resolution:
        """Return the best tools in scope for a query, best first; never fails, never waits past the deadline.

        A scope that is None permits nothing.

        Returns:
            `ranked`, or `no_match` where no tool shares anything with the query; `off` where the query is blank, or
            queries are off; `unavailable` with the cause where there is no ranker, or it has not answered in time.
        """
        if not query.strip():
            return UNRESOLVED
        await self.wait_to_search(deadline)
        if self.pipeline is None:
            return Resolution(cause="queries are off")
        return await self.pipeline.search(query, scope, limit, deadline, trail.scope)

    # -- in the background -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `InputError` where the configured graph and ranker can't be meant; nothing is opened."""
        self._graph()
        open_rankers(self._settings())

    def begin(self) -> None:
        """Let queries wait from now on for what `run` opens."""
        if self.is_off:
            self._opened = asyncio.Event()

    async def run(self, first: Awaitable[None] | None = None, settle_s: float | None = None) -> None:
        """Keep graph and ranker until cancelled; returns at once where they are off.

        Args:
            first: is awaited before they are made; a query that comes meanwhile waits for it as for them.
            settle_s: seconds until the graph is opened and filled, unless a query comes; None waits for a query.
        """
        self.begin()
        try:
            if first is not None:
                await first
            if (pipeline := self._open(settle_s)) is not None:
                self._opened.set()
                await self._keep(pipeline)
        finally:
            self._opened.set()

    async def run_once(self, resolve: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `resolve` returns where no server runs, after graph and index were made for it."""
        if (pipeline := self._open(0.0)) is None:
            return await resolve()
        async with beside(self._keep(pipeline)):
            try:
                async with asyncio.timeout(_ONCE_S):
                    await pipeline.keeper.filled(Deadline.after(_ONCE_S))
                    if self.ranker is not None:
                        await self.ranker.wait_until_settled()
            except TimeoutError:
                logger.warning("graph or index not ready within %s s; every permitted tool is shown", _ONCE_S)
            return await resolve()

    def refresh(self) -> None:
        """Bring changed tools into the graph, in the background."""
        if self.pipeline is not None:
            self.pipeline.keeper.tools_changed()

    def learn_news(self) -> None:
        """Have the usage log read again, in the background: it has grown."""
        if self.teaching is not None:
            self.teaching.news()

    def health(self) -> dict[str, Any]:
        """Return what `/ready` reports of graph and ranker."""
        keeper = None if self.pipeline is None else self.pipeline.keeper
        parts = {"graph": keeper, "ranker": self.ranker}
        return {name: {"status": "off"} if part is None else part.health() for name, part in parts.items()}

    def _graph(self) -> ToolGraph | None:
        settings = self._settings()
        return self._own_graph or graph_backend(settings.graph, self._name(), settings.graph_folder, self._environ())

    def _open(self, settle_s: float | None) -> Pipeline | None:
        if (graph := self._graph()) is None:
            return None
        settings, rankers = self._settings(), self.rankers()
        if not rankers.is_off:
            self.ranker = CatalogRanker(rankers.by_meaning)
        if rankers.lacks_model:
            logger.info("queries are %s", WITHOUT_MODEL)
        if (source := self._usage()) is not None:
            self.teaching = Teaching(source, self.ranker, lambda: keeper.edges_changed(), self.limits.refresh_gap_s)
        keeper = GraphKeeper(
            graph,
            self._name(),
            self._records,
            replace(self.limits, settle_s=settle_s, cache_bytes=cache_bytes(settings.cache_mb, "resolution")),
            "every permitted tool is shown" if self.ranker is None else "the ranker alone answers",
            edges=self.teaching.edges if self.teaching is not None else None,
            ttl_hours=settings.graph_ttl_hours,
        )
        self.pipeline = Pipeline(keeper, self.ranker, self.teaching, settings.graph_deadline_ms / 1000)
        return self.pipeline

    async def _keep(self, pipeline: Pipeline) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for part in (self.ranker, self.teaching, pipeline.keeper):
                    if part is not None:
                        group.create_task(part.run())
        finally:
            self.pipeline = self.ranker = self.teaching = None

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
