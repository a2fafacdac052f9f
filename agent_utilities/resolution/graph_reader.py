"""Asking the graph: once for all who wait on the same thing, a few things at a time, and not at all while it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agent_utilities.graph import cypher
from agent_utilities.graph.base import Cause, GraphError, ServerState, ToolGraph
from agent_utilities.graph.breaker import Breaker
from agent_utilities.graph.matching import Matches, match_literally, match_terms
from agent_utilities.runtime.bounded_cache import BoundedCache

logger = logging.getLogger("agent_utilities.graph")

Key = tuple[str, str, str, bool]
"""Server, normalised query, edition of the server's tools, and whether its terms are matched or the query as it is."""

Outcome = Matches | GraphError
"""What a flight brings: matches, or why there are none. Never an exception: that would end the whole task group."""

_AT_ONCE = 8
_STATEMENT_S = 2.0
_PROBE_S = 0.25
_MATCHES_BYTES = 16 << 20


class Reader:
    """Reads matches from a graph, and remembers them.

    Args:
        graph: the backend.
        clock: monotonic seconds, for pauses after failures.
        state_of: returns the state that a server should be in.
        is_outdated: called with a server of which the graph holds other tools than it should.
    """

    def __init__(
        self,
        graph: ToolGraph,
        clock: Callable[[], float],
        state_of: Callable[[str], ServerState],
        is_outdated: Callable[[str], None],
    ) -> None:
        self.n_reads = 0
        """How many queries were asked of the graph; one whose words stand nowhere together may take two statements."""
        self.cause: Cause | None = "being filled"
        """Why the graph does not answer, or None while it does."""
        self.group: asyncio.TaskGroup | None = None
        """What owns the flights; without it nothing is asked."""
        self._graph = graph
        self._state_of, self._is_outdated = state_of, is_outdated
        self._held: BoundedCache[Key, Matches] = BoundedCache(_MATCHES_BYTES, _weigh)
        self._too_slow: BoundedCache[Key, GraphError] = BoundedCache(4096, lambda key, error: 1)
        self._flights: dict[Key, asyncio.Task[Outcome]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._n_succeeded = 0
        self._breaker = Breaker(threshold=3, cooldown_s=5.0, clock=clock)

    async def matches(self, key: Key, until: float) -> Outcome:
        """Return the matches of a key, from memory where it was asked before.

        Args:
            key: what to match.
            until: the event loop's time after which it is no longer waited for.
        """
        if (held := self._held.get(key)) is not None:
            return held
        if (slow := self._too_slow.get(key)) is not None:
            return slow
        flight = self._flights.get(key)
        if flight is None:
            if self.group is None:
                return GraphError("being filled", "not running")
            if not self._breaker.allows():
                return GraphError(self._breaker.cause or "failed", "left alone for a while after repeated failures")
            flight = self._flights[key] = self.group.create_task(self._fly(key))
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        done, _ = await asyncio.wait([flight], timeout=max(0.0, until - asyncio.get_running_loop().time()))
        if not done:
            return GraphError("too slow", "no answer within the deadline")
        return GraphError("failed", "the server is stopping") if flight.cancelled() else flight.result()

    async def _fly(self, key: Key) -> Outcome:
        server, text, _, by_term = key
        n_before = self._n_succeeded
        try:
            async with asyncio.timeout(_STATEMENT_S):
                await self._places.acquire()
        except TimeoutError:
            return GraphError("busy", f"{_AT_ONCE} other queries took {_STATEMENT_S} s")
        try:
            async with asyncio.timeout(_STATEMENT_S):
                self.n_reads += not by_term
                matches = await (match_terms if by_term else match_literally)(self._graph, server, text)
                if by_term and not matches.by_term:
                    await self._check_held(server)
        except GraphError as error:
            return self.failed(error)
        except TimeoutError:
            return await self._timed_out(key, n_before)
        except Exception as error:
            return self.failed(GraphError("failed", error))
        finally:
            self._places.release()
        self.succeeded()
        self._held.keep(key, matches)
        return matches

    async def _timed_out(self, key: Key, n_before: int) -> GraphError:
        """Tell a query that is too much for the graph, and is left alone, from a graph that does not answer.

        Args:
            key: what was asked.
            n_before: how many statements had been answered when it was asked; where others were meanwhile, the graph
                has only been away for a moment.
        """
        error = GraphError("too slow", f"no answer within {_STATEMENT_S} s")
        try:
            async with asyncio.timeout(_PROBE_S):
                await self._graph.read("RETURN 1 AS one", {})
        except Exception:  # whatever a driver raises once its statement was cut short
            return error if self._n_succeeded > n_before else self.failed(error)
        self._too_slow.keep(key, error)
        return error

    async def checked(self, server: str) -> GraphError | None:
        """Return why nothing may be concluded from finding nothing, or None; waits 2 s at most."""
        n_before = self._n_succeeded
        try:
            async with self._places, asyncio.timeout(_STATEMENT_S):
                await self._check_held(server)
        except GraphError as error:
            return self.failed(error)
        except TimeoutError:
            slow = GraphError("too slow", f"no answer within {_STATEMENT_S} s")
            return slow if self._n_succeeded > n_before else self.failed(slow)
        self.succeeded()
        return None

    async def _check_held(self, server: str) -> None:
        """Make sure that nothing was found in the tools that were meant: another process may have changed them.

        Raises:
            GraphError: the graph holds other tools; they are being refreshed.
        """
        held = await self._graph.read(cypher.HELD, {"server_name": server})
        state = self._state_of(server)
        if not held or held[0]["digest"] != state.digest or (state.n_tools and not held[0]["has_tools"]):
            self._is_outdated(server)
            raise GraphError("being filled", f"it no longer holds the tools of {server}")

    def failed(self, error: GraphError) -> GraphError:
        """Take note of a failure, and return it."""
        self._breaker.failed(error.cause)
        if self.cause in (None, "being filled"):
            logger.warning("%s; every permitted tool is shown until it answers", error)
        self.cause = error.cause
        return error

    def succeeded(self) -> None:
        """Take note that the graph answers."""
        self._breaker.succeeded()
        self._n_succeeded += 1
        if self.cause is not None:
            logger.info("graph answers (%s)", self._graph.backend)
        self.cause = None


def _weigh(key: Key, matches: Matches) -> int:
    """Return about how many bytes matches take; their names are shared with other matches."""
    return 500 + 2 * len(key[1]) + 8 * matches.n_names
