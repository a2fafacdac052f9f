"""Runs a program in a worker of `pydantic-monty`: its calls side by side, and outside the worker while it waits.

A program is driven turn by turn. A call is seen as soon as it is made, and answered when it is done; where everything
waits, the program's state is taken and the worker serves another one. Where nothing is left but calls that somebody is
to approve, that state is what remains of it: `Paused`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from agent_utilities.errors import Asked, SettingsError, shortened
from agent_utilities.programs.checking import N_KEPT, Checker
from agent_utilities.programs.program import (
    INSTALL,
    LIMITS,
    LONGEST_ERROR,
    CallError,
    Ended,
    Function,
    Limits,
    Made,
    Paused,
    ProgramError,
    Waiting,
    tail_of,
)

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, AsyncMontySession

logger = logging.getLogger("agent_utilities.programs")

N_WORKERS = 8
"""The most processes that run programs, each of some 10 MB."""
_PARK_AFTER_S = 0.02
"""Seconds for which a waiting program keeps its worker: to take its state and give it back costs half a millisecond."""
_PARKED_BYTES = 4 << 20
"""The largest state that is taken out of a worker while calls are made: of those who keep more, only so many run."""
_ALL_PARKED_BYTES = 64 << 20
"""The most that all states take which are out of their workers; beyond it programs keep theirs, and others wait."""
MEMORY, _N_TURNS, _TURN_S, _CLOSED_S = 256 << 20, 2_000, 30.0, 0.05
_LOST = "the worker that ran it has ended: the program or its values were too much for it"


class Workers:
    """The processes in which programs run; they are started when first needed, and kept."""

    def __init__(self) -> None:
        self._pool: AsyncMonty | None = None
        self._checker: Checker | None = None
        """It has processes of its own, so that programs which keep theirs hold up no check."""
        self._starting = asyncio.Lock()
        self.n_running = self.parked_bytes = 0

    async def pool(self) -> AsyncMonty:
        """Return the pool.

        Raises:
            SettingsError: the library is not installed.
        """
        async with self._starting:  # of two first programs, the workers of one would be ended by nobody
            if self._pool is None:
                self._pool = await _started(N_WORKERS)
            return self._pool

    async def checker(self) -> Checker:
        """Return what checks programs; raises what `pool` does."""
        async with self._starting:
            if self._checker is None:
                self._checker = Checker(await _started(N_KEPT + 1))
            return self._checker

    @asynccontextmanager
    async def session(self, limits: Limits) -> AsyncIterator[AsyncMontySession]:
        """Give a worker to one program for a `with` block; wait where all are busy."""
        memory_and_time: Any = {
            "max_feed_duration_secs": limits.own_s,
            "max_memory": MEMORY,
            "max_suspensions": _N_TURNS,
        }
        async with (await self.pool()).checkout(limits=memory_and_time) as session:
            yield session

    async def close(self) -> None:
        """End the processes."""
        pools = [] if self._pool is None else [self._pool]
        if self._checker is not None:
            await self._checker.close()
            pools.append(self._checker.pool)
        self._pool, self._checker, self._starting = None, None, asyncio.Lock()  # a next start may be in another loop
        for pool in pools:
            await pool.__aexit__(None, None, None)
        if pools:
            await asyncio.sleep(_CLOSED_S)  # its threads end by themselves; before they have, Python can't exit


async def _started(n_most: int) -> AsyncMonty:
    try:
        from pydantic_monty import AsyncMonty
    except ImportError:
        raise SettingsError("programs need pydantic-monty", "", "programs", INSTALL) from None
    return await AsyncMonty(min_processes=1, max_processes=n_most, request_timeout=_TURN_S).__aenter__()


async def run(
    workers: Workers,
    code: str,
    functions: Mapping[str, Function],
    limits: Limits = LIMITS,
    program: str = "",
    paused: Paused | None = None,
) -> Ended | Paused:
    """Run a program, or go on with one that was paused.

    Args:
        functions: the tools that exist for it, by the names that it calls them by.
        program: its id.

    Raises:
        ProgramError: it failed, or is over a limit; what it had under way is cancelled.
    """
    running = _Running(workers, functions, limits, program, paused)
    workers.n_running += 1
    try:
        return await running.run(code, paused)
    finally:
        workers.n_running -= 1


@dataclass
class _Running:
    """One program while it runs."""

    workers: Workers
    functions: Mapping[str, Function]
    limits: Limits
    program: str
    paused: Paused | None
    made: list[Made] = field(init=False)
    tasks: dict[asyncio.Task[Any], int] = field(init=False, default_factory=dict)
    asked: dict[int, Waiting] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        before = self.paused
        self.made = list(before.made) if before is not None else []
        self.printed = [before.printed] if before is not None else []
        self.n_printed = sum(map(len, self.printed))
        self.data_bytes = before.data_bytes if before is not None else 0
        self.wall_s = before.wall_s if before is not None else 0.0
        self.turn, self.n_turns, self.held_s = asyncio.Semaphore(self.limits.calls_at_once), 0, 0.0

    async def run(self, code: str, paused: Paused | None) -> Ended | Paused:
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

        began_s = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self.limits.wall_s - self.wall_s)):
                outcome = await self._turns(code, paused)
            if isinstance(outcome, bytes):
                wall_s = self.wall_s + time.monotonic() - began_s
                printed, names = "".join(self.printed), {name: each.tool for name, each in self.functions.items()}
                return Paused(outcome, self.asked, self.made, printed, wall_s, self.data_bytes, self.program, names)
            return Ended(self._value(outcome[0]), "".join(self.printed), self.made)
        except TimeoutError:
            raise self._failed(f"it took longer than {self.limits.wall_s:g} s") from None
        except MontySyntaxError as error:
            raise self._failed(error.display("traceback")) from None
        except MontyRuntimeError as error:
            raise self._failed(tail_of(error.display("traceback"))) from None
        except MontyCrashedError:
            raise self._failed(_LOST) from None
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def _failed(self, what: str) -> ProgramError:
        return ProgramError(f"the program ended with an error: {what}", self.made, "".join(self.printed))

    def _value(self, value: Any) -> str | None:
        """Return the value of a program as it is told.

        Raises:
            ProgramError: JSON has nothing for it, or it is too long.
        """
        if value is None:
            return None
        try:
            text = value.encode() if isinstance(value, str) else to_json(value, fallback=str, inf_nan_mode="constants")
        except ValueError as error:
            raise self._failed(f"its value can't be given as JSON: {error}") from None
        if len(text) > self.limits.data_bytes:
            most = f"{self.limits.data_bytes:,} bytes that it may have"
            raise self._failed(f"its value of {len(text):,} bytes is beyond the {most}; give back less of it")
        return text.decode()

    # -- turns -------------------------------------------------------------------------------------------------------

    async def _turns(self, code: str, paused: Paused | None) -> bytes | tuple[Any]:
        """Return a program's value, or the state that it is paused in."""
        state, answers = None if paused is None else paused.state, dict[int, Any]()
        for number, each in (paused.waiting if paused is not None else {}).items():
            self._begin(number, each)
        if paused is not None:
            answers = await self._settled()
        while True:
            if state is not None and not answers:
                return state
            async with self.workers.session(self.limits) as session:
                if state is None:
                    inputs = {name: _named(name) for name in self.functions}
                    snapshot: Any = await session.feed_start(code, inputs=inputs, print_callback=self._print)
                else:
                    snapshot = await session.load_snapshot(state, print_callback=self._print)
                    snapshot = await self._resumed(snapshot, answers)
                outcome = await self._until_parked(snapshot)
            if not isinstance(outcome, bytes):
                return outcome
            self.workers.parked_bytes += len(outcome)
            try:
                state, answers = outcome, await self._settled()
            finally:
                self.workers.parked_bytes -= len(outcome)

    async def _until_parked(self, snapshot: Any) -> bytes | tuple[Any]:
        """Answer a program turn by turn until it ends, or only waits."""
        from pydantic_monty import AsyncFunctionSnapshot, AsyncFutureSnapshot, MontyComplete

        while not isinstance(snapshot, MontyComplete):
            self.n_turns += 1
            if self.n_turns > _N_TURNS:
                raise self._failed(f"it stopped more than {_N_TURNS:,} times to sleep, call or wait")
            if isinstance(snapshot, AsyncFunctionSnapshot):
                snapshot = await self._called(snapshot)
            elif isinstance(snapshot, AsyncFutureSnapshot):
                if not (answers := await self._settled(_PARK_AFTER_S)):
                    state: bytes = snapshot.dump()
                    room = _ALL_PARKED_BYTES - self.workers.parked_bytes
                    if len(state) <= min(_PARKED_BYTES, room) or not (answers := await self._settled()):
                        return state
                snapshot = await self._resumed(snapshot, answers)
            else:  # a name that is not there
                snapshot = await snapshot.resume()
        return (snapshot.output,)

    async def _called(self, snapshot: Any) -> Any:
        """Begin a call that a program makes; its answer follows once everything waits."""
        name = snapshot.function_name
        if snapshot.is_os_function:
            return await self._of_system(snapshot, name, snapshot.args)
        if name not in self.functions:
            error: Any = {"exc_type": "NameError", "message": f"name {shortened(repr(name))} is not defined"}
            return await snapshot.resume(error)
        if len(self.made) >= self.limits.calls:
            raise self._failed(f"it made more than {self.limits.calls} calls")
        try:
            args, kwargs = self._given(snapshot)
        except (ValueError, RecursionError) as error:  # as where a key is no text, or bytes are
            return await snapshot.resume(_error(f"{name}: its arguments can't be given as JSON: {error}"))
        function = self.functions[name]
        arguments = shortened(json.dumps(kwargs, ensure_ascii=False))
        self.made.append(Made(function.tool, arguments, function.writes))
        self._begin(snapshot.call_id, Waiting(name, args, kwargs, len(self.made) - 1))
        return await snapshot.resume({"future": ...})

    def _given(self, snapshot: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call as JSON has them.

        Raises:
            ValueError: JSON has nothing for one, or they are too long.
        """
        text = to_json([snapshot.args, snapshot.kwargs], inf_nan_mode="constants")
        if len(text) > self.limits.data_bytes:
            raise ValueError(f"{len(text):,} bytes, of at most {self.limits.data_bytes:,}")
        args, kwargs = json.loads(text)
        return tuple(args), kwargs

    async def _of_system(self, snapshot: Any, name: str, args: tuple[Any, ...]) -> Any:
        """Wait where a program sleeps; refuse what else it wants of the system."""
        seconds = min(float(args[0]), self.limits.wall_s) if args and isinstance(args[0], int | float) else 0.0
        if name.endswith("async_sleep"):
            self.tasks[asyncio.ensure_future(_slept(seconds))] = snapshot.call_id
            return await snapshot.resume({"future": ...})
        if name.endswith("sleep"):  # it holds a worker, as what computes does
            self.held_s += seconds
            if self.held_s > self.limits.own_s:
                return await snapshot.resume(_error("time.sleep is over its time: use `await asyncio.sleep`"))
            await asyncio.sleep(seconds)
            return await snapshot.resume({"return_value": None})
        return await snapshot.resume_not_handled()

    async def _resumed(self, snapshot: Any, answers: Mapping[int, Any]) -> Any:
        """Give a program what its calls came to; what can't be given to it fails there."""
        from pydantic_monty import MontyRuntimeError

        try:
            return await snapshot.resume(answers)
        except MontyRuntimeError as error:
            failed = {"exc_type": "RuntimeError", "message": f"a result can't be given to a program: {error}"[:500]}
            try:
                return await snapshot.resume(dict.fromkeys(answers, failed))
            except RuntimeError:  # it was given, and the program has failed by it
                raise error from None

    # -- calls -------------------------------------------------------------------------------------------------------

    def _begin(self, number: int, call: Waiting) -> None:
        self.tasks[asyncio.ensure_future(self._call(number, call))] = number

    async def _call(self, number: int, call: Waiting) -> Any:
        """Return what a call came to, as the interpreter takes it; None where it waits for somebody's approval."""
        name, made = call.name, self.made[call.place]
        if (function := self.functions.get(name)) is None:  # it may be used no more since the program waits
            made.outcome = "failed"
            return {"exc_type": "NameError", "message": f"name {name!r} is not defined"}
        async with self.turn:
            made.outcome = "unknown"
            try:
                value, n_bytes = await function.call(call.args, call.kwargs)
            except Asked as asked:
                if asked.question is None:
                    made.outcome = "failed"
                    return _error(f"{name}: it asks its caller something, which no program can take: call it by itself")
                made.outcome = "asked"
                self.asked[number] = replace(call, question=str(asked.question))
                return None
            except CallError as error:
                made.outcome = "failed"
                return _error(f"{name}: {error}")
            except Exception:
                logger.exception("a call of %r that a program made failed, and whether it was made is not known", name)
                return _error(f"{name}: it failed, and may have been made")
            made.outcome = "ok"
        if self.data_bytes + n_bytes > self.limits.data_bytes:
            most = f"{self.limits.data_bytes:,} bytes that results bring into a program"
            return _error(f"{name}: its result of {n_bytes:,} bytes is beyond the {most}; ask for less of it")
        self.data_bytes += n_bytes
        return {"return_value": value}

    async def _settled(self, within_s: float | None = None) -> dict[int, Any]:
        """Return what calls came to since the last time; empty where none did in time, or the rest are asked."""
        answers: dict[int, Any] = {}
        while self.tasks and not answers:
            done, _ = await asyncio.wait(self.tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            came_to = {self.tasks.pop(task): task.result() for task in done}
            answers = {number: answer for number, answer in came_to.items() if answer is not None}
        return answers

    def _print(self, stream: str, text: str) -> None:
        """Keep what a program prints; it ends where that is too much. Called in a thread of the interpreter's."""
        self.n_printed += len(text)
        if self.n_printed > self.limits.printed_bytes:
            raise ValueError(f"it printed more than {self.limits.printed_bytes:,} characters")
        self.printed.append(text)


async def _slept(seconds: float) -> Any:
    await asyncio.sleep(max(0.0, seconds))
    return {"return_value": None}


def _error(message: str) -> Any:
    text = message[:LONGEST_ERROR].encode("utf-8", "replace").decode()
    return {"exc_type": "RuntimeError", "message": text}


def _named(name: str) -> Callable[[], None]:
    """Return a function by whose name the interpreter tells us of a call."""

    def function() -> None: ...

    function.__name__ = name
    return function
