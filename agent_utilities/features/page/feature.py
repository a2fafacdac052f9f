"""The page: a part of every server over HTTP, at `/`, for who may read it."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from pkgutil import resolve_name

import anyio
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_utilities.features.page.tail import Tail
from agent_utilities.mcp.events import Event, PolicyChanged
from agent_utilities.mcp.feature import Feature
from agent_utilities.mcp.request import ToolCalled
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.runtime.process_io import own_folder, write_whole
from agent_utilities.runtime.waiting import in_daemon_thread

_KEEP_S = 2
_LINK = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>The page</title><p><a href="{link}">The page</a></p></html>"""


class Page(Feature):
    """Shows in a browser what is in the prompt, what it costs, who is denied and why, and what was called."""

    name = "page"
    hears = (ToolCalled, PolicyChanged)

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._tail: Tail | None = None
        self._link: Path | None = None
        self._app: ASGIApp | None = None

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the page; over stdio there are none. All else is imported when somebody first looks."""
        if self._tail is None:
            self._tail = Tail(self.host)
        return [Route("/", self), Route("/page/{rest:path}", self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the page."""
        if self._app is None:
            make = await in_daemon_thread(partial(resolve_name, "agent_utilities.features.page.site:application"))
            self._app = self._app or make(self.host, self.key, self._tail)
        await self._app(scope, receive, send)

    async def run(self) -> None:
        """Say where the page is, for a server that binds its address itself.

        Only who reads stderr learns the key, and the user whose server it is, by a file.
        """
        address = self.host.address
        if address is not None:
            await self.host.operator_bounds.said.wait()  # else nothing may be served
            host = f"[{address}]" if ":" in address else address
            where = f"http://{host}:{self.host.port}/" if self.host.port else "/"
            if self.host.auth is not None:
                print(f"page: {where} for whom a rule of access gives the right page.read", file=sys.stderr)
            elif is_loopback(address):
                link = f"{where}?key={self.key}"
                # Kept before it is said; where that can't be done soon, stderr alone has it.
                with suppress(OSError, TimeoutError), anyio.fail_after(_KEEP_S):
                    self._link = await in_daemon_thread(partial(keep_link, str(self.host.port), link))
                print(f"page: {link}", file=sys.stderr)
        try:
            await self.host.stopping.begun.wait()
            if self._tail is not None:
                self._tail.look_again()
        finally:
            if self._link is not None:
                self._link.unlink(missing_ok=True)

    def notify(self, event: Event) -> None:
        """Keep a call for the page, where there is one; a change of who may what ends what others read of it."""
        if self._tail is not None and isinstance(event, ToolCalled):
            self._tail.note(event)
        elif self._tail is not None:
            self._tail.look_again()


def link_file(name: str) -> Path:
    """Return the file that leads to a page, which its user alone can read: of a server that runs here, by its port."""
    return own_folder("state") / "page" / f"{name}.html"


def keep_link(name: str, link: str) -> Path:
    """Keep a link for its user to open: a command's arguments are seen by everybody on a machine.

    Raises:
        OSError: it can't be written.
    """
    file = link_file(name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, _LINK.format(link=escape(link)).encode())
    return file
