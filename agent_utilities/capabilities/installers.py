"""What capabilities need to have installed, on a gateway: looked for, and installed where its operator allows that."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio

from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.requirements import Requirement, read_requirement
from agent_utilities.runtime.waiting import ended, in_daemon_thread
from agent_utilities.upstream.processes.process import ProcessGuard, UpstreamProcess
from agent_utilities.upstream.processes.program import find_program, passed_on, search_folders
from agent_utilities.upstream.processes.stderr_log import readable

logger = logging.getLogger("agent_utilities.gateway")

LIMIT_S = 600.0
"""Seconds that an installer may take."""
RETRY_S = 60.0
"""Seconds before an installer that failed is run again."""
CHECK_S = 5.0
"""Seconds that looking may take, on a disk that hangs."""
KEPT_LINES = 20
"""The most lines that are told of one piece of an installer's output."""
MAX_TOLD_LINES = 1000
"""Lines that are told in all."""
MAX_LINE_CHARACTERS = 300
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARACTERS
# Both of its outputs go one way, so that their lines keep their order; the script's path is an argument, not shell.
_RUN = 'exec "$0" "$1" </dev/null >&2'
_ASKS_NOTHING = {"DEBIAN_FRONTEND": "noninteractive", "NONINTERACTIVE": "1"}
"""Variables by which apt and Homebrew are told that nobody answers."""

OnLine = Callable[[str], None]
"""Takes a line of an installer's output; it must not raise."""


class Toolchains:
    """Looks for what capabilities require, and installs it where that is allowed.

    Installers run one at a time, since package managers lock each other out. Each runs for one who asked: cancelled
    with them, it is ended with all that it started.

    Args:
        environ: our environment.
        allow_install: whether the operator allows that installers run; nothing else can.
        limit_s: seconds that an installer may take.
        clock: the present time in seconds.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        allow_install: bool,
        limit_s: float = LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ, self._allow_install, self._limit_s, self._clock = environ, allow_install, limit_s, clock
        self._home = Path(environ.get("HOME") or Path.home())
        self._guard: ProcessGuard | None = None
        self._turn = asyncio.Lock()
        self._running: anyio.CancelScope | None = None
        self._failed: dict[Requirement, tuple[float, str]] = {}
        self._believed: set[Requirement] = set()

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Let installers run until cancelled, where they are allowed; `started` is set once they can.

        One that runs at the end is ended with all that it started.
        """
        async with ProcessGuard() as guard:
            self._guard = guard if self._allow_install else None
            if started is not None:
                started.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._guard = None
                if self._running is not None:
                    self._running.cancel()
                async with self._turn:  # once all who waited for theirs were told
                    pass

    async def missing(self, capabilities: Iterable[Capability]) -> Mapping[str, list[str]]:
        """Return, of capabilities that lack what they require, a line for each of that, by name."""
        wanted = [(each, name) for each in capabilities for name in each.require]
        found = await self._look([(name, each.tap) for each, name in wanted])
        told: dict[str, list[str]] = {}
        for (capability, _), (requirement, why) in zip(wanted, found, strict=True):
            if why:
                told.setdefault(capability.name, []).append(self._told(requirement, why))
        return told

    async def satisfy(self, capability: Capability, on_line: OnLine) -> list[str]:
        """Install what is missing of what a capability requires, where that is allowed.

        Returns:
            A line for each requirement that is not there: what is missing, and who can do what about it.
        """
        lines = []
        for requirement, why in await self._look([(name, capability.tap) for name in capability.require]):
            may_install = why and requirement.script is not None and self._allow_install
            if told := await self._install(requirement, capability.tap, on_line) if may_install else why:
                lines.append(self._told(requirement, told))
        return lines

    def _told(self, requirement: Requirement, why: str) -> str:
        if requirement.script is None:
            return why
        run = f"run 'bash deps/{requirement.name}.sh' in the folder that it is from"
        hint = f"; an operator may start the gateway with --allow-install, or {run}"
        return f"{requirement.name}: {why}{'' if self._allow_install else hint}"

    async def _look(self, wanted: list[tuple[str, Path]]) -> list[tuple[Requirement, str]]:
        """Return requirements of taps, in their order, each with why it is not there; empty where it is."""

        def look() -> list[tuple[Requirement, str]]:
            path = self._program_path()
            found = [read_requirement(name, tap) for name, tap in wanted]
            return [(each, "" if each in self._believed else each.why_missing(path)) for each in found]

        if not wanted:
            return []
        try:
            async with asyncio.timeout(CHECK_S):
                return await in_daemon_thread(look)
        except TimeoutError:
            whys = [(name, f"{name} could not be looked for within {CHECK_S:g} s") for name, _ in wanted]
            return [(Requirement(name, problem=why), why) for name, why in whys]

    async def _install(self, requirement: Requirement, tap: Path, on_line: OnLine) -> str:
        """Return why a requirement is not there, once its installer has run; empty where it is."""

        def tell(line: str) -> None:
            on_line(f"{requirement.name}: {line}")

        if self._turn.locked():
            tell("waiting for another installer to end")
        async with self._turn:
            ((requirement, why),) = await self._look([(requirement.name, tap)])
            if not why or requirement.script is None:  # somebody else has installed it meanwhile
                return why
            failed_at, how = self._failed.get(requirement, (-RETRY_S, ""))
            if (left_s := failed_at + RETRY_S - self._clock()) > 0:
                return f"{why}; {how}; it is not run again for {left_s:.0f} s"
            if self._guard is None:
                return f"{why}; its installer can't be run: the gateway is not serving"
            tell(f"{why}; installing it")
            logger.info("installing %s by %s", requirement.name, requirement.script)
            is_ok, how = False, "its installer was ended: the gateway is not serving"
            with anyio.CancelScope() as self._running:
                is_ok, how = await self._run(requirement.script, self._guard, tell)
            logger.info("installing %s: %s", requirement.name, how)
            if not is_ok:
                self._failed[requirement] = self._clock(), how
            elif not requirement.check:  # nobody says what to look for, and its installer is content
                self._believed.add(requirement)
            ((_, why),) = await self._look([(requirement.name, tap)])
            return f"{why}; {how}" if why else ""

    async def _run(self, script: Path, guard: ProcessGuard, tell: OnLine) -> tuple[bool, str]:
        """Run a script by bash; return whether it ended well, and how it ended, with its last word.

        It can't ask anything, and has no secret of ours. It runs in a session of its own. Whatever it has started has
        ended when this returns or is cancelled; where the gateway is killed, the guard ends it.
        """
        output, how = _Output(tell), f"was ended after {self._limit_s:g} s"
        # Whoever is cancelled, it has started before it is ended: no other runs beside it.
        starting = asyncio.ensure_future(self._start(script, guard, output))
        try:
            if not await ended(starting, self._limit_s):
                starting.cancel()
            elif error := starting.exception():
                return False, f"its installer could not be started: {error}"
            else:
                process = starting.result()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limit_s):
                        await process.exited.wait()
                    how = process.exit_text if process.exit_status else "ended well"
        finally:
            if starting.done() and not starting.cancelled() and starting.exception() is None:
                await _end(starting.result())
            output.end()
        return how == "ended well", f"its installer {how}{f': {output.last}' if output.last else ''}"

    async def _start(self, script: Path, guard: ProcessGuard, output: _Output) -> UpstreamProcess:
        home = self._home

        def prepare() -> tuple[str, str]:
            path = self._program_path()
            return str(find_program("bash", path=path, folder=home, home=home)), path

        bash, path = await in_daemon_thread(prepare)
        env = {**passed_on(self._environ), **_ASKS_NOTHING, "PATH": path}
        words = ["-c", _RUN, bash, str(script)]
        return await UpstreamProcess.start(bash, words, env=env, folder=home, guard=guard, on_stderr=output.feed)

    def _program_path(self) -> str:
        """Return the folders that an upstream's program is looked for in, as in `PATH`."""
        return os.pathsep.join(map(str, search_folders(self._environ.get("PATH", ""), self._home)))


async def _end(process: UpstreamProcess) -> None:
    """End a process with all that it started, whoever is cancelled meanwhile."""
    try:
        with suppress(OSError):  # not reaped yet, so that the group is nobody else's
            os.killpg(process.pid, signal.SIGTERM)
        with anyio.CancelScope(shield=True):
            await process.end()
    finally:
        process.close()


class _Output:
    """The lines of an output, told as they come: of a flood only some, of a long line only its beginning."""

    def __init__(self, tell: OnLine) -> None:
        self.last = ""
        self._tell, self._n_told, self._rest = tell, 0, b""

    def feed(self, data: bytes) -> None:
        """Take what was read, in whatever pieces."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_MAX_LINE_BYTES]
        for line in lines[-KEPT_LINES:]:
            self._take(line)

    def end(self) -> None:
        """Take what was read last for a line, though it has no end."""
        self._take(self._rest)

    def _take(self, line: bytes) -> None:
        if text := readable(line[:_MAX_LINE_BYTES])[:MAX_LINE_CHARACTERS].strip():
            self.last = text
            self._n_told += 1
            if self._n_told <= MAX_TOLD_LINES:
                self._tell(text)
