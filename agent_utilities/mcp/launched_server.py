"""A server that says what holds when it starts, before anything is served, and knows the address it is bound to."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import fastmcp
from fastmcp.server.http import StarletteWithLifespan

from agent_utilities.mcp.bounded_server import BoundedServer
from agent_utilities.mcp.fastmcp_internals import whole_lifespan
from agent_utilities.mcp.operator_bounds import OperatorBounds
from agent_utilities.mcp.stopping import Stopping
from agent_utilities.mcp.surface.surface import Surface

HostOriginProtection = bool | Literal["auto"] | None
"""As FastMCP takes it; only False, there or in its settings, turns the guard off."""


class LaunchedServer(BoundedServer):
    """Tells what the operator's bounds come to, and which hosts get in.

    Args:
        surface, name, instructions, options: as for `BoundedServer`.
    """

    stopping: Stopping

    toolsets_to_come: Callable[[], Collection[str]]
    """Returns toolsets that are configured, and whose components are not known yet."""

    def __init__(self, surface: Surface, name: str | None, instructions: str | None, **options: Any) -> None:
        self.operator_bounds = OperatorBounds(self, lambda: self.told_at_start(), lambda: self.toolsets_to_come())
        self._address: str | None = None
        super().__init__(surface, name, instructions, **options)

    def told_at_start(self) -> Sequence[str]:
        """Return what else is said in the line at the start, such as which upstreams were never reached."""
        return self.surface.operator.notices

    async def check_bounds(self) -> None:
        """Refuse what the operator gave where a launch would.

        Raises:
            SelectionError: as at a launch; see `OperatorBounds.tell`.
        """
        await self.operator_bounds.check()

    async def run_stdio_async(self, *args: Any, **options: Any) -> None:
        """Serve over stdio until stopped; see `FastMCP.run_stdio_async`.

        Raises:
            SelectionError: a deny fits nothing; see `OperatorBounds.tell`.
        """
        async with whole_lifespan(self):
            await self.operator_bounds.tell(on_stderr=True, log_level=options.get("log_level"))
            with self.stopping.heeding_signals():
                await super().run_stdio_async(*args, **options)

    async def run_http_async(self, *args: Any, **options: Any) -> None:
        """Serve over HTTP until stopped; see `FastMCP.run_http_async`.

        Raises:
            SelectionError: a deny fits nothing; see `OperatorBounds.tell`.
        """
        from agent_utilities.mcp.routes.host_guard import is_guarded

        given = inspect.signature(super().run_http_async).bind(*args, **options).arguments
        address = given.get("host")
        self._address = fastmcp.settings.host if address is None else address
        # FastMCP resolves what is None by its own settings: to no guard, and to hosts that the guard reads itself.
        given["host_origin_protection"] = is_guarded(given.get("host_origin_protection"))
        given["allowed_hosts"] = given.get("allowed_hosts") or []
        try:
            async with whole_lifespan(self):
                await self.operator_bounds.tell(on_stderr=True, log_level=given.get("log_level"))
                await super().run_http_async(**given)
        finally:
            self._address = None

    def guard(
        self, app: StarletteWithLifespan, protection: HostOriginProtection, hosts: Sequence[str], origins: Sequence[str]
    ) -> None:
        """Have an application refuse the hosts and origins that its address does not take, unless told not to.

        Raises:
            SettingsError: one that is to be taken can't be read.
        """
        from agent_utilities.mcp.routes.host_guard import HostGuard, accepted_on, is_guarded

        if not is_guarded(protection):
            return
        accepted = accepted_on(self._address, self.surface.operator.settings, hosts, origins)
        app.add_middleware(HostGuard, accepted=accepted)
        if not accepted.loopback:
            print(f"WARNING: {accepted}", file=sys.stderr)

    def tell_when_started(self, app: StarletteWithLifespan) -> None:
        """Have an application log what the operator's bounds come to when it starts, where nothing has said it."""
        lifespan = app.router.lifespan_context

        @asynccontextmanager
        async def telling(app: Any) -> AsyncIterator[Any]:
            async with whole_lifespan(self):
                await self.operator_bounds.tell(on_stderr=False)
                async with lifespan(app) as state:
                    with self.stopping.heeding_signals():  # the web server has set its own handlers by now
                        yield state

        app.router.lifespan_context = telling
