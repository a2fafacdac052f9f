"""The page: a part of every server over HTTP, at `/`, for who may read it."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_utilities.mcp.events import Event
from agent_utilities.mcp.feature import Feature
from agent_utilities.mcp.request import ToolCalled
from agent_utilities.runtime.hosts import is_loopback

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from agent_utilities.features.page.site import Site


class Page(Feature):
    """Shows in a browser what is in the prompt, what it costs, who is denied and why, and what was called."""

    name = "page"
    hears = (ToolCalled,)

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._site: Site | None = None

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the page; over stdio there are none."""
        from agent_utilities.features.page.site import Site

        self._site = self._site or Site(self.host, self.key)
        return self._site.routes()

    async def run(self) -> None:
        """Say where the page is, for a server that binds its address itself; only who reads stderr learns the key."""
        if (address := self.host.address) is None:
            return
        host = f"[{address}]" if ":" in address else address
        where = f"http://{host}:{self.host.port}/"
        if self.host.auth is not None:
            print(f"page: {where} for whom a rule of access gives the right page.read", file=sys.stderr)
        elif is_loopback(address):
            print(f"page: {where}?key={self.key}", file=sys.stderr)

    def notify(self, event: Event) -> None:
        """Keep a call for the page, where there is one."""
        if self._site is not None and isinstance(event, ToolCalled):
            self._site.tail.note(event)
