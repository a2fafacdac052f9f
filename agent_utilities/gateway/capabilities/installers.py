"""Look for what capabilities require, and install it where a gateway's operator allows that."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from agent_utilities.gateway.capabilities.bundle_file import head_comment, read_within
from agent_utilities.gateway.capabilities.model import Capability
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.gateway.upstreams.processes.process import ProcessGuard, UpstreamProcess
from agent_utilities.gateway.upstreams.processes.program import CommandError, find_program, passed_on, search_folders
from agent_utilities.gateway.upstreams.processes.stderr_log import readable
from agent_utilities.runtime.process_io import expanded
from agent_utilities.runtime.shown import shown
from agent_utilities.runtime.waiting import in_daemon_thread

logger = logging.getLogger("agent_utilities.gateway")

LIMIT_S = 600.0
"""Seconds that an installer may take."""
KEPT_LINES = 20
"""The most lines that are reported of one piece of an installer's output."""
MAX_LINE_CHARACTERS = 300
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARACTERS
# stdout and stderr are one stream, so that lines keep their order; the script's path is an argument, not shell.
_RUN = 'exec "$0" "$1" </dev/null >&2'
_ENDED_WELL = "ended well"
_ASKS_NOTHING = {"DEBIAN_FRONTEND": "noninteractive", "NONINTERACTIVE": "1"}
"""Variables that tell apt and Homebrew to ask nothing."""

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}/[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)
_PROGRAM = re.compile(r"/?[A-Za-z0-9_][\w.+@-]*(/[\w.+@-]+)*", re.ASCII)
_ASKING = re.compile(r"(?:command -[vV]|which|type(?: -[pP])?|hash) ")
"""How a script checks for a command, whose name follows."""
_TESTS = frozenset({"test", "if", "for", "while", "case", "source", "eval", "exec", "set", "export", "true", "false"})
"""First words that say nothing of whether something is installed."""

OnLine = Callable[[str], None]
"""Takes a line of an installer's output; it must not raise."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that must be installed.

    Args:
        name: as the capability has it, `OWNER/TOOL`.
        check: the command that its script says to look for, verbatim; empty where it has none.
        script: the script that installs it; None where there is no such script.
        problem: why `script` is None, for a person; empty where there is one.
    """

    name: str
    check: str = ""
    script: Path | None = None
    problem: str = ""

    @property
    def program(self) -> str:
        """The program that its check looks for; empty where only a shell could say."""
        command = _ASKING.sub("", self.check, count=1) if _ASKING.match(self.check) else self.check
        word = next(iter(command.split(maxsplit=1)), "")
        return word if _PROGRAM.fullmatch(word) and word not in _TESTS else ""

    def why_missing(self, path: str) -> str:
        """Return why its program is not in the folders of a `PATH`, for a person; empty where it is. Nothing is run."""
        if self.problem:
            return self.problem
        script = f"deps/{self.name}.sh"
        if not self.check:
            return f"{script} has no line '# check: COMMAND', so it can't be looked for"
        if not (program := self.program):
            return f"the check {shown(self.check)!r} in {script} names no command: write its name alone"
        return "" if shutil.which(program, path=path) else f"{program!r} is not installed"


def read_requirement(name: str, tap: Path) -> Requirement:
    """Return a requirement as its script in a tap's `deps/` describes it, with the problem where that can't be read."""
    if not _NAME.fullmatch(name) or ".." in name:
        what = f"{shown(name)!r} names no requirement: write OWNER/TOOL, as in docker/docker"
        return Requirement(name, problem=what)
    script = tap / "deps" / f"{name}.sh"
    if not script.exists():
        return Requirement(name, problem=f"there is no deps/{name}.sh beside capabilities/: add it, or drop it there")
    try:
        text = read_within(script, tap / "deps")
    except ConfigError as error:
        return Requirement(name, problem=f"deps/{name}.sh: {error.what}; {error.hint}")
    return Requirement(name, head_comment(text).get("check", ""), script.absolute())


class Toolchains:
    """Looks for what capabilities require, and installs it where that is allowed.

    Installers run one at a time, since package managers lock each other out. Each runs for one request, and is ended
    with all that it started when that is cancelled. The operator alone allows it, by `allow_install`.
    """

    def __init__(self, *, environ: Mapping[str, str], allow_install: bool) -> None:
        self._environ, self._allow_install = environ, allow_install
        self._home = Path(environ.get("HOME") or expanded("~"))
        self._turn = asyncio.Lock()

    async def missing(self, capabilities: Iterable[Capability]) -> Mapping[str, list[str]]:
        """Return a line for each missing requirement, by capability; those that lack nothing are left out."""
        lines: dict[str, list[str]] = {}
        for each in capabilities:
            if lacking := [self._line(*state) for state in await self._look(each.require, each.tap) if state[1]]:
                lines[each.name] = lacking
        return lines

    async def satisfy(self, capability: Capability, on_line: OnLine) -> list[str]:
        """Install a capability's missing requirements, where that is allowed.

        Return a line for each that is still missing, with who can do what about it.
        """
        lines = []
        for requirement, why in await self._look(capability.require, capability.tap):
            may_install = why and requirement.script is not None and self._allow_install
            if why := await self._install(requirement, capability.tap, on_line) if may_install else why:
                lines.append(self._line(requirement, why))
        return lines

    def _line(self, requirement: Requirement, why: str) -> str:
        if requirement.script is None:
            return why
        run = f"run 'bash deps/{requirement.name}.sh' in the folder that it is from"
        hint = f"; an operator may start the gateway with --allow-install, or {run}"
        return f"{requirement.name}: {why}{'' if self._allow_install else hint}"

    async def _look(self, names: Sequence[str], tap: Path) -> list[tuple[Requirement, str]]:
        """Return requirements of a tap, in their order, each with why it is missing; empty where it is installed."""

        def look() -> list[tuple[Requirement, str]]:
            path = self._program_path()
            return [(each, each.why_missing(path)) for each in [read_requirement(name, tap) for name in names]]

        return await in_daemon_thread(look) if names else []

    async def _install(self, requirement: Requirement, tap: Path, on_line: OnLine) -> str:
        """Run a requirement's installer, and return why it is still missing; empty where it is installed."""

        def tell(line: str) -> None:
            on_line(f"{requirement.name}: {line}")

        if self._turn.locked():
            tell("waiting for another installer to end")
        async with self._turn:
            ((requirement, why),) = await self._look([requirement.name], tap)
            if not why or requirement.script is None:  # somebody else has installed it meanwhile
                return why
            tell(f"{why}; installing it")
            logger.info("installing %s by %s", requirement.name, requirement.script)
            how = await self._run(requirement.script, tell)
            logger.info("installing %s: its installer %s", requirement.name, how)
            if not requirement.check and how.startswith(_ENDED_WELL):  # nobody says what to look for
                return ""
            ((_, why),) = await self._look([requirement.name], tap)
            return f"{why}; its installer {how}" if why else ""

    async def _run(self, script: Path, tell: OnLine) -> str:
        """Run a script by bash; return how it ended, with its last line.

        It has no stdin and none of our secrets, and runs in a session of its own. Whatever it started has ended when
        this returns or is cancelled; where the gateway is killed, the guard ends it.
        """
        last, rest, how = "", b"", f"was ended after {LIMIT_S:g} s"

        def take(line: bytes) -> None:
            nonlocal last
            if text := readable(line[:_MAX_LINE_BYTES])[:MAX_LINE_CHARACTERS].strip():
                last = text
                tell(text)

        def feed(data: bytes) -> None:
            nonlocal rest
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:_MAX_LINE_BYTES]
            for line in lines[-KEPT_LINES:]:
                take(line)

        guard, process = ProcessGuard(), None
        try:
            async with asyncio.timeout(LIMIT_S):
                path, home = await in_daemon_thread(self._program_path), self._home
                find_bash = partial(find_program, "bash", path=path, folder=home, home=home)
                bash = str(await in_daemon_thread(find_bash))
                env = {**passed_on(self._environ), **_ASKS_NOTHING, "PATH": path}
                words = ["-c", _RUN, bash, str(script)]
                process = await UpstreamProcess.start(bash, words, env=env, folder=home, guard=guard, on_stderr=feed)
                await process.exited.wait()
                await process.take_last_words()
            how = process.exit_text if process.exit_status else _ENDED_WELL
        except TimeoutError:
            pass
        except (OSError, CommandError) as error:
            return f"could not be started: {error}"
        finally:
            take(rest)
            with anyio.CancelScope(shield=True):
                async with guard:
                    if process is not None:
                        with closing(process):
                            await process.end()
        return f"{how}: {last}" if last else how

    def _program_path(self) -> str:
        """Return the folders that an upstream's program is looked for in, as in `PATH`."""
        return os.pathsep.join(map(str, search_folders(self._environ.get("PATH", ""), self._home)))
