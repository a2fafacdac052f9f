"""Keeping one server's tools in the graph, and which of them go together: behind everything, and until it succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from agent_utilities.graph import cypher
from agent_utilities.graph.base import GraphError, ServerState, ToolGraph, ToolRecord
from agent_utilities.graph.matching import match_literally, match_terms, match_with_neighbours
from agent_utilities.graph.sync import ToolEdge, server_state, sync, sync_edges
from agent_utilities.resolution.answer import Limits
from agent_utilities.resolution.graph_reader import GraphReader

logger = logging.getLogger("agent_utilities.graph")

Introspect = Callable[[], Awaitable[Sequence[ToolRecord]]]
"""Returns the live tools of the server; never runs a command that the graph holds."""
EdgeSource = Callable[[], Awaitable[Sequence[ToolEdge]]]
"""Returns the edges between the server's tools, as the log has them now."""

_HOUR_S = 3600
_CLOCK_SKEW_S = 5 * 60


class _Job:
    """Something that is done behind everything: one run at a time, once more where it is asked for meanwhile.

    What fails is done again until it succeeds.
    """

    def __init__(
        self, work: Callable[[], Awaitable[None]], on_failure: Callable[[Exception, int], None], limits: Limits
    ) -> None:
        self._work, self._on_failure, self._limits = work, on_failure, limits
        self._wanted, self._hurried = asyncio.Event(), asyncio.Event()
        self._runs = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, or asked for."""
        return not self._runs and not self._wanted.is_set()

    def want(self, *, hurry: bool = False) -> None:
        """Ask for a run, which nobody waits for; one that hurries does not wait for the pause after a failure."""
        self._wanted.set()
        if hurry:
            self._hurried.set()

    async def run(self) -> None:
        """Do what is asked for, until cancelled; runs begin at least a while apart, but for the first two."""
        now_s = asyncio.get_running_loop().time
        next_s, n_failures, is_first = 0.0, 0, True
        while True:
            await self._wanted.wait()
            await asyncio.sleep(next_s - now_s())
            self._wanted.clear()
            self._hurried.clear()
            self._runs = True
            if not is_first:
                next_s = now_s() + self._limits.refresh_gap_s
            is_first = False
            try:
                async with asyncio.timeout(self._limits.refresh_s):
                    await self._work()
            except Exception as error:
                self._wanted.set()
                self._on_failure(error, n_failures)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.retry_s[min(n_failures, len(self._limits.retry_s) - 1)]):
                        await self._hurried.wait()
                n_failures += 1
            else:
                n_failures = 0
            self._runs = False


class Refresher:
    """Brings a server's tools into the graph, and knows what state they are in."""

    def __init__(
        self,
        graph: ToolGraph,
        server: str,
        introspect: Introspect,
        reader: GraphReader,
        limits: Limits,
        edges: EdgeSource | None,
        now: Callable[[], float],
        ttl_hours: float,
    ) -> None:
        self.state: ServerState | None = None
        """What the graph holds of the server; None before it holds anything."""
        self.n_refreshes = 0
        self.knows_edges = edges is not None
        self.first_try_done = asyncio.Event()
        """Set once the graph was filled with the live tools, or could not be at the first try."""
        self._graph, self._server, self._introspect, self._reader = graph, server, introspect, reader
        self._edges, self._now, self._ttl_hours, self._settle_s = edges, now, ttl_hours, limits.settle_s
        self._tools_job = _Job(self._bring_in_tools, self._tools_failed, limits)
        self._edges_job = _Job(self._bring_in_edges, self._edges_failed, limits)
        self._is_open = self._is_filled = False
        self._opening = asyncio.Event()
        # What was read before the graph was changed here may be of other tools, and what is read of others' changes.
        self._n_changes = self._n_edge_changes = 0
        self._edges_digest = ""

    async def run(self) -> None:
        """Open the graph, fill it and keep it, until cancelled.

        It is opened when it is first wanted, or when the server has settled: a driver's import and an engine's start
        take the interpreter for tenths of a second, which the first callers would wait for.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settle_s):
                await self._opening.wait()
        self._tools_job.want()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tools_job.run())
            group.create_task(self._edges_job.run())

    def open_now(self) -> None:
        """Open the graph without waiting for the server to settle: a query was asked."""
        self._opening.set()

    def tools_changed(self) -> None:
        """Have the tools brought in, since they have changed: they are introspected even while the graph fails."""
        self._tools_job.want(hurry=True)

    def edges_changed(self) -> None:
        """Have the edges brought in; before the tools are in, these bring them along."""
        if self.knows_edges and self.state is not None:
            self._edges_job.want()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being brought in."""
        return self._is_filled and self._tools_job.is_idle and self._edges_job.is_idle

    # -- age ---------------------------------------------------------------------------------------------------------

    def edition(self, *, with_edges: bool) -> str:
        """Return what is different once the tools in the graph are, and the edges between them where asked.

        It is empty before there are any.
        """
        if self.state is None:
            return ""
        return f"{self.state.digest}:{self._n_changes}" + (f":{self._n_edge_changes}" if with_edges else "")

    def is_stale(self, state: ServerState) -> bool:
        """Whether tools are older than they should be; a time stamp from the future, after a clock was set, is old."""
        age_s = self._now() - state.updated_at_ms / 1000
        return age_s > self._ttl_hours * _HOUR_S or age_s < -_CLOCK_SKEW_S

    def refresh_if_stale(self) -> None:
        """Have tools that are too old brought in anew, unless that is under way, or has just failed."""
        if self.state is not None and self._tools_job.is_idle and self.is_stale(self.state):
            self._tools_job.want()

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of the graph."""
        state, cause = self.state, self._reader.cause
        health: dict[str, Any] = {"backend": self._graph.backend, "status": "ready" if state else "filling"}
        if cause is not None and cause != "being filled":
            health |= {"status": "unavailable", "cause": cause}
        if state is not None:
            health |= {"age_s": max(0, round(self._now() - state.updated_at_ms / 1000))}
        return health

    async def check_held(self) -> None:
        """Make sure that the graph holds the tools that it should: another process may have changed them.

        Raises:
            GraphError: it holds others; they are being refreshed.
        """
        rows = await self._graph.read(cypher.HELD, {"server_name": self._server})
        held = {row["name"]: row for row in rows}
        nodes = self.state.each_node if self.state is not None else ()
        if held.keys() != {node.name for node in nodes} or not all(_holds(held[node.name], node) for node in nodes):
            self.tools_changed()
            raise GraphError("being filled", f"it no longer holds the tools of {self._server}")

    # -- tools -------------------------------------------------------------------------------------------------------

    async def _bring_in_tools(self) -> None:
        """Put what changed, drop what is gone; the tools are introspected whether or not the graph can be opened."""
        self.n_refreshes += 1
        opened, records = await asyncio.gather(self._open(), self._introspect(), return_exceptions=True)
        for outcome in (opened, records):
            if isinstance(outcome, BaseException):
                raise outcome
        assert not isinstance(records, BaseException)
        report = await sync(self._graph, self._server, records, int(self._now() * 1000))
        self.state = report.state
        self._n_changes += bool(report.n_put or report.n_dropped)
        self.edges_changed()
        n_tools, n_put, n_dropped = report.state.n_tools, report.n_put, report.n_dropped
        logger.info("graph holds %d tools of %s (%d put, %d dropped)", n_tools, self._server, n_put, n_dropped)
        if not self._is_filled:
            await self._warm_up()
            self._reader.succeeded()
            self._is_filled = True
            self.first_try_done.set()

    async def _open(self) -> None:
        if self._is_open:
            return
        await self._graph.open()
        self._is_open = True
        state = await server_state(self._graph, self._server)
        if state is not None and state.n_tools:
            self.state = state
            self._reader.succeeded()

    async def _warm_up(self) -> None:
        """Run each statement once: a first time costs many times the others, and no caller should pay it."""
        await match_literally(self._graph, self._server, "warm up")
        await match_terms(self._graph, self._server, "warm up")
        if self.knows_edges:
            await match_with_neighbours(self._graph, self._server, "warm up", ("warm up",))

    def _tools_failed(self, error: Exception, n_before: int) -> None:
        """Tell of it once until it succeeds; what the graph holds from an earlier run, or for now, is used on."""
        self.first_try_done.set()
        if self.state is None:
            if isinstance(error, TimeoutError):
                error = GraphError("too slow", "not filled in time")
            self._reader.failed(error if isinstance(error, GraphError) else GraphError("failed", repr(error)))
        elif n_before == 0:
            logger.warning("can't refresh %s in the graph (%s); what it holds is used on", self._server, error)

    # -- edges -------------------------------------------------------------------------------------------------------

    async def _bring_in_edges(self) -> None:
        assert self._edges is not None
        report = await sync_edges(self._graph, self._server, await self._edges())
        self._n_edge_changes += report.was_written or report.digest != self._edges_digest
        self._edges_digest = report.digest

    def _edges_failed(self, error: Exception, n_before: int) -> None:
        if n_before == 0:
            message = "can't bring into the graph which tools of %s go together (%r); what it holds is used on"
            logger.warning(message, self._server, error)


def _holds(row: dict[str, Any], node: ServerState) -> bool:
    """Whether a node is as it should be, by what `HELD` returns of it."""
    return row["digest"] == node.digest and bool(row["has_tools"] or not node.n_tools)
