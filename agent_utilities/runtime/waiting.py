"""Waiting: deadlines, single flight, work in turns with the event loop or in threads, and background jobs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

from agent_utilities.errors import AgentUtilitiesError


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a caller's waiting, by the loop's clock; all work for that caller shares it, so waits never add up."""

    until: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(asyncio.get_running_loop().time() + seconds)

    @property
    def left_s(self) -> float:
        """The seconds that are left, never below 0."""
        return max(0.0, self.until - asyncio.get_running_loop().time())

    def share(self, fraction: float, *, least_s: float = 0.0) -> Deadline:
        """Return the deadline of a step that may take a share, 0 to 1, of the time that is left."""
        return Deadline.after(max(least_s, fraction * self.left_s))

    def timeout(self) -> asyncio.Timeout:
        """Return a context that raises `TimeoutError` at this deadline."""
        return asyncio.timeout_at(self.until)

    async def wait(self, event: asyncio.Event) -> bool:
        """Wait for an event until the deadline; return whether it is set."""
        return event.is_set() or await is_set(event, within_s=self.left_s)


_K = TypeVar("_K")
_V = TypeVar("_V")


class NotRunningError(AgentUtilitiesError, RuntimeError):
    """The service has not started, or is stopping."""


class SingleFlight(Generic[_K, _V]):
    """Runs one call for each key at a time, and returns its result to all who wait for it.

    A flight belongs to the task group: it goes on when its waiters give up, so that its result may still be cached. The
    calls must not raise, since that would end the whole group.
    """

    def __init__(self) -> None:
        self.group: asyncio.TaskGroup | None = None
        """The owner of the flights; set while the service runs."""
        self._flights: dict[_K, asyncio.Task[_V]] = {}

    async def join(self, key: _K, call: Callable[[], Coroutine[Any, Any, _V]], deadline: Deadline | None) -> _V:
        """Return the result of the flight for a key, which is started where none is under way.

        Raises:
            TimeoutError: the deadline passed; the flight goes on.
            NotRunningError: there is no task group, or it cancelled the flight.
        """
        flight = self._flights.get(key)
        if flight is None:
            if self.group is None:
                raise NotRunningError("not running")
            flight = self._flights[key] = self.group.create_task(call())
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        done, _ = await asyncio.wait([flight], timeout=None if deadline is None else deadline.left_s)
        if not done:
            raise TimeoutError
        if flight.cancelled():
            raise NotRunningError("stopping")
        return flight.result()


_T = TypeVar("_T")

_TURN_S = 0.002


async def in_turns(items: Iterable[_T] | AsyncIterable[_T]) -> AsyncIterator[_T]:
    """Yield items, and let the event loop turn every 2 ms; the work on one item must be short."""
    until = time.perf_counter() + _TURN_S
    async for item in items if isinstance(items, AsyncIterable) else _each(items):
        yield item
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + _TURN_S


async def finish_in_turns(steps: Generator[None, None, _T]) -> _T:
    """Return the result of work that yields after each short step; the event loop turns every 2 ms."""
    results: list[_T] = []

    def each_step() -> Generator[None]:
        results.append((yield from steps))

    async for _ in in_turns(each_step()):
        pass
    return results[0]


async def _each(items: Iterable[_T]) -> AsyncIterator[_T]:
    for item in items:
        yield item


async def ended(task: asyncio.Task[Any], within_s: float) -> bool:
    """Wait for a task without cancelling it, and return whether it has ended; our own cancellation waits for it too."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < until_s:
        try:
            await asyncio.wait([task], timeout=until_s - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    if task.done() and not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn
    if cancelled is not None:
        raise cancelled
    return task.done()


async def is_set(event: asyncio.Event, within_s: float | None) -> bool:
    """Wait for an event, and return whether it was set within so many seconds; None waits for ever."""
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, Any], wake: asyncio.Event | None = None) -> AsyncIterator[None]:
    """Run work beside the block, and cancel it at the block's end; `wake` is set when the work ends."""
    task = asyncio.create_task(work)
    if wake is not None:
        task.add_done_callback(lambda _: wake.set())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def in_daemon_thread(call: Callable[[], _T]) -> _T:
    """Run a call in a thread that does not keep the process from ending, and return its result."""
    return await asyncio.wrap_future(start_in_daemon_thread(call))


def start_in_daemon_thread(call: Callable[[], _T]) -> Future[_T]:
    """Start a call in such a thread; its future can't be cancelled, and belongs to no event loop."""
    done: Future[_T] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="index", daemon=True).start()
    return done


def run_async(function: Callable[..., Awaitable[Any]], *args: object) -> Any:
    """Run an asynchronous function, on uvloop where it is installed; anyio alone would take Python's own loop."""
    import anyio

    return anyio.run(function, *args, backend_options={"use_uvloop": find_spec("uvloop") is not None})


class Job:
    """Background work: one run at a time, once more where it is wanted meanwhile, retried until it succeeds.

    Args:
        on_failure: gets each failure, and how many came before it in a row.
        retry_s: pauses in seconds after failures in a row; the last one for all that follow.
        gap_s: seconds between the starts of two runs, except the first two.
        limit_s: the most seconds of one run; None for any number.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[None]],
        on_failure: Callable[[Exception, int], None],
        retry_s: Sequence[float],
        *,
        gap_s: float = 0.0,
        limit_s: float | None = None,
    ) -> None:
        self._work, self._on_failure, self._retry_s = work, on_failure, retry_s
        self._gap_s, self._limit_s = gap_s, limit_s
        self._wanted, self._hurried = asyncio.Event(), asyncio.Event()
        self.is_idle = True
        """Whether no run is under way, wanted, or to be retried."""
        self.first_try_done = asyncio.Event()
        """Set once a run has succeeded or failed."""
        self.settled = asyncio.Event()
        """Set while every wanted run was tried."""
        self.settled.set()

    def want(self, *, hurry: bool = False) -> None:
        """Request a run without waiting for it; `hurry` skips the pause after a failure."""
        self.is_idle = False
        self.settled.clear()
        self._wanted.set()
        if hurry:
            self._hurried.set()

    async def run(self) -> None:
        """Do the wanted runs, until cancelled."""
        now_s = asyncio.get_running_loop().time
        next_s, n_runs, n_failures = 0.0, 0, 0
        while True:
            await self._wanted.wait()
            await asyncio.sleep(next_s - now_s())
            self._wanted.clear()
            self._hurried.clear()
            if n_runs:
                next_s = now_s() + self._gap_s
            n_runs += 1
            try:
                async with asyncio.timeout(self._limit_s):
                    await self._work()
                n_failures = 0
            except Exception as error:
                self._on_failure(error, n_failures)
                self._tried()
                await is_set(self._hurried, within_s=self._retry_s[min(n_failures, len(self._retry_s) - 1)])
                n_failures += 1
                self._wanted.set()
            else:
                self._tried()
                self.is_idle = not self._wanted.is_set()

    def _tried(self) -> None:
        self.first_try_done.set()
        if not self._wanted.is_set():
            self.settled.set()


_features_logger = logging.getLogger("agent_utilities.features")
_jobs_logger = logging.getLogger("agent_utilities.lifespan")


def is_failure(error: BaseException) -> bool:
    """Whether what a part raised fails that part alone: all but Ctrl-C, a closed coroutine, and our own cancellation.

    Libraries raise more than `Exception`: `SystemExit`, Rust's panics, the cancellation of a task that they awaited.
    """
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs
            task = None
        return task is None or not task.cancelling()
    return not isinstance(error, KeyboardInterrupt | GeneratorExit)


class left_out:
    """Log a failure of a feature in a block, which goes on without what it would have answered.

    A class, since each list and call enters several: a generator takes several times as long.
    """

    __slots__ = ("_feature",)

    def __init__(self, feature: object) -> None:
        self._feature = feature

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if error is None or not is_failure(error):
            return False
        name = getattr(self._feature, "name", "") or type(self._feature).__name__
        _features_logger.error("%s is left out of this request: it failed", name, exc_info=error)
        return True


async def guarded(work: Awaitable[None]) -> None:
    """Do some work; a failure of it is logged, and fails nothing else."""
    try:
        await work
    except BaseException as error:
        if not is_failure(error):
            raise
        _jobs_logger.exception("work beside requests failed; the server goes on without it")
