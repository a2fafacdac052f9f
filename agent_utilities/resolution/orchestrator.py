"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agent_utilities.graph.base import Cause, GraphError, ServerState, ToolGraph
from agent_utilities.graph.matching import names_of
from agent_utilities.graph.query_text import normalise
from agent_utilities.resolution import graph_reader
from agent_utilities.resolution.answer import UNRANKED, Question, ToolRanker, literal_answer
from agent_utilities.resolution.deadlines import Limits, for_ranking
from agent_utilities.resolution.graph_reader import GraphReader
from agent_utilities.resolution.refresher import Introspect, Refresher
from agent_utilities.resolution.scope import CallerScope
from agent_utilities.runtime.bounded_cache import BoundedCache
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.runtime.single_flight import NotRunningError, SingleFlight
from agent_utilities.selection.resolution import UNRESOLVED, Resolution

logger = logging.getLogger("agent_utilities.graph")

_HOUR_MS = 3_600_000
_CLOCK_SKEW_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What one answer is an answer to; equal for callers who may be given the same.

    Args:
        server: whose tools.
        text: the normalised query.
        edition: of the server's tools.
        scope_digest: of the tools that the caller may use; empty for all.
        ranker_version: what the ranker answers from; empty while it can't.
        limit: the most to name.
    """

    server: str
    text: str
    edition: str
    scope_digest: str
    ranker_version: str
    limit: int | None


class DynamicToolOrchestrator:
    """Resolves queries on the tool graph, without an LLM (laws L5, L7).

    A query seen before is answered from memory. Another is asked of the graph once, however many callers wait, and
    each caller waits no longer than the deadline. Tools that bear the query literally come first; then those that a
    ranker claims, or, while it can't rank, those that bear the query's words apart. The graph is opened, filled and
    refreshed by `run`, in the background; until it is filled, and whenever it fails, the answer is `unavailable`,
    which shows everything permitted.

    Args:
        graph: the backend; opened and closed here.
        introspect: returns the live tools of a server, by its name; never a command that the graph holds.
        deadline_s: seconds that `resolve` waits at most where it is given no deadline.
        ranker: ranks the server's tools, or None.
        ttl_hours: the age from which an answer is `stale`, and a refresh is started behind it.
        limits: how long background work may take.
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
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.graph = graph
        self._refresher = Refresher(graph, introspect, now, clock, limits)
        self._states = self._refresher.states
        self._deadline_s = deadline_s
        self._ttl_ms = ttl_hours * _HOUR_MS
        self._limits = limits
        self._now = now
        self._ranker = ranker
        self._reader = GraphReader(graph, clock, self._states.__getitem__, self._mark_outdated, limits)
        self._answers: BoundedCache[Asked, Resolution] = BoundedCache(limits.cache_bytes, _weigh)
        self._flights: SingleFlight[Asked, Resolution | GraphError] = SingleFlight()
        self.first_try_done = asyncio.Event()
        """Set once the graph was filled with the live tools, or could not be at the first try."""

    # -- answering -----------------------------------------------------------------------------------------------

    async def resolve(
        self,
        query: str,
        server_name: str,
        scope: CallerScope | None = None,
        limit: int | None = None,
        deadline: Deadline | None = None,
    ) -> Resolution:
        """Return the answer to a query on a server's tools; never fails, never waits past the deadline.

        Args:
            query: the user's words.
            server_name: whose tools to choose from.
            scope: those of them that the caller may use; None for all.
            limit: the most to name; None for all.
            deadline: until when to wait, where the caller has waited already; a new one otherwise.
        """
        question = Question(query, normalise(query), scope, limit)
        if not question.text:
            return UNRESOLVED
        state = self._states.get(server_name)
        if state is None:
            self._refresher.open_now()
            return Resolution("unavailable", cause=self.cause or "being filled")
        asked = self._asked(question, server_name, state)
        answer: Resolution | GraphError | None = self._answers.get(asked)
        if answer is None:
            answer = await self._wait(asked, question, deadline or self.new_deadline())
        is_stale = self._is_stale(state)
        # Whoever waited may find that a refresh is over by now, and starts no other.
        if self._is_stale(self._states.get(server_name, state)) or self._refresher.is_due(server_name):
            self.refresh(server_name)
        if isinstance(answer, GraphError):
            return Resolution("unavailable", cause=answer.cause)
        return replace(answer, status="stale") if is_stale and answer.answered else answer

    def _asked(self, question: Question, server_name: str, state: ServerState) -> Asked:
        return Asked(
            server_name,
            question.text,
            f"{state.digest}:{self._refresher.n_changes}",
            question.scope.digest if question.scope is not None else "",
            self._ranker.version if self._ranker is not None else "",
            question.limit,
        )

    def new_deadline(self) -> Deadline:
        """Return until when a query asked now is waited for."""
        return Deadline.after(self._deadline_s)

    async def _wait(self, asked: Asked, question: Question, deadline: Deadline) -> Resolution | GraphError:
        """Find an answer once for all who ask the same, and wait for it no longer than the deadline."""
        if self._flights.group is None:
            return GraphError("being filled", "not running")
        try:
            return await self._flights.join(asked, lambda: self._find(asked, question, deadline), deadline)
        except TimeoutError:
            return GraphError("too slow", f"no answer within {self._deadline_s * 1000:.0f} ms")
        except NotRunningError:
            return GraphError("failed", "the server is stopping")

    async def _find(self, asked: Asked, question: Question, deadline: Deadline) -> Resolution | GraphError:
        """Find an answer; past the deadline nobody waits for it, but the graph's part of it is still remembered."""
        try:
            answer = await self._ask_graph_and_ranker(asked, question, deadline)
        except Exception as failure:  # a flight that raised would end the whole task group
            return self._reader.failed(GraphError("failed", repr(failure)))
        if isinstance(answer, Resolution) and not answer.is_temporary:
            self._answers.keep(asked, answer)
        return answer

    async def _ask_graph_and_ranker(
        self, asked: Asked, question: Question, deadline: Deadline
    ) -> Resolution | GraphError:
        permitted = question.scope.names() if question.scope is not None else None
        match = graph_reader.Asked(asked.server, asked.text, asked.edition)
        matches = await self._reader.matches(match, deadline)
        if isinstance(matches, GraphError):
            return matches
        literal = names_of(matches, permitted)
        if self._ranker is not None and asked.ranker_version:
            answer = await self._ranker.answer(question, literal, for_ranking(deadline))
            if answer is not None:
                inconclusive = None if answer.tools else await self._reader.why_inconclusive(asked.server)
                return inconclusive or answer
        if not literal:
            matches = await self._reader.matches(replace(match, by_terms=True), deadline)
            if isinstance(matches, GraphError):
                return matches
            literal = names_of(matches, permitted)
        return literal_answer(literal, question.limit, UNRANKED if self._ranker is not None else "")

    def _is_stale(self, state: ServerState) -> bool:
        """By age; a time stamp from the future, after a clock was set back, counts as old."""
        age_ms = self._now() * 1000 - state.updated_at_ms
        return age_ms > self._ttl_ms or age_ms < -_CLOCK_SKEW_MS

    @property
    def cause(self) -> Cause | None:
        """Why the graph does not answer, or None while it does."""
        return self._reader.cause

    @property
    def n_reads(self) -> int:
        """How many queries were asked of the graph."""
        return self._reader.n_reads

    # -- in the background ---------------------------------------------------------------------------------------

    async def run(self, server_name: str) -> None:
        """Open the graph, fill it with a server's tools and keep it, until cancelled; then close within 2 s."""
        try:
            async with asyncio.TaskGroup() as group:
                self._flights.group = self._reader.flights.group = group
                try:
                    await self._refresher.fill(server_name, self._not_filled, self._reader.succeeded)
                    self.first_try_done.set()
                    if self._refresher.is_due(server_name):
                        self.refresh(server_name)
                    await asyncio.Event().wait()
                finally:
                    self._flights.group = self._reader.flights.group = None
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

    def refresh(self, server_name: str, *, is_change: bool = False) -> None:
        """Start `refresh_cached_tools` behind everything, at most one a server; see `Refresher.start`."""
        self._refresher.start(self._flights.group, server_name, is_change=is_change)

    def _mark_outdated(self, server_name: str) -> None:
        self.refresh(server_name, is_change=True)

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
        """Whether no server is being filled or refreshed."""
        return not self._refresher.running

    def health(self, server_name: str) -> dict[str, Any]:
        """Return what `/ready` tells of the graph."""
        state = self._states.get(server_name)
        health: dict[str, Any] = {"backend": self.graph.backend, "status": "ready" if state else "filling"}
        if self.cause is not None and self.cause != "being filled":
            health |= {"status": "unavailable", "cause": self.cause}
        if state is not None:
            health |= {"age_s": max(0, round(self._now() - state.updated_at_ms / 1000))}
        return health


def _weigh(asked: Asked, answer: Resolution) -> int:
    """Return about how many bytes an answer takes."""
    return 600 + 2 * len(asked.text) + 200 * len(answer.tools)
