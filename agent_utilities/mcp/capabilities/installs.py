"""Installers of a gateway, one at a time: who asks for what is being installed waits for the same one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

import anyio

from agent_utilities.capabilities.requirements import Requirement
from agent_utilities.mcp.capabilities.installing import LIMIT_S, Installed, OnLine, install
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.runtime.single_flight import SingleFlight
from agent_utilities.upstream.processes.process_guard import ProcessGuard

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
