"""Running the scripts that install what capabilities require, one at a time, and nothing of them left behind."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from agent_utilities.capabilities.requirements import Requirement
from agent_utilities.runtime.waiting import Deadline, SingleFlight, in_daemon_thread
from agent_utilities.upstream.processes.process import ProcessGuard, StderrPump, UpstreamProcess
from agent_utilities.upstream.processes.program import CommandError, find_program, passed_on, search_folders
from agent_utilities.upstream.processes.stderr_log import readable

LIMIT_S = 600.0
"""Seconds that an installer may take."""
KEPT_LINES = 20
"""Lines that are kept of its output, and the most that are told of one piece of it."""
MAX_TOLD_LINES = 1000
"""Lines that are told in all."""
MAX_LINE_CHARACTERS = 300
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARACTERS
# Both of its outputs go one way, so that their lines keep their order; the script's path is an argument, not shell.
_RUN = 'exec "$0" "$1" </dev/null >&2'
_ASKS_NOTHING = {"DEBIAN_FRONTEND": "noninteractive", "NONINTERACTIVE": "1"}
"""Variables by which apt and Homebrew are told that nobody answers."""

OnLine = Callable[[str], None]
"""Takes a line of an installer's output."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What came of an installer.

    Args:
        ok: whether it exited with status 0.
        code: its exit status, negative for a signal; None where it was ended by us, or never ran.
        lines: the last lines of its output, oldest first.
        why: how it ended, for a person; empty where it ended well.
    """

    ok: bool
    code: int | None
    lines: tuple[str, ...] = ()
    why: str = ""


def program_path(environ: Mapping[str, str]) -> str:
    """Return the folders that an upstream's program is looked for in, as in `PATH`.

    Args:
        environ: our environment.
    """
    return os.pathsep.join(map(str, search_folders(environ.get("PATH", ""), _home(environ))))


async def install(
    requirement: Requirement,
    *,
    environ: Mapping[str, str],
    guard: ProcessGuard,
    on_line: OnLine,
    limit_s: float = LIMIT_S,
) -> Installed:
    """Run a requirement's script by bash, and return what came of it; it can't ask anything, and has no secret of ours.

    It runs in a session of its own. Whatever it has started has ended when this returns or is cancelled; where the
    gateway is killed, the guard ends it.

    Args:
        requirement: what is installed; it has a script.
        environ: our environment, of which what upstreams get is passed on.
        guard: ends it where we can't.
        on_line: told the lines of its output, at most `MAX_TOLD_LINES`; it must not raise.
        limit_s: seconds after which it is ended.
    """
    try:
        process = await _start(requirement, environ, guard)
    except (CommandError, OSError, ValueError) as error:
        return Installed(False, None, (), f"its installer could not be started: {error}")
    output = _Output(on_line)
    pump = StderrPump(process, output.feed)
    try:
        async with asyncio.timeout(limit_s):
            await process.exited.wait()
    except TimeoutError:
        return Installed(False, None, tuple(output.last), f"its installer was ended after {limit_s:g} s")
    finally:
        await _end(process, pump)
        output.end()
    ok = process.exit_status == 0
    return Installed(ok, process.exit_status, tuple(output.last), "" if ok else f"its installer {process.exit_text}")


async def _start(requirement: Requirement, environ: Mapping[str, str], guard: ProcessGuard) -> UpstreamProcess:
    script, marker, home = requirement.script, guard.next_marker(), _home(environ)
    if script is None:
        raise ValueError(requirement.problem or "it has no script")

    def prepare() -> tuple[str, str]:
        guard.start()
        path = program_path(environ)
        return str(find_program("bash", path=path, folder=home, home=home)), path

    bash, path = await in_daemon_thread(prepare)
    env = {**passed_on(environ), **_ASKS_NOTHING, "PATH": path, **guard.variables(marker, environ)}
    return await UpstreamProcess.start(bash, ["-c", _RUN, bash, str(script)], env=env, folder=home, marker=marker)


async def _end(process: UpstreamProcess, pump: StderrPump) -> None:
    """End a process with all that it started, whoever is cancelled meanwhile."""
    try:
        with suppress(OSError):  # not reaped yet, so that the group is nobody else's
            os.killpg(process.pid, signal.SIGTERM)
        with anyio.CancelScope(shield=True):
            await process.end()
            await pump.finish()
    finally:
        pump.close()
        process.close()


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


class _Output:
    """The lines of an output, told as they come: of a flood only some, of a long line only its beginning."""

    def __init__(self, on_line: OnLine) -> None:
        self.last: deque[str] = deque(maxlen=KEPT_LINES)
        self._on_line, self._n_told = on_line, 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take what was read, in whatever pieces."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_MAX_LINE_BYTES]
        for line in lines[-KEPT_LINES:]:
            self._tell(line)

    def end(self) -> None:
        """Take what was read last for a line, though it has no end."""
        rest, self._rest = self._rest, b""
        self._tell(rest)

    def _tell(self, line: bytes) -> None:
        if not (text := readable(line[:_MAX_LINE_BYTES])[:MAX_LINE_CHARACTERS].strip()):
            return
        self.last.append(text)
        self._n_told += 1
        if self._n_told <= MAX_TOLD_LINES:
            self._on_line(text)


logger = logging.getLogger("agent_utilities.gateway")

_WAIT_S = 24 * 3600.0
"""Seconds that a caller waits at most: each installer before his has its own limit."""


class Installs:
    """Runs installers, one at a time: package managers lock each other out.

    Args:
        environ: our environment.
        limit_s: seconds that each may take.
    """

    def __init__(self, environ: Mapping[str, str], limit_s: float = LIMIT_S) -> None:
        self._environ, self._limit_s = environ, limit_s
        self._flights: SingleFlight[Requirement, Installed] = SingleFlight()
        self._waiting: dict[Requirement, _Waiting] = {}
        self._turn = asyncio.Lock()

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Take installs until cancelled; whatever runs then is ended with all that it started.

        Args:
            started: set once installs are taken.
        """
        async with ProcessGuard() as guard, asyncio.TaskGroup() as group:
            self._guard, self._flights.group = guard, group
            if started is not None:
                started.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._flights.group = None

    async def install(self, requirement: Requirement, on_line: OnLine) -> Installed:
        """Return what comes of a requirement's installer, which runs for all who ask meanwhile.

        It is ended where all who wait for it are cancelled.

        Args:
            requirement: what is installed.
            on_line: told the lines of its output from now on.

        Raises:
            NotRunningError: nothing is installed yet, or any more.
        """
        while True:
            if requirement not in self._flights:
                self._waiting[requirement] = _Waiting()
            waiting = self._waiting[requirement]
            call = partial(self._run_one, requirement, waiting)
            waiting.listeners.append(on_line)
            try:
                installed = await self._flights.join(requirement, call, Deadline.after(_WAIT_S))
            finally:
                waiting.left(on_line)
            if not waiting.is_abandoned:  # one that is being ended since nobody waited any more is not ours
                return installed

    async def _run_one(self, requirement: Requirement, waiting: _Waiting) -> Installed:
        installed = Installed(False, None, (), "its installer was ended: nobody waited for it")
        try:
            with waiting.scope:
                if self._turn.locked():
                    waiting.tell("waiting for another installer to end")
                async with self._turn:
                    logger.info("installing %s by %s", requirement.name, requirement.script)
                    installed = await install(
                        requirement,
                        environ=self._environ,
                        guard=self._guard,
                        on_line=waiting.tell,
                        limit_s=self._limit_s,
                    )
                    logger.info("installing %s: %s", requirement.name, installed.why or "done")
        except Exception as error:  # a flight must not raise: it would end all others
            logger.exception("installing %s failed", requirement.name)
            installed = Installed(False, None, (), f"its installer could not be run: {type(error).__name__}")
        finally:
            waiting.is_over = True
        return installed


class _Waiting:
    """Who waits for an installer."""

    def __init__(self) -> None:
        self.listeners: list[OnLine] = []
        self.scope = anyio.CancelScope()
        self.is_over = self.is_abandoned = False

    def left(self, on_line: OnLine) -> None:
        """Take note that one no longer waits; the last of them ends the installer, where it still runs."""
        self.listeners.remove(on_line)
        if not self.listeners and not self.is_over:
            self.is_abandoned = True
            self.scope.cancel()

    def tell(self, line: str) -> None:
        """Tell a line to all of them."""
        for on_line in tuple(self.listeners):
            try:
                on_line(line)
            except Exception:
                logger.exception("a line of an installer could not be told")
