"""Asking the graph: once for all who wait on the same thing, a few things at a time, and not at all while it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from agent_utilities.graph.base import Cause, GraphError, ToolGraph
from agent_utilities.graph.matching import Matches
from agent_utilities.resolution.answer import Key, Limits, Memo
from agent_utilities.runtime.waiting import Deadline, NotRunningError

logger = logging.getLogger("agent_utilities.graph")

_T = TypeVar("_T")
_AT_ONCE = 8
_MOST_FAILURES = 3
"""So many in a row, and the graph is left alone for a while; then it is tried by one request."""
_ALONE_S = 5.0
"""Longer than a statement and a probe may take, so that one request at a time tries."""


class GraphReader:
    """Reads from a graph; what matches is remembered."""

    def __init__(self, graph: ToolGraph, memo: Memo, limits: Limits, clock: Callable[[], float], fallback: str) -> None:
        self.cause: Cause | None = "being filled"
        """Why the graph does not answer, or None while it does."""
        self._graph, self._memo, self._limits, self._clock = graph, memo, limits, clock
        self._fallback = fallback
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._n_succeeded = self._n_failures = 0
        self._alone_until = 0.0

    async def matches(
        self, key: Key, read: Callable[[], Coroutine[Any, Any, Matches]], deadline: Deadline
    ) -> Matches | GraphError:
        """Return what matches, from memory where it was asked before; never fails, never waits past the deadline."""
        try:
            return await self._memo.find(key, lambda: self.ask(read, key), deadline)
        except TimeoutError:
            return GraphError("too slow", "no answer within the deadline")
        except NotRunningError:
            return GraphError("being filled", "not running")

    async def ask(self, read: Callable[[], Awaitable[_T]], key: Key | None = None) -> _T | GraphError:
        """Return what some statements bring, or why they bring nothing; never fails."""
        try:
            async with asyncio.timeout(self._limits.statement_s):
                await self._places.acquire()
        except TimeoutError:
            return GraphError("busy", f"{_AT_ONCE} other queries took {self._limits.statement_s} s")
        n_before = self._n_succeeded
        try:
            if self._is_left_alone():
                return GraphError(self.cause or "failed", "left alone for a while after repeated failures")
            async with asyncio.timeout(self._limits.statement_s):
                found = await read()
        except TimeoutError:
            return await self._timed_out(key, n_before)
        except Exception as error:
            return self.failed(error if isinstance(error, GraphError) else GraphError("failed", error))
        finally:
            self._places.release()
        self.succeeded()
        if key is not None:
            self._memo.keep(key, found)
        return found

    async def _timed_out(self, key: Key | None, n_before: int) -> GraphError:
        """Tell a query that is too much for the graph, and is left alone, from a graph that does not answer.

        Args:
            key: of the query.
            n_before: how many statements had been answered when it was asked; where others were meanwhile, the graph
                has only been away for a moment.
        """
        error = GraphError("too slow", f"no answer within {self._limits.statement_s} s")
        try:
            async with asyncio.timeout(self._limits.probe_s):
                await self._graph.read("RETURN 1 AS one", {})
        except Exception:  # whatever a driver raises once its statement was cut short
            return error if self._n_succeeded > n_before else self.failed(error)
        self._n_failures = 0
        if key is not None:
            self._memo.keep(key, error)
        return error

    def _is_left_alone(self) -> bool:
        """Whether the graph is not to be asked now; where it is, after failures, nobody else asks for a while."""
        if self._n_failures < _MOST_FAILURES:
            return False
        now_s = self._clock()
        if now_s < self._alone_until:
            return True
        self._alone_until = now_s + _ALONE_S
        return False

    def failed(self, error: GraphError) -> GraphError:
        """Note a failure, and return it."""
        self._n_failures += 1
        if self._n_failures >= _MOST_FAILURES:
            self._alone_until = self._clock() + _ALONE_S
        if self.cause in (None, "being filled"):
            logger.warning("%s; %s until it answers", error, self._fallback)
        self.cause = error.cause
        return error

    def succeeded(self) -> None:
        """Note that the graph answers."""
        self._n_succeeded += 1
        self._n_failures = 0
        if self.cause is not None:
            logger.info("graph answers (%s)", self._graph.backend)
        self.cause = None
