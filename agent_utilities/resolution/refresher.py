"""Keeping the graph: one refresh a server at a time, behind everything, and again until it succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from itertools import count

from agent_utilities.graph.base import GraphError, ServerState, ToolGraph, ToolRecord
from agent_utilities.graph.matching import match_literally, match_terms, match_with_neighbours
from agent_utilities.graph.sync import server_state, sync
from agent_utilities.resolution.answer import Limits
from agent_utilities.resolution.edge_refresher import EdgeRefresher, EdgeSource

logger = logging.getLogger("agent_utilities.graph")

Introspect = Callable[[str], Awaitable[Sequence[ToolRecord]]]
"""Returns the live tools of a server, by its name."""


class Refresher:
    """Brings servers' tools into the graph, and knows what state each is in.

    Args:
        graph: the backend.
        introspect: returns the live tools of a server; never runs a command that the graph holds.
        now: UTC epoch seconds.
        clock: monotonic seconds, for pauses after failures.
        limits: how long a refresh may take, and the pauses between tries.
        edges: what calls teach of tools that go together, brought in after the tools; None for nothing.
    """

    def __init__(
        self,
        graph: ToolGraph,
        introspect: Introspect,
        now: Callable[[], float],
        clock: Callable[[], float],
        limits: Limits,
        edges: EdgeSource | None = None,
    ) -> None:
        self.edges = EdgeRefresher(graph, edges, limits)
        self.states: dict[str, ServerState] = {}
        self.n_refreshes = 0
        self.n_changes = 0
        """How often the tools in the graph were changed here; what was read before may be of other tools."""
        self.running: dict[str, asyncio.Task[None] | None] = {}
        """Servers that are being filled (None) or refreshed, with the task that does it."""
        self._graph = graph
        self._introspect = introspect
        self._now, self._clock = now, clock
        self._limits = limits
        self._wanted = asyncio.Event()
        self._changed: set[str] = set()
        self._warned: set[str] = set()
        self._paused_until: dict[str, float] = {}
        self._next_turn_s: dict[str, float] = {}
        self._change_noted = asyncio.Event()
        self._context = copy_context()

    async def fill(
        self, server: str, on_failure: Callable[[GraphError], object], on_success: Callable[[], object]
    ) -> None:
        """Open the graph and fill it, again and again until it is done; what it already holds answers meanwhile.

        It is opened when it is first wanted, or when the server has settled: a driver's import and an engine's start
        take the interpreter for tenths of a second, which the first callers would wait for.

        Args:
            server: whose tools to bring in.
            on_failure: called with each failure.
            on_success: called when the graph can answer.
        """
        self.running[server] = None
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.settle_s):
                await self._wanted.wait()
        for attempt in count():
            try:
                async with asyncio.timeout(self._limits.refresh_s):
                    await self._open_and_fill(server, on_success)
                break
            except Exception as error:
                if server in self.states:
                    self._warn(server, error)
                else:
                    on_failure(self._as_graph_error(error))
            # Tools that change meanwhile are introspected at once: a ranker answers without the graph.
            self._change_noted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.retry_s[min(attempt, len(self._limits.retry_s) - 1)]):
                    await self._change_noted.wait()
        del self.running[server]

    async def _open_and_fill(self, server: str, on_success: Callable[[], object]) -> None:
        """Open the graph, and introspect the tools whether or not it can be opened."""
        with self._counted(server):
            opened, records = await asyncio.gather(
                self._open(server, on_success), self._introspect(server), return_exceptions=True
            )
            if isinstance(opened, BaseException):
                raise opened
            if isinstance(records, BaseException):
                raise records
            await self._sync(server, records)
        # The first time a statement runs costs many times the others, and no caller should pay it.
        await match_literally(self._graph, server, "warm up")
        await match_terms(self._graph, server, "warm up")
        if self.edges.is_on:
            await match_with_neighbours(self._graph, server, "warm up", ("warm up",))
        on_success()

    async def _open(self, server: str, on_success: Callable[[], object]) -> None:
        await self._graph.open()
        if server not in self.states:
            state = await server_state(self._graph, server)
            if state is not None and state.n_tools:
                self.states[server] = state
                on_success()

    def open_now(self) -> None:
        """Open the graph without waiting for the server to settle: a query was asked."""
        self._wanted.set()

    def start(self, group: asyncio.TaskGroup | None, server: str, *, is_change: bool = False) -> None:
        """Start a refresh, unless one runs or one failed a short while ago.

        Args:
            group: the task group that owns it; without one nothing is started.
            server: whose tools to bring in.
            is_change: the tools are known to have changed: it is not forgotten until a refresh has succeeded, and they
                are introspected even while the graph is left alone.
        """
        if is_change:
            self._changed.add(server)
            self._change_noted.set()
        if group is None or server in self.running or server not in self.states:
            return
        if self._is_paused(server) and not is_change:
            return
        # Whoever asks may have started it, and must not be the one as whom the tools are listed.
        task = self.running[server] = group.create_task(self._run(server), context=self._context.copy())
        task.add_done_callback(lambda _: self.running.pop(server, None))

    def start_edges(self, server: str) -> None:
        """Start bringing in which tools go together, once the graph holds the tools.

        Until then nothing is started: the graph may not be open, and the tools bring their edges along.
        """
        if server in self.states:
            self.edges.start(server)

    def _is_paused(self, server: str) -> bool:
        return self._clock() < self._paused_until.get(server, float("-inf"))

    def edition(self, state: ServerState, *, with_edges: bool) -> str:
        """Return what is different once a server's tools in the graph are, and the edges between them where asked."""
        return f"{state.digest}:{self.n_changes}" + (f":{self.edges.n_changes}" if with_edges else "")

    def is_due(self, server: str) -> bool:
        """Whether a change waits for a refresh."""
        return server in self._changed and server not in self.running

    async def _run(self, server: str) -> None:
        """Refresh, and once more where the tools changed meanwhile."""
        try:
            while True:
                await self._wait_for_turn(server)
                async with asyncio.timeout(self._limits.refresh_s):
                    if self._is_paused(server):
                        return await self._introspect_only(server)
                    await self.refresh_cached_tools(server)
                if server not in self._changed:
                    return
        except Exception as error:
            self._paused_until[server] = self._clock() + self._limits.retry_s[-1]
            self._warn(server, error)

    async def _wait_for_turn(self, server: str) -> None:
        """Wait until the last refresh was started a while ago: changes that come fast are brought in together."""
        now_s = asyncio.get_running_loop().time
        await asyncio.sleep(self._next_turn_s.get(server, 0.0) - now_s())
        self._next_turn_s[server] = now_s() + self._limits.refresh_gap_s

    async def _introspect_only(self, server: str) -> None:
        """Introspect tools that changed while the graph is left alone; they are brought into it later."""
        with self._counted(server):
            await self._introspect(server)
        self._changed.add(server)

    def _warn(self, server: str, error: Exception) -> None:
        """Say once that a refresh failed, until one succeeds."""
        if server not in self._warned:
            self._warned.add(server)
            logger.warning("can't refresh %s in the graph (%s); what it holds is used on", server, error)

    async def refresh_cached_tools(self, server: str) -> None:
        """Bring a live server's tools into the graph, in one transaction: put what changed, drop what is gone.

        Raises:
            GraphError: nothing was changed.
        """
        with self._counted(server):
            await self._sync(server, await self._introspect(server))

    @contextmanager
    def _counted(self, server: str) -> Iterator[None]:
        """Count a refresh, and take the changes up to now as brought in, unless it fails."""
        self.n_refreshes += 1
        was_changed = server in self._changed
        self._changed.discard(server)
        try:
            yield
        except BaseException:
            if was_changed:
                self._changed.add(server)
            raise

    async def _sync(self, server: str, records: Sequence[ToolRecord]) -> None:
        report = await sync(self._graph, server, records, int(self._now() * 1000))
        self.states[server] = report.state
        self.n_changes += bool(report.n_put or report.n_dropped)
        self._warned.discard(server)
        self.edges.start(server)
        n_tools, n_put, n_dropped = report.state.n_tools, report.n_put, report.n_dropped
        logger.info("graph holds %d tools of %s (%d put, %d dropped)", n_tools, server, n_put, n_dropped)

    def _as_graph_error(self, error: Exception) -> GraphError:
        if isinstance(error, GraphError):
            return error
        if isinstance(error, TimeoutError):
            return GraphError("too slow", f"not filled within {self._limits.refresh_s} s")
        return GraphError("failed", repr(error))
