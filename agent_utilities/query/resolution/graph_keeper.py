"""`GraphKeeper` fills a server's graph in the background, queries it by a deadline, and caches what queries find."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import Cause, GraphError, ServerState, ToolGraph, ToolRecord
from agent_utilities.query.graph.matching import Matches, match_literally, match_terms
from agent_utilities.query.graph.sync import ToolEdge, server_state, sync, sync_edges
from agent_utilities.query.resolution.answer import Limits
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import Deadline, Job, NotRunningError, SingleFlight, is_set
from agent_utilities.selection.model import Resolution

logger = logging.getLogger("agent_utilities.graph")

_T = TypeVar("_T")
Introspect = Callable[[], Awaitable[Sequence[ToolRecord]]]
"""Returns the live tools of the server; never runs a command that the graph holds."""
EdgeSource = Callable[[], Awaitable[Sequence[ToolEdge]]]
"""Returns the edges between the server's tools, as the log has them now."""

_HOUR_S = 3600
_CLOCK_SKEW_S = 5 * 60
_AT_ONCE = 8
_MOST_FAILURES = 3
"""After so many failures in a row the graph is not queried for a while; then one query tries it."""
_ALONE_S = 5.0
"""Longer than a statement may take, so that one query at a time tries."""


class Memo:
    """Caches results of queries, and computes each once for all who wait for it.

    Whoever computes a result keeps it where it is worth that: one that is late serves the next request.
    """

    def __init__(self, max_bytes: int) -> None:
        self._cache: BoundedCache[bytes, Any] = BoundedCache(max_bytes, _weigh)
        self.get = self._cache.get
        self.flights: SingleFlight[bytes, Any] = SingleFlight()

    async def find(self, key: bytes, find: Callable[[], Coroutine[Any, Any, _T]], deadline: Deadline | None) -> _T:
        """Return the cached result, or the one computed now.

        Raises:
            TimeoutError: the deadline passed; the computation goes on.
            NotRunningError: nothing runs, or it is being stopped.
        """
        cached: _T | None = self.get(key)
        return cached if cached is not None else await self.flights.join(key, find, deadline)

    def keep(self, key: bytes, result: _T) -> _T:
        """Cache a result, unless it may be better at the next request, and return it."""
        if not (isinstance(result, Resolution) and result.is_temporary):
            self._cache.keep(key, result)
        return result


def _weigh(key: bytes, result: Any) -> int:
    """Return about how many bytes a result takes with its key; names in matches are shared with other matches."""
    n_bytes = 800
    match result:
        case Resolution():
            n_bytes += 250 * len(result.tools) + 150 * len(result.neighbours)
        case Matches():
            n_bytes += 8 * result.n_names + 60 * result.n_neighbours
    return n_bytes


class GraphKeeper:
    """Fills and refreshes a server's tools and edges in the graph, and queries them.

    Args:
        graph: the backend; opened and closed here.
        fallback: what callers get while the graph does not answer, for the log.
        edges: returns the learned edges between tools, called at each fill and refresh; None where nothing is learned.
        ttl_hours: the age from which the tools are stale.
        now: UTC epoch seconds, for ages.
        clock: monotonic seconds, for pauses after failures.
    """

    def __init__(
        self,
        graph: ToolGraph,
        server: str,
        introspect: Introspect,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        fallback: str = "every permitted tool is shown",
        edges: EdgeSource | None = None,
        ttl_hours: float = 24,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cause: Cause | None = "being filled"
        """Why the graph does not answer, or None while it does."""
        self.state: ServerState | None = None
        """The server's state in the graph; None before there is any."""
        self.n_refreshes = 0
        self.memo = Memo(limits.cache_bytes)
        """Results of queries; computed while this runs."""
        self.knows_edges = edges is not None
        self.graph, self.server, self._introspect, self._limits = graph, server, introspect, limits
        self._fallback, self._edges, self._ttl_hours = fallback, edges, ttl_hours
        self._now, self._clock = now, clock
        pace = {"gap_s": limits.refresh_gap_s, "limit_s": limits.refresh_s}
        self._tools_job = Job(self._bring_in_tools, self._tools_failed, limits.retry_s, **pace)
        self._edges_job = Job(self._bring_in_edges, self._edges_failed, limits.retry_s, **pace)
        self.first_try_done = self._tools_job.first_try_done
        """Set once the graph was filled with the live tools, or could not be at the first try."""
        self._is_open = self._is_filled = False
        self._opening = asyncio.Event()
        # What was read before the graph was changed here may be of other tools, and what is read of others' changes.
        self._n_changes = 0
        self._edges_digest = ""
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._n_failures = 0
        self._alone_until = 0.0

    async def run(self) -> None:
        """Open the graph, fill it and refresh it until cancelled; then close it within 2 s.

        It is opened when it is first wanted, or when the server has settled: a driver's import and an engine's start
        take the interpreter for tenths of a second, which the first callers would wait for.
        """
        try:
            async with asyncio.TaskGroup() as flights:
                self.memo.flights.group = flights
                try:
                    await is_set(self._opening, within_s=self._limits.settle_s)
                    self._tools_job.want()
                    async with asyncio.TaskGroup() as jobs:
                        jobs.create_task(self._tools_job.run())
                        jobs.create_task(self._edges_job.run())
                finally:
                    self.memo.flights.group = None
        finally:
            await self._close()

    async def _close(self) -> None:
        """Close the graph; one that hangs does not keep the server from stopping."""
        try:
            async with asyncio.timeout(self._limits.close_s):
                await self.graph.close()
        except Exception as error:
            logger.warning("graph did not close cleanly: %r", error)

    def open_now(self) -> None:
        """Open the graph without waiting for the server to settle: a query came."""
        self._opening.set()

    async def filled(self, deadline: Deadline) -> None:
        """Wait for the first try to fill the graph, no longer than the deadline."""
        self.open_now()
        await deadline.wait(self.first_try_done)

    def tools_changed(self) -> None:
        """Schedule a refresh of the tools, which have changed: they are introspected even while the graph fails."""
        self._tools_job.want(hurry=True)

    def edges_changed(self) -> None:
        """Schedule a refresh of the edges; the first fill of the tools does so itself."""
        if self.knows_edges and self.state is not None:
            self._edges_job.want()

    @property
    def is_idle(self) -> bool:
        """Whether the graph is filled, and no refresh is due or under way."""
        return self._is_filled and self._tools_job.is_idle and self._edges_job.is_idle

    # -- asking ------------------------------------------------------------------------------------------------------

    async def once(
        self, key: bytes, find: Callable[[], Coroutine[Any, Any, _T]], deadline: Deadline | None
    ) -> _T | GraphError:
        """Return a result that is cached, or computed once for all who wait for it; never fails.

        It is a `GraphError` past the deadline, while nothing runs, and where the computation raises.
        """

        async def find_safely() -> _T | GraphError:
            try:
                return await find()
            except Exception as failure:  # a flight that raised would end the whole task group
                return self.failed(GraphError("failed", repr(failure)))

        try:
            return await self.memo.find(key, find_safely, deadline)
        except TimeoutError:
            return GraphError("too slow", "no answer within the deadline")
        except NotRunningError:
            return GraphError("being filled", "not running")

    async def read(
        self, key: bytes, read: Callable[[], Awaitable[Matches]], deadline: Deadline
    ) -> Matches | GraphError:
        """Return what some statements match, from the cache where it is there; never waits past the deadline."""

        async def ask() -> Matches | GraphError:
            matches = await self.ask(read)
            return self.memo.keep(key, matches) if isinstance(matches, Matches) else matches

        return await self.once(key, ask, deadline)

    async def ask(self, read: Callable[[], Awaitable[_T]]) -> _T | GraphError:
        """Return the result of some statements, or the error; never raises."""
        timeout_s = self._limits.statement_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._places.acquire()
        except TimeoutError:
            return GraphError("busy", f"{_AT_ONCE} other queries took {timeout_s} s")
        try:
            if self._is_left_alone():
                return GraphError(self.cause or "failed", "left alone for a while after repeated failures")
            async with asyncio.timeout(timeout_s):
                result = await read()
        except TimeoutError:
            return self.failed(GraphError("too slow", f"no answer within {timeout_s} s"))
        except Exception as error:
            return self.failed(error if isinstance(error, GraphError) else GraphError("failed", error))
        finally:
            self._places.release()
        self._succeeded()
        return result

    def _is_left_alone(self) -> bool:
        """Whether the circuit breaker is open; after a pause it lets one query through, and waits again."""
        if self._n_failures < _MOST_FAILURES:
            return False
        now_s = self._clock()
        if now_s < self._alone_until:
            return True
        self._alone_until = now_s + _ALONE_S
        return False

    def failed(self, error: GraphError) -> GraphError:
        """Count a failure, and return it."""
        self._n_failures += 1
        if self._n_failures >= _MOST_FAILURES:
            self._alone_until = self._clock() + _ALONE_S
        if self.cause in (None, "being filled"):
            logger.warning("%s; %s until it answers", error, self._fallback)
        self.cause = error.cause
        return error

    def _succeeded(self) -> None:
        self._n_failures = 0
        if self.cause is not None:
            logger.info("graph answers (%s)", self.graph.backend)
        self.cause = None

    async def check_held(self) -> None:
        """Raise `GraphError`, and refresh the tools, where the graph holds others: another process may write it too."""
        rows = await self.graph.read(cypher.HELD, {"server_name": self.server})
        held = {row["name"]: (row["digest"], bool(row["has_tools"])) for row in rows}
        nodes = () if self.state is None else self.state.nodes or (self.state,)
        if held != {node.name: (node.digest, bool(node.n_tools)) for node in nodes}:
            self.tools_changed()
            raise GraphError("being filled", f"it no longer holds the tools of {self.server}")

    # -- age ---------------------------------------------------------------------------------------------------------

    def edition(self, *, with_edges: bool) -> str:
        """Return the version of the tools in the graph, and of the edges if wanted; empty before there are tools."""
        if self.state is None:
            return ""
        return f"{self.state.digest}:{self._n_changes}" + (f":{self._edges_digest}" if with_edges else "")

    def is_stale(self, state: ServerState) -> bool:
        """Whether tools are older than they should be; a time stamp from the future, after a clock was set, is old."""
        age_s = self._now() - state.updated_at_ms / 1000
        return age_s > self._ttl_hours * _HOUR_S or age_s < -_CLOCK_SKEW_S

    def refresh_if_stale(self) -> None:
        """Schedule a refresh of stale tools, unless one is under way, or has just failed."""
        if self.state is not None and self._tools_job.is_idle and self.is_stale(self.state):
            self._tools_job.want()

    def health(self) -> dict[str, Any]:
        """Return the state for `/ready`."""
        health: dict[str, Any] = {"backend": self.graph.backend, "status": "ready" if self.state else "filling"}
        if self.cause is not None and self.cause != "being filled":
            health |= {"status": "unavailable", "cause": self.cause}
        if self.state is not None:
            health |= {"age_s": max(0, round(self._now() - self.state.updated_at_ms / 1000))}
        return health

    # -- bringing in -------------------------------------------------------------------------------------------------

    async def _bring_in_tools(self) -> None:
        """Sync the live tools; they are introspected whether or not the graph can be opened."""
        self.n_refreshes += 1
        opened, records = await asyncio.gather(self._open(), self._introspect(), return_exceptions=True)
        for outcome in (opened, records):
            if isinstance(outcome, BaseException):
                raise outcome
        assert not isinstance(records, BaseException)
        report = await sync(self.graph, self.server, records, int(self._now() * 1000))
        self.state = report.state
        self._n_changes += bool(report.n_put or report.n_dropped)
        self.edges_changed()
        n_tools, n_put, n_dropped = report.state.n_tools, report.n_put, report.n_dropped
        logger.info("graph holds %d tools of %s (%d put, %d dropped)", n_tools, self.server, n_put, n_dropped)
        if not self._is_filled:
            await self._warm_up()
            self._succeeded()
            self._is_filled = True

    async def _open(self) -> None:
        if self._is_open:
            return
        await self.graph.open()
        self._is_open = True
        state = await server_state(self.graph, self.server)
        if state is not None and state.n_tools:
            self.state = state
            self._succeeded()

    async def _warm_up(self) -> None:
        """Run each statement once: a first time costs many times the others, and no caller should pay it."""
        await match_literally(self.graph, self.server, "warm up")
        await match_terms(self.graph, self.server, "warm up")
        if self.knows_edges:
            await match_literally(self.graph, self.server, "warm up", ("warm up",))

    def _tools_failed(self, error: Exception, n_before: int) -> None:
        """Log it once until it succeeds; what the graph holds, from an earlier run too, is used on."""
        if self.state is None:
            if isinstance(error, TimeoutError):
                error = GraphError("too slow", "not filled in time")
            self.failed(error if isinstance(error, GraphError) else GraphError("failed", repr(error)))
        elif n_before == 0:
            logger.warning("can't refresh %s in the graph (%s); what it holds is used on", self.server, error)

    async def _bring_in_edges(self) -> None:
        assert self._edges is not None
        self._edges_digest = await sync_edges(self.graph, self.server, await self._edges())

    def _edges_failed(self, error: Exception, n_before: int) -> None:
        if n_before == 0:
            message = "can't bring into the graph which tools of %s go together (%r); what it holds is used on"
            logger.warning(message, self.server, error)
