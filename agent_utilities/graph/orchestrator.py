"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_utilities.graph.base import Cause, GraphError, ServerState, ToolGraph
from agent_utilities.graph.breaker import Breaker
from agent_utilities.graph.matching import Matches, match_literally, match_terms, names_of, normalise
from agent_utilities.graph.memory import Memory
from agent_utilities.graph.refresh import Introspect, Refresher
from agent_utilities.graph.sync import server_state
from agent_utilities.selection.resolution import Resolution

logger = logging.getLogger("agent_utilities.graph")

Key = tuple[str, str, str, bool]
"""Server, normalised query, digest of the server's tools, and whether its terms are matched or the query as it is."""

Outcome = Matches | GraphError
"""What a flight brings: matches, or why there are none. Never an exception: that would end the whole task group."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The tools that one caller may use.

    Args:
        digest: the same for equal scopes.
        names: returns their names; called only where no answer in this scope is remembered.
    """

    digest: str
    names: Callable[[], frozenset[str]]


_HOUR_MS = 3_600_000
_AT_ONCE = 8
_STATEMENT_S = 2.0
_CLOSE_S = 1.5
_CLOCK_SKEW_MS = 5 * 60_000


class DynamicToolOrchestrator:
    """Resolves queries on the tool graph, without an LLM (laws L5, L7).

    A query seen before is answered from memory. Another is asked of the graph once, however many callers wait, and
    each caller waits no longer than the deadline. The graph is opened, filled and refreshed by `run`, in the
    background; until it is filled, and whenever it fails, the answer is `unavailable`, which shows everything
    permitted.

    Args:
        graph: the backend; opened and closed here.
        introspect: returns the live tools of a server, by its name; never a command that the graph holds.
        deadline_ms: the longest that `resolve` waits.
        ttl_hours: the age from which an answer is `stale`, and a refresh is started behind it.
        now: UTC epoch seconds; injected by tests.
        clock: monotonic seconds, for pauses after failures.
    """

    def __init__(
        self,
        graph: ToolGraph,
        introspect: Introspect,
        *,
        deadline_ms: int = 250,
        ttl_hours: float = 24,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.graph = graph
        self.n_reads = 0
        """How many queries were asked of the graph; one whose words stand nowhere together takes two statements."""
        self._refresher = Refresher(graph, introspect, now, clock)
        self._deadline_s = deadline_ms / 1000
        self._ttl_ms = ttl_hours * _HOUR_MS
        self._now = now
        self._states = self._refresher.states
        self._matches: Memory[Key, Matches] = Memory()
        self._names: Memory[tuple[Key, str], tuple[str, ...]] = Memory()
        self._too_slow: Memory[Key, GraphError] = Memory()
        self._flights: dict[Key, asyncio.Task[Outcome]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._breaker = Breaker(threshold=3, cooldown_s=5.0, clock=clock)
        self.cause: Cause | None = "being filled"
        """Why the graph does not answer, or None while it does."""

    # -- answering -----------------------------------------------------------------------------------------------

    async def resolve(self, query: str, server_name: str, scope: Scope | None = None) -> Resolution:
        """Return the answer to a query on a server's tools; never fails, never waits past the deadline.

        Args:
            query: the user's words.
            server_name: whose tools to choose from.
            scope: those of them that the caller may use; None for all.
        """
        text = normalise(query)
        if not text:
            return Resolution("off")
        state = self._states.get(server_name)
        if state is None:
            return Resolution("unavailable", cause=self.cause or "being filled")
        names: tuple[str, ...] | GraphError = ()
        for by_term in (False, True):
            names = await self._answer((server_name, text, state.digest, by_term), scope)
            if names:
                break
        is_stale = self._is_stale(state)
        # Whoever waited may find that a refresh is over by now, and starts no other.
        if self._is_stale(self._states.get(server_name, state)) or self._refresher.is_due(server_name):
            self.refresh(server_name)
        if isinstance(names, GraphError):
            return Resolution("unavailable", cause=names.cause)
        if not names:
            return Resolution("no_match")
        return Resolution("stale" if is_stale else "fresh", names)

    async def _answer(self, key: Key, scope: Scope | None) -> tuple[str, ...] | GraphError:
        """Return the names of an answer within a scope, from memory where that was asked before."""
        chosen = (key, scope.digest if scope is not None else "")
        names = self._names.get(chosen)
        if names is None:
            held = self._matches.get(key)
            outcome: Outcome = held if held is not None else await self._ask(key)
            if isinstance(outcome, GraphError):
                return outcome
            names = names_of(outcome, scope.names() if scope is not None else None)
            self._names.keep(chosen, names, len(names))
        return names

    def _is_stale(self, state: ServerState) -> bool:
        """By age; a time stamp from the future, after a clock was set back, counts as old."""
        age_ms = self._now() * 1000 - state.updated_at_ms
        return age_ms > self._ttl_ms or age_ms < -_CLOCK_SKEW_MS

    async def _ask(self, key: Key) -> Outcome:
        """Ask the graph, once for all who wait on a key, and wait for it up to the deadline."""
        if (slow := self._too_slow.get(key)) is not None:
            return slow
        flight = self._flights.get(key)
        if flight is None:
            if self._group is None:
                return GraphError("being filled", "not running")
            if not self._breaker.allows():
                return GraphError(self._breaker.cause or "failed", "left alone for a while after repeated failures")
            flight = self._flights[key] = self._group.create_task(self._fly(key))
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        done, _ = await asyncio.wait([flight], timeout=self._deadline_s)
        if not done:
            return GraphError("too slow", f"no answer within {self._deadline_s * 1000:.0f} ms")
        return GraphError("failed", "the server is stopping") if flight.cancelled() else flight.result()

    async def _fly(self, key: Key) -> Outcome:
        server, text, _, by_term = key
        try:
            async with self._places, asyncio.timeout(_STATEMENT_S):
                self.n_reads += not by_term
                matches = await (match_terms if by_term else match_literally)(self.graph, server, text)
                if by_term and not matches.by_term:
                    await self._check_held(key)
        except GraphError as error:
            return self._failed(error)
        except TimeoutError:
            return await self._timed_out(key)
        except Exception as error:
            return self._failed(GraphError("failed", error))
        self._succeeded()
        self._matches.keep(key, matches, matches.n_names)
        return matches

    async def _timed_out(self, key: Key) -> GraphError:
        """Tell a query that is too much for the graph, and is left alone, from a graph that does not answer."""
        error = GraphError("too slow", f"no answer within {_STATEMENT_S} s")
        try:
            async with asyncio.timeout(self._deadline_s):
                await self.graph.read("RETURN 1 AS one", {})
        except (GraphError, TimeoutError):
            return self._failed(error)
        self._too_slow.keep(key, error, 1)
        return error

    async def _check_held(self, key: Key) -> None:
        """Make sure that nothing was found in the tools that were meant: another process may have changed them.

        Raises:
            GraphError: the graph holds other tools; they are being refreshed.
        """
        server, _, digest, _ = key
        held = await server_state(self.graph, server)
        if held is None or held.digest != digest or held.n_tools == 0 < self._states[server].n_tools:
            self.refresh(server, is_change=True)
            raise GraphError("being filled", f"it no longer holds the tools of {server}")

    def _failed(self, error: GraphError) -> GraphError:
        self._breaker.failed(error.cause)
        if self.cause in (None, "being filled"):
            logger.warning("%s; every permitted tool is shown until it answers", error)
        self.cause = error.cause
        return error

    def _succeeded(self) -> None:
        self._breaker.succeeded()
        if self.cause is not None:
            logger.info("graph answers (%s)", self.graph.backend)
        self.cause = None

    # -- in the background ---------------------------------------------------------------------------------------

    async def run(self, server_name: str) -> None:
        """Open the graph, fill it with a server's tools and keep it, until cancelled; then close within 2 s."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    await self._refresher.fill(server_name, self._failed, self._succeeded)
                    if self._refresher.is_due(server_name):
                        self.refresh(server_name)
                    await asyncio.Event().wait()
                finally:
                    self._group = None
        finally:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await self.graph.close()
            except Exception as error:  # a graph that hangs must not keep the server from stopping
                logger.warning("graph did not close cleanly: %r", error)

    def refresh(self, server_name: str, *, is_change: bool = False) -> None:
        """Start a refresh behind everything, at most one a server; see `Refresher.start`."""
        self._refresher.start(self._group, server_name, is_change=is_change)

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
