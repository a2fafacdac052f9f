"""Asking the graph: once for all who wait on the same thing, a few things at a time, and not at all while it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from typing import Any

from agent_utilities.graph import cypher
from agent_utilities.graph.base import Cause, GraphError, ServerState, ToolGraph
from agent_utilities.graph.breaker import Breaker
from agent_utilities.graph.matching import Matches, match_literally, match_terms, match_with_neighbours
from agent_utilities.resolution.answer import NO_TRAIL, Limits, Trail
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import Deadline, NotRunningError, SingleFlight

logger = logging.getLogger("agent_utilities.graph")

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the graph, whoever asks.

    Args:
        server: whose tools.
        text: the normalised query.
        edition: of the server's tools; another one may match otherwise.
        by_terms: whether the query's terms are matched one by one, in place of the query as it stands.
        trail: names the tools whose neighbours are wanted too, and whose calls count; not by terms.
    """

    server: str
    text: str
    edition: str
    by_terms: bool = False
    trail: Trail = NO_TRAIL


Outcome = Matches | GraphError
"""What a flight brings: matches, or why there are none. Never an exception: that would end the whole task group."""


class GraphReader:
    """Reads matches from a graph, and remembers them.

    Args:
        graph: the backend.
        clock: monotonic seconds, for pauses after failures.
        state_of: returns the state that a server should be in.
        mark_outdated: called with a server of which the graph holds other tools than it should.
        limits: how long statements may take.
        fallback: what callers get while the graph does not answer, for the log.
    """

    def __init__(
        self,
        graph: ToolGraph,
        clock: Callable[[], float],
        state_of: Callable[[str], ServerState],
        mark_outdated: Callable[[str], None],
        limits: Limits,
        fallback: str,
    ) -> None:
        self.n_reads = 0
        """How many queries were asked of the graph; one whose words stand nowhere together may take two statements."""
        self.cause: Cause | None = "being filled"
        """Why the graph does not answer, or None while it does."""
        self.flights: SingleFlight[Asked, Outcome] = SingleFlight()
        self._graph = graph
        self._state_of, self._mark_outdated = state_of, mark_outdated
        self._limits = limits
        self._fallback = fallback
        self._matches: BoundedCache[Asked, Matches] = BoundedCache(limits.cache_bytes * 7 // 16, _weigh)
        self._too_slow: BoundedCache[Asked, GraphError] = BoundedCache(
            limits.cache_bytes // 16, lambda asked, _: _weigh(asked, Matches())
        )
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._n_succeeded = 0
        self._breaker = Breaker(threshold=3, cooldown_s=5.0, clock=clock)

    async def matches(self, asked: Asked, deadline: Deadline) -> Outcome:
        """Return what matches, from memory where it was asked before; never fails, never waits past the deadline."""
        if (matches := self._matches.get(asked)) is not None:
            return matches
        if (too_slow := self._too_slow.get(asked)) is not None:
            return too_slow
        if self.flights.group is None:
            return GraphError("being filled", "not running")
        if asked not in self.flights and not self._breaker.allows():
            return GraphError(self._breaker.cause or "failed", "left alone for a while after repeated failures")
        try:
            return await self.flights.join(asked, lambda: self._read(asked), deadline)
        except TimeoutError:
            return GraphError("too slow", "no answer within the deadline")
        except NotRunningError:
            return GraphError("failed", "the server is stopping")

    async def _read(self, asked: Asked) -> Outcome:
        n_before = self._n_succeeded
        try:
            async with asyncio.timeout(self._limits.statement_s):
                await self._places.acquire()
        except TimeoutError:
            return GraphError("busy", f"{_AT_ONCE} other queries took {self._limits.statement_s} s")
        try:
            async with asyncio.timeout(self._limits.statement_s):
                matches = await self._match(asked)
        except GraphError as error:
            return self.failed(error)
        except TimeoutError:
            return await self._timed_out(asked, n_before)
        except Exception as error:
            return self.failed(GraphError("failed", error))
        finally:
            self._places.release()
        self.succeeded()
        self._matches.keep(asked, matches)
        return matches

    async def _match(self, asked: Asked) -> Matches:
        if not asked.by_terms:
            self.n_reads += 1
            if not asked.trail.near:
                return await match_literally(self._graph, asked.server, asked.text)
            near, scope = asked.trail.near, asked.trail.scope
            return await match_with_neighbours(self._graph, asked.server, asked.text, near, scope)
        matches = await match_terms(self._graph, asked.server, asked.text)
        if not matches.by_term:
            await self._check_holds(asked.server)
        return matches

    async def _timed_out(self, asked: Asked, n_before: int) -> GraphError:
        """Tell a query that is too much for the graph, and is left alone, from a graph that does not answer.

        Args:
            asked: what took too long.
            n_before: how many statements had been answered when it was asked; where others were meanwhile, the graph
                has only been away for a moment.
        """
        error = GraphError("too slow", f"no answer within {self._limits.statement_s} s")
        try:
            async with asyncio.timeout(self._limits.probe_s):
                await self._graph.read("RETURN 1 AS one", {})
        except Exception:  # whatever a driver raises once its statement was cut short
            return error if self._n_succeeded > n_before else self.failed(error)
        # It answers: the breaker need not wait for another probe.
        self._breaker.succeeded()
        self._too_slow.keep(asked, error)
        return error

    async def why_inconclusive(self, server: str) -> GraphError | None:
        """Return why nothing may be concluded from finding nothing, or None; waits for one statement at most."""
        n_before = self._n_succeeded
        try:
            async with asyncio.timeout(self._limits.statement_s), self._places:
                await self._check_holds(server)
        except GraphError as error:
            return self.failed(error)
        except TimeoutError:
            slow = GraphError("too slow", f"no answer within {self._limits.statement_s} s")
            return slow if self._n_succeeded > n_before else self.failed(slow)
        self.succeeded()
        return None

    async def _check_holds(self, server: str) -> None:
        """Make sure that nothing was found in the tools that were meant: another process may have changed them.

        Raises:
            GraphError: the graph holds other tools; they are being refreshed.
        """
        rows = await self._graph.read(cypher.HELD, {"server_name": server})
        held = {row["name"]: row for row in rows}
        nodes = self._state_of(server).each_node
        if held.keys() != {node.name for node in nodes} or not all(_holds(held[node.name], node) for node in nodes):
            self._mark_outdated(server)
            raise GraphError("being filled", f"it no longer holds the tools of {server}")

    def failed(self, error: GraphError) -> GraphError:
        """Note a failure, and return it."""
        self._breaker.failed(error.cause)
        if self.cause in (None, "being filled"):
            logger.warning("%s; %s until it answers", error, self._fallback)
        self.cause = error.cause
        return error

    def succeeded(self) -> None:
        """Note that the graph answers."""
        self._breaker.succeeded()
        self._n_succeeded += 1
        if self.cause is not None:
            logger.info("graph answers (%s)", self._graph.backend)
        self.cause = None


def _holds(row: dict[str, Any], node: ServerState) -> bool:
    """Whether a node is as it should be, by what `HELD` returns of it."""
    return row["digest"] == node.digest and bool(row["has_tools"] or not node.n_tools)


def _weigh(asked: Asked, matches: Matches) -> int:
    """Return about how many bytes matches take; their names are shared with other matches."""
    texts = (asked.text, asked.trail.scope, *asked.trail.near)
    return 500 + sum(map(getsizeof, texts)) + 8 * matches.n_names + 60 * matches.n_neighbours
