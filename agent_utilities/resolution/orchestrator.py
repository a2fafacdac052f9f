"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agent_utilities.graph.base import Cause, GraphError, ServerState, ToolGraph
from agent_utilities.graph.matching import names_of, normalise
from agent_utilities.resolution.answer import UNRANKED, Answer, Scope, ToolRanker, combine
from agent_utilities.resolution.graph_reader import Reader
from agent_utilities.resolution.refresher import Introspect, Refresher
from agent_utilities.runtime.bounded_cache import BoundedCache
from agent_utilities.selection.resolution import Resolution

logger = logging.getLogger("agent_utilities.graph")

Asked = tuple[str, str, str, str, str, int | None]
"""Server, normalised query, edition of the server's tools, digest of the scope, version of the ranker, limit."""

_HOUR_MS = 3_600_000
_CLOSE_S = 1.5
_CLOCK_SKEW_MS = 5 * 60_000
_N_RANKED = 100
_ANSWERS_BYTES = 16 << 20
_RANKING_SHARE = 0.8
_LEAST_S = 0.01


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
        ranker: ranks the server's tools, or None.
        deadline_ms: the longest that `resolve` waits.
        ttl_hours: the age from which an answer is `stale`, and a refresh is started behind it.
        now: UTC epoch seconds; injected by tests.
        clock: monotonic seconds, for pauses after failures.
        settle_s: seconds after the start before the graph is opened, unless a query is asked before.
    """

    def __init__(
        self,
        graph: ToolGraph,
        introspect: Introspect,
        *,
        ranker: ToolRanker | None = None,
        deadline_ms: int = 250,
        ttl_hours: float = 24,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        settle_s: float = 0.0,
    ) -> None:
        self.graph = graph
        self._refresher = Refresher(graph, introspect, now, clock, settle_s)
        self._states = self._refresher.states
        self._deadline_s = deadline_ms / 1000
        self._ttl_ms = ttl_hours * _HOUR_MS
        self._now = now
        self._ranker = ranker
        self._reader = Reader(graph, clock, self._states.__getitem__, self._outdated)
        self._answers: BoundedCache[Asked, Answer] = BoundedCache(_ANSWERS_BYTES, _weigh)
        self._flights: dict[Asked, asyncio.Task[Answer | GraphError]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.tried = asyncio.Event()
        """Set once the graph was filled with the live tools, or could not be at the first try."""

    # -- answering -----------------------------------------------------------------------------------------------

    async def resolve(
        self,
        query: str,
        server_name: str,
        scope: Scope | None = None,
        limit: int | None = None,
        until: float | None = None,
    ) -> Resolution:
        """Return the answer to a query on a server's tools; never fails, never waits past the deadline.

        Args:
            query: the user's words.
            server_name: whose tools to choose from.
            scope: those of them that the caller may use; None for all.
            limit: the most to name; None for all.
            until: the event loop's time to wait to, where the caller has waited already; the deadline from now on
                otherwise.
        """
        text = normalise(query)
        if not text:
            return Resolution("off")
        state = self._states.get(server_name)
        if state is None:
            self.want()
            return Resolution("unavailable", cause=self.cause or "being filled")
        version = self._ranker.version if self._ranker is not None else ""
        edition = f"{state.digest}:{self._refresher.n_changes}"
        asked = (server_name, text, edition, scope.digest if scope is not None else "", version, limit)
        found: Answer | GraphError | None = self._answers.get(asked)
        if found is None:
            found = await self._wait(asked, query, scope, self.deadline() if until is None else until)
        is_stale = self._is_stale(state)
        # Whoever waited may find that a refresh is over by now, and starts no other.
        if self._is_stale(self._states.get(server_name, state)) or self._refresher.is_due(server_name):
            self.refresh(server_name)
        if isinstance(found, GraphError):
            return Resolution("unavailable", cause=found.cause)
        return found.resolution("stale" if is_stale else "fresh")

    def deadline(self) -> float:
        """Return the event loop's time until which a query asked now is waited for."""
        return asyncio.get_running_loop().time() + self._deadline_s

    async def _wait(self, asked: Asked, query: str, scope: Scope | None, until: float) -> Answer | GraphError:
        """Find an answer once for all who ask the same, and wait for it up to the event loop's time `until`."""
        flight = self._flights.get(asked)
        if flight is None:
            if self._group is None:
                return GraphError("being filled", "not running")
            flight = self._flights[asked] = self._group.create_task(self._find(asked, query, scope, until))
            flight.add_done_callback(lambda _: self._flights.pop(asked, None))
        done, _ = await asyncio.wait([flight], timeout=max(0.0, until - asyncio.get_running_loop().time()))
        if not done:
            return GraphError("too slow", f"no answer within {self._deadline_s * 1000:.0f} ms")
        return GraphError("failed", "the server is stopping") if flight.cancelled() else flight.result()

    async def _find(self, asked: Asked, query: str, scope: Scope | None, until: float) -> Answer | GraphError:
        """Find an answer; past `until` nobody waits for it, but the graph's part of it is still remembered."""
        server, text, edition, _, version, limit = asked
        try:
            names = scope.names() if scope is not None else None
            literal = await self._reader.matches((server, text, edition, False), until)
            if isinstance(literal, GraphError):
                return literal
            bearing = names_of(literal, names)
            ranked = None
            if self._ranker is not None and version:
                left_s = until - asyncio.get_running_loop().time()
                n_ranked = _N_RANKED + (limit or 0)
                ranked = await self._ranker.rank(query, scope, n_ranked, max(_LEAST_S, _RANKING_SHARE * left_s))
            if ranked is None and not bearing:
                apart = await self._reader.matches((server, text, edition, True), until)
                if isinstance(apart, GraphError):
                    return apart
                bearing = names_of(apart, names)
            answer = combine(text, bearing, ranked, limit)
            if ranked is None and self._ranker is not None:
                answer = replace(answer, cause=UNRANKED, is_passing=True)
            if ranked is not None and not answer.names and (error := await self._reader.checked(server)):
                return error
        except Exception as failure:  # a flight that raised would end the whole task group
            return self._reader.failed(GraphError("failed", repr(failure)))
        if not answer.is_passing:
            self._answers.keep(asked, answer)
        return answer

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
                self._group = self._reader.group = group
                try:
                    await self._refresher.fill(server_name, self._not_filled, self._reader.succeeded)
                    self.tried.set()
                    if self._refresher.is_due(server_name):
                        self.refresh(server_name)
                    await asyncio.Event().wait()
                finally:
                    self._group = self._reader.group = None
        finally:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await self.graph.close()
            except Exception as error:  # a graph that hangs must not keep the server from stopping
                logger.warning("graph did not close cleanly: %r", error)

    def _not_filled(self, error: GraphError) -> None:
        self._reader.failed(error)
        self.tried.set()

    def want(self) -> None:
        """Open the graph now, if it waits for the server to settle."""
        self._refresher.want()

    async def filled(self, until: float) -> None:
        """Wait for the first try to fill the graph, no longer than to the event loop's time `until`."""
        self.want()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self.tried.wait()

    def refresh(self, server_name: str, *, is_change: bool = False) -> None:
        """Start a refresh behind everything, at most one a server; see `Refresher.start`."""
        self._refresher.start(self._group, server_name, is_change=is_change)

    def _outdated(self, server_name: str) -> None:
        self.refresh(server_name, is_change=True)

    async def refresh_cached_tools(self, server_name: str) -> None:
        """Bring a live server's tools into the graph, in one transaction.

        Raises:
            GraphError: nothing was changed.
        """
        await self._refresher.refresh(server_name)

    @property
    def n_refreshes(self) -> int:
        """How many refreshes were started."""
        return self._refresher.n_refreshes

    @property
    def _refreshes(self) -> dict[str, asyncio.Task[None] | None]:
        return self._refresher.running

    def health(self, server_name: str) -> dict[str, Any]:
        """Return what `/ready` tells of the graph."""
        state = self._states.get(server_name)
        health: dict[str, Any] = {"backend": self.graph.backend, "status": "ready" if state else "filling"}
        if self.cause is not None and self.cause != "being filled":
            health |= {"status": "unavailable", "cause": self.cause}
        if state is not None:
            health |= {"age_s": max(0, round(self._now() - state.updated_at_ms / 1000))}
        return health


def _weigh(asked: Asked, answer: Answer) -> int:
    """Return about how many bytes an answer takes."""
    return 500 + 2 * len(asked[1]) + 200 * len(answer.names)
