"""What capabilities need to have installed, on a gateway: checked, and installed where its operator allows that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent_utilities.capabilities.installers import LIMIT_S, Installed, Installs, OnLine, program_path
from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.requirements import Checked, Requirement, check, read_requirement
from agent_utilities.runtime.waiting import NotRunningError, start_in_daemon_thread

CACHED_S = 30.0
"""Seconds that a check holds."""
RETRY_S = 60.0
"""Seconds before an installer that failed is run again: words may call for its capability at every turn."""
CHECK_S = 5.0
"""Seconds that checks may take, on a disk that hangs."""


class Toolchains:
    """Checks what capabilities require, and installs it where that is allowed.

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
        self._environ, self._clock = environ, clock
        self._installs = Installs(environ, limit_s) if allow_install else None
        self._checked: dict[tuple[Path, str], tuple[float, Checked]] = {}
        self._looks: dict[Path, Future[None]] = {}
        self._failed: dict[Requirement, tuple[float, str]] = {}
        self._believed: set[Requirement] = set()

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Take installs until cancelled, where they are allowed; what runs then is ended with all that it started.

        Args:
            started: set once installs are taken.
        """
        if self._installs is not None:
            await self._installs.run(started)
        elif started is not None:
            started.set()

    async def check(self, capability: Capability, tap: Path) -> tuple[Checked, ...]:
        """Return whether what a capability requires is there, in its order; as it was at most `CACHED_S` ago.

        Args:
            capability: what requires.
            tap: the folder that `deps/` stands in.
        """
        return await self._check_all(tuple(dict.fromkeys(capability.require)), tap)

    async def look(self, capabilities: Iterable[tuple[Capability, Path]]) -> None:
        """Look for what many capabilities require, at once, so that each `check` that follows returns at once.

        Args:
            capabilities: each with its tap.
        """
        by_tap: dict[Path, dict[str, None]] = {}
        for capability, tap in capabilities:
            by_tap.setdefault(tap, {}).update(dict.fromkeys(capability.require))
        await asyncio.gather(*(self._check_all(tuple(names), tap) for tap, names in by_tap.items()))

    async def satisfy(self, capability: Capability, tap: Path, on_line: OnLine) -> tuple[Checked, ...]:
        """Return whether what a capability requires is there, once what was missing is installed where that is allowed.

        Args:
            capability: what requires.
            tap: the folder that `deps/` stands in.
            on_line: told what installers write, line by line.
        """
        checked = await self.check(capability, tap)
        if self._installs is None or all(each.is_there or each.requirement.script is None for each in checked):
            return checked
        names = [each.requirement.name for each in checked]
        await self._look_for(lambda: names, tap)
        return tuple([await self._installed(each, tap, on_line) for each in self._known(names, tap)])

    def told(self, checked: Iterable[Checked]) -> list[str]:
        """Return a line for each requirement that is not there: what is missing, and who can do what about it.

        Args:
            checked: what `check` or `satisfy` returned.
        """
        lines: list[str] = []
        for each in checked:
            if each.is_there:
                continue
            line = f"{each.requirement.name}: {each.why}" if each.requirement.script is not None else each.why
            if self._installs is None and each.requirement.script is not None:
                run = f"run 'bash deps/{each.requirement.name}.sh' in the folder that it is from"
                line += f"; an operator may start the gateway with --allow-install, or {run}"
            lines.append(line)
        return lines

    async def _installed(self, before: Checked, tap: Path, on_line: OnLine) -> Checked:
        """Return a requirement as it is once its installer has run, where it is missing and has one."""
        requirement = before.requirement
        if before.is_there or requirement.script is None or self._installs is None:
            return before
        failed_at, why = self._failed.get(requirement, (-RETRY_S, ""))
        if (left_s := failed_at + RETRY_S - self._clock()) > 0:
            return replace(before, why=f"{before.why}; {why}; it is not run again for {left_s:.0f} s")
        on_line(f"{requirement.name}: {before.why}; installing it")
        try:
            installed = await self._installs.install(requirement, lambda line: on_line(f"{requirement.name}: {line}"))
        except NotRunningError:
            return replace(before, why=f"{before.why}; its installer can't be run: the gateway is not serving")
        if installed.ok and not requirement.check:  # nobody says what to look for, and its installer is content
            self._believed.add(requirement)
        await self._look_for(lambda: [requirement.name], tap)
        (after,) = self._known([requirement.name], tap)
        if after.is_there:
            return after
        if not installed.ok:
            self._failed[requirement] = self._clock(), _came_to(installed)
        return replace(after, why=f"{after.why}; {_came_to(installed)}")

    async def _check_all(self, names: Sequence[str], tap: Path) -> tuple[Checked, ...]:
        """Return requirements as they were at most `CACHED_S` ago."""

        def old() -> list[str]:
            now = self._clock()
            return [name for name in names if now - self._checked.get((tap, name), (-CACHED_S, None))[0] >= CACHED_S]

        if old():
            await self._look_for(old, tap)
        return self._known(names, tap)

    def _known(self, names: Sequence[str], tap: Path) -> tuple[Checked, ...]:
        return tuple(self._checked[tap, name][1] for name in names)

    async def _look_for(self, wanted: Callable[[], Sequence[str]], tap: Path) -> None:
        """Look for requirements and remember them as they are, for at most `CHECK_S` seconds.

        A look on a disk that hangs never ends: nobody starts another one at its tap before it has.

        Args:
            wanted: names those that are to be looked for, once nobody else looks.
            tap: the folder that `deps/` stands in.
        """
        try:
            async with asyncio.timeout(CHECK_S):
                while (other := self._looks.get(tap)) is not None and not other.done():
                    with suppress(Exception):  # told to whoever looks
                        await asyncio.wrap_future(other)
                if names := wanted():
                    self._looks[tap] = start_in_daemon_thread(partial(self._look, names, tap))
                    await asyncio.wrap_future(self._looks[tap])
        except TimeoutError:
            for name in wanted():
                why = f"{name} could not be looked for within {CHECK_S:g} s"
                self._checked[tap, name] = self._clock(), Checked(Requirement(name, problem=why), False, why=why)

    def _look(self, names: Sequence[str], tap: Path) -> None:
        """Look for requirements, in a thread: whoever finds that it has ended finds what it saw."""
        path = program_path(self._environ)
        for name in names:
            found = check(read_requirement(name, tap), path)
            if found.requirement in self._believed:
                found = replace(found, is_there=True, why="")
            self._checked[tap, name] = self._clock(), found


def _came_to(installed: Installed) -> str:
    """Return how an installer ended, and its last word."""
    how = installed.why or "its installer ended well"
    return f"{how}: {installed.lines[-1]}" if installed.lines else how
