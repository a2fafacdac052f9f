"""The page: a part of every server over HTTP, at `/`, for who may read it; what a panel is, and the last calls."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from html import escape
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import anyio
from opentelemetry import trace
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.runtime.process_io import own_folder, write_whole
from agent_utilities.runtime.waiting import in_daemon_thread, is_set
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server.events import Event, PolicyChanged
from agent_utilities.server.feature import Feature
from agent_utilities.server.request import TIMES, ToolCalled
from agent_utilities.server.sessions import Caller
from agent_utilities.usage.feature import words_of


class PageError(AgentUtilitiesError, ValueError):
    """Something that can't be shown or done; whoever asked for it is told why."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at the page.

    Args:
        caller: as requests of theirs are judged.
        operates: whether they may do what is the operator's, and see what is denied to others: who has the page's link
            on a loopback address, or the right `page.operate`.
    """

    caller: Caller
    operates: bool

    @property
    def name(self) -> str:
        """Who they are, for the record: the subject and its issuer, or whoever has the link."""
        return f"{self.caller.subject} ({self.caller.issuer})" if self.caller.subject else "whoever has the page's link"


@dataclass(frozen=True, slots=True)
class Table:
    """Plain values in rows, which are also had as CSV and JSON."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


Form = Mapping[str, str]
Look = Callable[["AgentServer", Reader, HttpRequest], Awaitable[dict[str, Any]]]
"""Returns what a panel's template is given, under `tables` its `Table`s by name; nothing its reader may not know."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that an operator can do on a panel, once they have said yes.

    Args:
        ask: returns the question that is put first.
        do: does it, and returns what was done.
    """

    ask: Callable[[AgentServer, Form], str]
    do: Callable[[AgentServer, Reader, Form], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its route, its template `NAME.html`, its query and its actions.

    Args:
        name: in the URL.
        title: in the navigation.
        look: what it shows.
        actions: by name; operators' alone.
        is_there: whether a server has anything for it.
    """

    name: str
    title: str
    look: Look
    actions: Mapping[str, Action] = field(default_factory=dict)
    is_there: Callable[[AgentServer], bool] = lambda host: True


N_KEPT = 1000
_EVERY_S = 0.5
_SILENCE_S = 15.0
_READ_S = 10.0
"""Seconds that a reader may take to read what was sent; then they are dropped."""
_LONGEST = 200

ReaderNow = Callable[[], Awaitable[Reader | str | None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One call, or something that an operator did.

    Args:
        n: its number, from 1.
        at: when it was over, in seconds since 1970.
        person: issuer and subject of who called; empty texts for nobody in particular.
        tool: its name; of what an operator did, what that was.
        server: the server behind, where the tool is of one.
        ok: whether it was answered without an error.
        ms, waited_ms, upstream_ms: milliseconds in all, of these before the server behind was asked, and in it.
        words, turn: the words that led to it, and how many turns there were, where that is known.
        visible, permitted: how many tools its caller was listed, and could use.
        told: what came of what an operator did.
    """

    n: int
    at: float
    person: tuple[str, str]
    tool: str
    server: str = ""
    ok: bool = True
    ms: float = 0.0
    waited_ms: float | None = None
    upstream_ms: float | None = None
    words: str = ""
    turn: int = 0
    visible: int = 0
    permitted: int = 0
    revision: str = ""
    trace: str = ""
    told: str = ""

    @property
    def caller(self) -> str:
        """Who called, for people."""
        issuer, subject = self.person
        return f"{subject} ({issuer})" if subject else ""

    @property
    def gateway_ms(self) -> float:
        """Milliseconds that it took here."""
        return max(0.0, self.ms - (self.waited_ms or 0.0) - (self.upstream_ms or 0.0))


class Tail:
    """The last calls, in memory, without arguments; nothing is done for those who look while nobody does."""

    def __init__(self, host: AgentServer) -> None:
        self._host = host
        self.kept: deque[Seen] = deque(maxlen=N_KEPT)
        self._numbers = count(1)
        self._news = asyncio.Event()

    def note(self, event: ToolCalled) -> None:
        """Keep a call."""
        request, decision, name = event.request, event.decision, event.name
        is_permitted = name in decision.permitted_names
        facts = self._host.known_tools.named(decision.catalog, name) if is_permitted else None
        waited_s, upstream_s = request.values.get(TIMES) or (None, None)
        words, turn = words_of(request, name)
        context = trace.get_current_span().get_span_context()
        self._keep(
            Seen(
                next(self._numbers),
                time.time(),
                request.caller.person if request.caller is not None else ("", ""),
                name[:_LONGEST],
                facts.server or self._host.name if facts is not None else "",
                event.ok,
                1000 * event.seconds,
                None if waited_s is None else 1000 * waited_s,
                None if upstream_s is None else 1000 * upstream_s,
                words[:_LONGEST],
                turn,
                len(decision.visible),
                len(decision.permitted),
                event.revision,
                f"{context.trace_id:032x}" if context.is_valid else "",
            )
        )

    def operated(self, reader: Reader, what: str, told: str, *, ok: bool) -> None:
        """Keep what an operator did."""
        self._keep(
            Seen(next(self._numbers), time.time(), reader.caller.person, what[:_LONGEST], ok=ok, told=told[:_LONGEST])
        )

    def _keep(self, seen: Seen) -> None:
        self.kept.append(seen)
        self.look_again()

    def look_again(self) -> None:
        """Have streams see what is new, whether their readers still may, and whether the server stops."""
        self._news.set()

    def seen_by(self, reader: Reader, request: HttpRequest, after: int = 0) -> list[Seen]:
        """Return what a reader may see of it and wants to: an operator all, others what they called themselves."""
        wanted = {
            name: request.query_params.get(name, "").strip().casefold() for name in ("server", "called", "caller")
        }
        failed = bool(request.query_params.get("failed"))
        return [
            each
            for each in self.kept
            if each.n > after
            and (reader.operates or (all(each.person) and each.person == reader.caller.person))
            and not (failed and each.ok)
            and wanted["server"] in each.server.casefold()
            and wanted["called"] in each.tool.casefold()
            and wanted["caller"] in each.caller.casefold()
        ]

    def events(self, reader_now: ReaderNow, request: HttpRequest, row: Callable[[Seen], str]) -> Response:
        """Return a stream of the calls that come from now on, each as a row of the table.

        Args:
            reader_now: returns who reads, whose login and rights may have ended; then so does the stream.
            row: writes one.
        """
        return _Stream(self._stream(reader_now, request, row), media_type="text/event-stream")

    async def _stream(
        self, reader_now: ReaderNow, request: HttpRequest, row: Callable[[Seen], str]
    ) -> AsyncIterator[str]:
        after = request.query_params.get("after") or request.headers.get("last-event-id", "")
        last = int(after) if after.isdecimal() and len(after) < 16 else 0
        stopping = self._host.stopping.begun
        while not stopping.is_set() and isinstance(reader := await reader_now(), Reader):
            if self.kept and last < self.kept[0].n - 1 and last:
                yield "event: behind\ndata: more was called than could be shown; load the page anew\n\n"
                return
            news = self.seen_by(reader, request, last)
            last = self.kept[-1].n if self.kept else last
            rows = "".join(f"data: {row(each)}\n" for each in news)
            yield f"id: {last}\n{rows}\n" if news else ": nothing yet\n\n"
            if not self.kept or self.kept[-1].n == last:
                self._news.clear()
                await is_set(self._news, within_s=_SILENCE_S)
            await is_set(stopping, within_s=_EVERY_S)  # what comes close together is sent together


class _Stream(StreamingResponse):
    """A stream that ends where its reader does not read."""

    async def stream_response(self, send: Any) -> None:
        async def in_time(message: Any) -> None:
            async with asyncio.timeout(_READ_S):
                await send(message)

        with suppress(TimeoutError):  # an answer that is not whole has the web server close the connection
            await super().stream_response(in_time)


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
            make = await in_daemon_thread(partial(resolve_name, "agent_utilities.page.site:application"))
            self._app = self._app or make(self.host, self.key, self._tail)
        await self._app(scope, receive, send)

    def attach(self, host: AgentServer) -> None:
        """Take the server, and have its start say where the page is."""
        super().attach(host)
        host.greeting.page = self._place

    async def _place(self) -> str:
        """Return what is said of where the page is, for a server that has bound its address itself; else nothing.

        Only who reads stderr learns the key, and the user whose server it is, by a file.
        """
        address = self.host.address
        host = f"[{address}]" if address is not None and ":" in address else address
        where = f"http://{host}:{self.host.port}/" if self.host.port else "/"
        if address is not None and self.host.auth is not None:
            return f"{where} for whom a rule of access gives the right page.read"
        if address is None or not is_loopback(address):
            return ""
        link = f"{where}?key={self.key}"
        # Kept before it is said; where that can't be done soon, stderr alone has it.
        with suppress(OSError, TimeoutError), anyio.fail_after(_KEEP_S):
            self._link = await in_daemon_thread(partial(keep_link, str(self.host.port), link))
        return link

    async def run(self) -> None:
        """Take the file of the link away once the server stops."""
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
