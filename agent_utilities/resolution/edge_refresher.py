"""Keeping in the graph which tools are used together: made anew from what calls teach, behind everything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context

from agent_utilities.graph.base import ToolGraph
from agent_utilities.graph.sync import ToolEdge, sync_edges
from agent_utilities.resolution.answer import Limits

logger = logging.getLogger("agent_utilities.graph")

EdgeSource = Callable[[], Awaitable[Sequence[ToolEdge]]]
"""Returns the edges between the tools of the server that is kept, as the log has them now."""


class EdgeRefresher:
    """Brings into the graph what a source knows of tools that go together; one sync at a time.

    Args:
        graph: the backend, open by the time that anything is brought in.
        source: what the edges are asked of; None where nothing is learned, and the graph is left as it is.
        limits: how long a sync may take, and the pause between two.
    """

    def __init__(self, graph: ToolGraph, source: EdgeSource | None, limits: Limits) -> None:
        self.n_changes = 0
        """How often the edges in the graph were changed, as far as is known here; what was read before may be old."""
        self.group: asyncio.TaskGroup | None = None
        """What owns the syncs; set while the service runs."""
        self._graph = graph
        self._source = source
        self._limits = limits
        self._digest = ""
        self._is_wanted = False
        self._task: asyncio.Task[None] | None = None
        self._next_turn_s = 0.0
        self._n_failures = 0
        self._context = copy_context()

    @property
    def is_on(self) -> bool:
        """Whether there are edges to be known at all."""
        return self._source is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being brought in."""
        return self._task is None

    def start(self, server: str) -> None:
        """Start a sync, which nobody waits for; where one runs one more follows it, however often it was asked for.

        Args:
            server: whose edges.
        """
        if self.group is None or self._source is None:
            return
        self._is_wanted = True
        if self._task is None:
            # Whoever asks may have started it, and must not be the one as whom the log is read.
            self._task = self.group.create_task(self._run(self._source, server), context=self._context.copy())

    async def _run(self, source: EdgeSource, server: str) -> None:
        now_s = asyncio.get_running_loop().time
        try:
            while self._is_wanted:
                await asyncio.sleep(self._next_turn_s - now_s())
                self._is_wanted = False
                try:
                    async with asyncio.timeout(self._limits.refresh_s):
                        await self._sync(source, server)
                except Exception as error:
                    self._failed(server, error)
                self._next_turn_s = now_s() + self._gap_s
        finally:
            self._task = None

    async def _sync(self, source: EdgeSource, server: str) -> None:
        report = await sync_edges(self._graph, server, await source())
        self.n_changes += report.was_written or report.digest != self._digest
        self._digest = report.digest
        self._n_failures = 0

    def _failed(self, server: str, error: Exception) -> None:
        """Have it tried again later, and tell of it once until it succeeds."""
        self._is_wanted = True
        self._n_failures += 1
        if self._n_failures == 1:
            message = "can't bring into the graph which tools of %s go together (%r); what it holds is used on"
            logger.warning(message, server, error)

    @property
    def _gap_s(self) -> float:
        """Seconds between two syncs: the longer the more of them failed."""
        pauses_s = (self._limits.refresh_gap_s, *self._limits.retry_s)
        return pauses_s[min(self._n_failures, len(pauses_s) - 1)]
