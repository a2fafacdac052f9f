"""Graceful shutdown: requests are answered, then the transport ends; and background jobs that end with the server."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import anyio
import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from agent_utilities.runtime.waiting import guarded, is_failure

logger = logging.getLogger("agent_utilities.stopping")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_FINISH_S = 1.0
"""Seconds that requests under way have to finish, and then again to react to their cancellation."""
_FLUSH_S = 0.1
"""Seconds for the last answers to reach the socket from their streams."""
_LEAVE_S = 3.0
"""Seconds that the process has to end by itself when nothing is served any more."""
_MESSAGE = "the server is stopping and did not finish this request; part of it may have been done, so look before you "
_MESSAGE += "ask again, or ask another server"

_Handler = Callable[[int, FrameType | None], Any]


@dataclass(frozen=True, eq=False)
class _Request:
    """A request under way.

    Args:
        settled: set once it is done, or not waited for any more.
        scope: the cancel scope it runs in. Its cancellation reaches a tool's thread too, a task's does not.
        waiting: the task that answers it.
    """

    settled: asyncio.Event
    scope: anyio.CancelScope
    waiting: asyncio.Task[Any] | None

    async def served(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        with self.scope:
            try:
                return await call_next(ctx)
            except BaseException as error:
                if isinstance(error, Exception) or not is_failure(error):
                    raise
                raise RuntimeError(f"what served the request raised {error!r}") from error  # it ends nothing else
        raise asyncio.CancelledError


class Stopping:
    """SDK middleware: answers every request before a signal ends the server, if only with an error.

    Each request runs in a task of its own, so that it can be answered while a tool's thread goes on, or while the tool
    ignores its cancellation.
    """

    def __init__(self, close_streams: Callable[[], None]) -> None:
        self.begun = asyncio.Event()
        """Set when the server begins to stop: requests under way have a second to finish, further ones are refused."""
        self.drain_s = 0.0
        """Seconds to go on serving after SIGTERM, so that load balancers see `/ready` fail and go elsewhere."""
        self.is_draining = False
        """Whether a signal has come; from then on `/ready` fails."""
        self.signal: int | None = None
        """The signal that has come."""
        self.end_input: Callable[[], None] | None = None
        """Ends the input of a server over stdio, which may be read in a thread; the server then ends."""
        self._close_streams = close_streams
        self._requests: dict[asyncio.Task[HandlerResult], _Request] = {}
        self._unfinished: set[asyncio.Task[HandlerResult]] = set()
        self._ending: asyncio.Task[None] | None = None

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method == "initialize":  # which the SDK serves in the session's own task
            return await call_next(ctx)
        if self.begun.is_set():
            raise _error()
        one = _Request(asyncio.Event(), anyio.CancelScope(), asyncio.current_task())
        request = asyncio.create_task(one.served(ctx, call_next))
        self._requests[request] = one
        request.add_done_callback(self._forget)
        try:
            await one.settled.wait()
        except asyncio.CancelledError:
            one.scope.cancel()
            with anyio.CancelScope(shield=True):
                await one.settled.wait()
            raise
        if request in self._unfinished:
            raise _error()
        return request.result()

    def _forget(self, request: asyncio.Task[HandlerResult]) -> None:
        if not request.cancelled():
            request.exception()  # retrieved, so that asyncio does not log it as never retrieved
        self._requests.pop(request).settled.set()

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Answer requests on SIGTERM and Ctrl-C before their present handlers run; a second signal runs those at once.

        Where a time to drain is set, SIGTERM waits for its end, and a second signal does not. Nothing changes off the
        main thread, on Windows, and for a signal without a handler.
        """
        if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        before: dict[int, _Handler] = {
            number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))
        }

        def heed(number: int, frame: FrameType | None) -> None:
            is_first, self.is_draining = not self.is_draining, True
            if is_first and self.drain_s and number == signal.SIGTERM:
                loop.call_soon_threadsafe(self._drain, partial(end, number, frame))
            else:
                end(number, frame)

        def end(number: int, frame: FrameType | None) -> None:
            if signal.getsignal(number) is not heed:  # a second signal was sooner
                return
            restore()
            then = self.end_input or partial(before[number], number, frame)
            loop.call_soon_threadsafe(self._stop, number, then)

        def restore() -> None:
            for number, handler in before.items():
                if signal.getsignal(number) is heed:
                    loop.remove_signal_handler(number)
                    signal.signal(number, handler)

        for number in before:
            loop.add_signal_handler(number, lambda: None)  # has the signal wake the loop, whichever thread it comes to
            signal.signal(number, heed)
        try:
            yield
        finally:
            restore()

    def _drain(self, then: Callable[[], None]) -> None:
        logger.info("stopping in %g s; requests are answered until then", self.drain_s)
        asyncio.get_running_loop().call_later(self.drain_s, then)

    def _stop(self, number: int, then: Callable[[], object]) -> None:
        self.signal = number
        self.begun.set()
        self._close_streams()
        if self._requests:
            self._ending = asyncio.get_running_loop().create_task(self._answer(then))
        else:
            then()

    async def _answer(self, then: Callable[[], object]) -> None:
        """Answer the requests under way, in little more than two seconds, then run the signal's handler."""
        answering = [one.waiting for one in self._requests.values() if one.waiting is not None]
        _, self._unfinished = await asyncio.wait(list(self._requests), timeout=_FINISH_S)
        if self._unfinished:
            logger.warning("stopping: %d requests under way are answered with an error", len(self._unfinished))
        for request in self._unfinished:
            one = self._requests[request]
            one.scope.cancel()
            request.cancel()
            one.settled.set()
        await asyncio.wait([*self._unfinished, *answering], timeout=_FINISH_S)
        await asyncio.sleep(_FLUSH_S)
        then()

    def leave(self) -> None:
        """End the process once a signal has ended all serving, even while a tool's thread goes on.

        Python waits for threads, and an event loop for tasks that ignore their cancellation.
        """
        if self.signal is not None:
            timer = threading.Timer(_LEAVE_S, self._end_process)
            timer.daemon = True
            timer.start()

    def _end_process(self) -> None:
        logger.warning("stopped: a tool goes on with a request and ends with the process")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130 if self.signal == signal.SIGINT else 0)


def _error() -> MCPError:
    return MCPError(mcp_types.CONNECTION_CLOSED, _MESSAGE, {"reason": "stopping"})


Job = Callable[[], Awaitable[None]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


async def _done(job: Job) -> None:
    await job()  # in its own task, as far as it runs before it is awaited too


def with_background(jobs: Callable[[], Sequence[Job]], lifespan: Lifespan | None) -> Lifespan:
    """Return a lifespan that runs jobs beside the author's own lifespan, and has its result.

    The group is asyncio's: FastMCP tears lifespans down under a shield of its own, which anyio's groups, whose scopes
    must nest, can't straddle.

    Args:
        jobs: returns the jobs when the lifespan is entered. Each runs until the server stops and is then cancelled; a
            failure is logged and does not stop the server.
    """

    @asynccontextmanager
    async def combined(server: Any) -> AsyncIterator[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guarded(_done(job))) for job in jobs()]
            try:
                async with lifespan(server) if lifespan else nullcontext({}) as result:
                    yield result
            finally:
                for task in tasks:
                    task.cancel()

    return combined


def calm_collector() -> None:
    """Make garbage collection pauses short, once a serving process has loaded what it needs.

    A full collection walks every object and blocks the event loop for tens of milliseconds (law L7). The present
    objects are frozen, and not walked again; old ones that come later are walked a tenth as often.
    """
    gc.freeze()
    gc.set_threshold(700, 10, 100)
