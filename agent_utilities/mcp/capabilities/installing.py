"""Running the script that installs a requirement: no input, bounded output, a limit, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from agent_utilities.capabilities.requirements import Requirement
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.upstream.processes.child_environment import passed_on
from agent_utilities.upstream.processes.command_path import CommandError, find_program, search_folders
from agent_utilities.upstream.processes.process import UpstreamProcess
from agent_utilities.upstream.processes.process_guard import ProcessGuard
from agent_utilities.upstream.processes.stderr_log import readable
from agent_utilities.upstream.processes.stderr_pump import StderrPump

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
    finally:
        pump.catch_up()
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
