"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agent_utilities.graph.base import Cause, GraphError, ServerState, ToolGraph
from agent_utilities.graph.matching import Matches, names_of, normalise
from agent_utilities.resolution import graph_reader
from agent_utilities.resolution.answer import (
    NO_EDITION,
    NO_TRAIL,
    UNRANKED,
    Asked,
    CallerScope,
    Limits,
    Question,
    Ranked,
    ToolRanker,
    Trail,
    answer_without_graph,
    for_graph,
    for_ranking,
    literal_answer,
    unavailable,
)
from agent_utilities.resolution.edge_refresher import EdgeSource
from agent_utilities.resolution.graph_age import graph_health, is_stale
from agent_utilities.resolution.graph_reader import GraphReader, Outcome
from agent_utilities.resolution.prior import shares_off_loop
from agent_utilities.resolution.refresher import Introspect, Refresher
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import Deadline, NotRunningError, SingleFlight
from agent_utilities.selection.model import UNRESOLVED, Resolution

logger = logging.getLogger("agent_utilities.graph")


class DynamicToolOrchestrator:
    """Resolves queries on the tool graph, without an LLM (laws L5, L7).

    A query seen before is answered from memory. Another is asked of graph and ranker once, however many callers wait,
    and each caller waits no longer than the deadline. Tools that bear the query literally come first; then those that
    the ranker claims, or, while it can't rank, those that bear the query's words apart. The graph is opened, filled and
    refreshed by `run`, in the background; until it is filled, and whenever it fails, the ranker alone answers
    (`ranked`), and where it can't either the answer is `unavailable`, which shows everything permitted.

    Args:
        graph: the backend; opened and closed here.
        introspect: returns the live tools of a server, by its name; never a command that the graph holds.
        deadline_s: seconds that `resolve` waits at most where it is given no deadline.
        ranker: ranks the server's tools, or None.
        ttl_hours: the age from which an answer is `stale`, and a refresh is started behind it.
        limits: how long background work may take.
        edges: what calls teach of tools that go together, asked at each fill and refresh; None where nothing does.
        now: UTC epoch seconds.
        clock: monotonic seconds, for pauses after failures.
    """

    def __init__(
        self,
        graph: ToolGraph,
        introspect: Introspect,
        *,
        deadline_s: float,
        ranker: ToolRanker | None = None,
        ttl_hours: float = 24,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        edges: EdgeSource | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.graph = graph
        self._refresher = Refresher(graph, introspect, now, clock, limits, edges)
        self._states = self._refresher.states
        self._deadline_s = deadline_s
        self._ttl_hours = ttl_hours
        self._limits = limits
        self._now = now
        self._ranker = ranker
        fallback = "every permitted tool is shown" if ranker is None else "the ranker alone answers"
        mark_outdated = partial(self.refresh, is_change=True)
        self._reader = GraphReader(graph, clock, self._states.__getitem__, mark_outdated, limits, fallback)
        self._answers: BoundedCache[Asked, Resolution] = BoundedCache(limits.cache_bytes // 2, Asked.weigh)
        self._flights: SingleFlight[Asked, Resolution] = SingleFlight()
        self.first_try_done = asyncio.Event()
        """Set once the graph was filled with the live tools, or could not be at the first try."""

    # -- answering ---------------------------------------------------------------------------------------------------

    async def resolve(
        self,
        query: str,
        server_name: str,
        scope: CallerScope | None = None,
        limit: int | None = None,
        deadline: Deadline | None = None,
        trail: Trail = NO_TRAIL,
    ) -> Resolution:
        """Return the answer to a query on a server's tools; never fails, never waits past the deadline.

        Args:
            query: the user's words.
            server_name: whose tools to choose from.
            scope: those of them that the caller may use; None for all.
            limit: the most to name; None for all.
            deadline: until when to wait, where the caller has waited already; a new one otherwise.
            trail: what the caller did before; neighbours are told of the first of the tools that it is near to.
        """
        question = Question(query, normalise(query), scope, limit, trail)
        if not question.text:
            return UNRESOLVED
        state = self._states.get(server_name)
        if state is None:
            self._refresher.open_now()
        asked = self._asked(question, server_name, state)
        answer = self._answers.get(asked) if state is not None else None
        if answer is None:
            answer = await self._wait(asked, question, deadline or self.new_deadline())
        if state is None:
            return answer
        # Whoever waited may find that a refresh is over by now, and starts no other.
        if self._is_stale(self._states.get(server_name, state)) or self._refresher.is_due(server_name):
            self.refresh(server_name)
        return replace(answer, status="stale") if answer.status == "fresh" and self._is_stale(state) else answer

    def _asked(self, question: Question, server_name: str, state: ServerState | None) -> Asked:
        edition = NO_EDITION
        if state is not None:
            edition = self._refresher.edition(state, with_edges=bool(question.trail.near))
        scope_digest = question.scope.digest if question.scope is not None else ""
        version = self._ranker.version_for(question.trail.scope) if self._ranker is not None else ""
        return Asked(server_name, question.text, edition, scope_digest, version, question.limit, question.trail)

    def new_deadline(self) -> Deadline:
        """Return until when a query asked now is waited for."""
        return Deadline.after(self._deadline_s)

    async def _wait(self, asked: Asked, question: Question, deadline: Deadline) -> Resolution:
        """Find an answer once for all who ask the same, and wait for it no longer than the deadline."""
        if self._flights.group is None:
            return unavailable("being filled")
        try:
            return await self._flights.join(asked, lambda: self._find(asked, question, deadline), deadline)
        except TimeoutError:
            return unavailable("too slow")
        except NotRunningError:
            return unavailable("failed")

    async def _find(self, asked: Asked, question: Question, deadline: Deadline) -> Resolution:
        """Find an answer; past the deadline nobody waits for it, but the graph's part of it is still remembered."""
        try:
            return await self._ask(asked, question, deadline)
        except Exception as failure:  # a flight that raised would end the whole task group
            return unavailable(self._reader.failed(GraphError("failed", repr(failure))).cause)

    async def _ask(self, asked: Asked, question: Question, deadline: Deadline) -> Resolution:
        """Ask graph and ranker, and remember the answer; without the graph, that of the ranker alone."""
        without_graph = replace(asked, edition=NO_EDITION)
        by_ranker = self._answers.get(without_graph)
        if by_ranker is None:
            # At once: what the ranker finds does not depend on the graph, which may not be there.
            matches, ranked = await asyncio.gather(self._match(asked, deadline), self._rank(asked, question, deadline))
        else:
            matches = await self._match(asked, deadline)
            ranked = None if isinstance(matches, GraphError) else await self._rank(asked, question, deadline)
        if isinstance(matches, GraphError):
            answer: Resolution | GraphError = matches
        else:
            answer = await self._combine(asked, question, matches, ranked, deadline)
        if isinstance(answer, Resolution):
            return self._remember(asked, answer)
        if by_ranker is None and ranked is not None:
            by_ranker = self._remember(without_graph, ranked(()))
        return unavailable(answer.cause) if by_ranker is None else answer_without_graph(by_ranker, answer.cause)

    async def _match(self, asked: Asked, deadline: Deadline) -> Outcome:
        """Return what matches in the graph, or why it can't be asked; in time for the ranker to answer without it."""
        if asked.edition == NO_EDITION:
            return GraphError(self.cause or "being filled", "not filled yet")
        trail = asked.trail if self._refresher.edges.is_on and asked.trail.near else NO_TRAIL
        match = graph_reader.Asked(asked.server, asked.text, asked.edition, trail=trail)
        return await self._reader.matches(match, for_graph(deadline) if asked.ranker_version else deadline)

    async def _rank(self, asked: Asked, question: Question, deadline: Deadline) -> Ranked | None:
        """Return what the ranker finds; None where there is none, or it can't rank."""
        if self._ranker is None or not asked.ranker_version:
            return None
        return await self._ranker.rank(question, for_ranking(deadline))

    async def _combine(
        self, asked: Asked, question: Question, matches: Matches, ranked: Ranked | None, deadline: Deadline
    ) -> Resolution | GraphError:
        """Return what literal matches and ranking come to; without a ranking, the query's terms are matched apart."""
        permitted = question.scope.names() if question.scope is not None else None
        neighbours = await shares_off_loop(matches, question.trail.near, permitted)
        literal = names_of(matches, permitted)
        if ranked is not None:
            answer = ranked(literal)
            inconclusive = None if answer.tools else await self._reader.why_inconclusive(asked.server)
            return inconclusive or replace(answer, neighbours=neighbours)
        if not literal:
            match = graph_reader.Asked(asked.server, asked.text, asked.edition, by_terms=True)
            by_term = await self._reader.matches(match, deadline)
            if isinstance(by_term, GraphError):
                return by_term
            literal = names_of(by_term, permitted)
        answer = literal_answer(literal, question.limit, UNRANKED if self._ranker is not None else "")
        return replace(answer, neighbours=neighbours)

    def _remember(self, asked: Asked, answer: Resolution) -> Resolution:
        if not answer.is_temporary:
            self._answers.keep(asked, answer)
        return answer

    def _is_stale(self, state: ServerState) -> bool:
        return is_stale(state, self._now(), self._ttl_hours)

    @property
    def cause(self) -> Cause | None:
        """Why the graph does not answer, or None while it does."""
        return self._reader.cause

    @property
    def n_reads(self) -> int:
        """How many queries were asked of the graph."""
        return self._reader.n_reads

    # -- in the background -------------------------------------------------------------------------------------------

    async def run(self, server_name: str) -> None:
        """Open the graph, fill it with a server's tools and keep it, until cancelled; then close within 2 s."""
        try:
            async with asyncio.TaskGroup() as group:
                self._flights.group = self._reader.flights.group = self._refresher.edges.group = group
                try:
                    await self._refresher.fill(server_name, self._not_filled, self._reader.succeeded)
                    self.first_try_done.set()
                    if self._refresher.is_due(server_name):
                        self.refresh(server_name)
                    await asyncio.Event().wait()
                finally:
                    self._flights.group = self._reader.flights.group = self._refresher.edges.group = None
        finally:
            try:
                async with asyncio.timeout(self._limits.close_s):
                    await self.graph.close()
            except Exception as error:  # a graph that hangs must not keep the server from stopping
                logger.warning("graph did not close cleanly: %r", error)

    def _not_filled(self, error: GraphError) -> None:
        self._reader.failed(error)
        self.first_try_done.set()

    async def filled(self, deadline: Deadline) -> None:
        """Wait for the first try to fill the graph, no longer than the deadline."""
        self._refresher.open_now()
        with suppress(TimeoutError):
            async with deadline.timeout():
                await self.first_try_done.wait()

    def open_now(self) -> None:
        """Open the graph and list the tools without waiting for the server to settle; waits for neither."""
        self._refresher.open_now()

    def refresh(self, server_name: str, *, is_change: bool = False) -> None:
        """Start `refresh_cached_tools` behind everything, at most one a server; see `Refresher.start`."""
        self._refresher.start(self._flights.group, server_name, is_change=is_change)

    def refresh_edges(self, server_name: str) -> None:
        """Bring in which tools go together, behind everything, where the log of calls has grown."""
        self._refresher.start_edges(server_name)

    async def refresh_cached_tools(self, server_name: str) -> None:
        """Bring a live server's tools into the graph, in one transaction, and wait for it.

        Raises:
            GraphError: nothing was changed.
        """
        await self._refresher.refresh_cached_tools(server_name)

    @property
    def n_refreshes(self) -> int:
        """How many refreshes were started."""
        return self._refresher.n_refreshes

    @property
    def is_idle(self) -> bool:
        """Whether no server is being filled or refreshed, nor its edges."""
        return not self._refresher.running and self._refresher.edges.is_idle

    def health(self, server_name: str) -> dict[str, Any]:
        """Return what `/ready` tells of the graph."""
        return graph_health(self.graph.backend, self._states.get(server_name), self.cause, self._now())
