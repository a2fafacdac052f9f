"""The page feature: serves the page at `/` over HTTP to callers who may read it, and keeps the last calls for it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import anyio
from fastmcp.server.auth import AuthProvider
from opentelemetry import trace
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.runtime.process_io import own_folder, write_whole
from agent_utilities.runtime.waiting import in_daemon_thread, is_set
from agent_utilities.seam.events import Event, PolicyChanged, Stopping
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import Host, StartLink, find
from agent_utilities.seam.panel import Reader
from agent_utilities.seam.request import RESULT_TOKENS, TIMES, ToolCalled
from agent_utilities.usage.feature import words_of

N_KEPT = 1000
_EVERY_S = 0.5
_SILENCE_S = 15.0
_READ_S = 10.0
"""Seconds that a reader may take to read what was sent; then the connection is dropped."""
_LONGEST = 200

ReaderNow = Callable[[], Awaitable[Reader | str | None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One call, or one action of an operator.

    Args:
        n: its number, from 1.
        at: when it ended, in seconds since 1970.
        person: issuer and subject of the caller; empty texts for nobody in particular.
        tool: the tool's name, or the operator's action.
        server: the upstream of the tool, if any.
        ok: whether it was answered without an error.
        ms, waited_ms, upstream_ms: milliseconds in all, before the upstream was called, and in it.
        result_tokens, given_tokens: those of its whole result, and how many of them were given, where counted.
        words, turn: the words that led to it, and the number of turns, where known.
        visible, permitted: the number of tools that its caller was listed, and could use.
        told: the outcome of an operator's action.
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
    result_tokens: int | None = None
    given_tokens: int | None = None
    words: str = ""
    turn: int = 0
    visible: int = 0
    permitted: int = 0
    revision: str = ""
    trace: str = ""
    told: str = ""

    @property
    def caller(self) -> str:
        """The caller's name for people."""
        issuer, subject = self.person
        return f"{subject} ({issuer})" if subject else ""

    @property
    def gateway_ms(self) -> float:
        """The milliseconds that the gateway itself took."""
        return max(0.0, self.ms - (self.waited_ms or 0.0) - (self.upstream_ms or 0.0))


class Tail:
    """The last calls, in memory and without arguments, and streams of new ones to the page's readers."""

    def __init__(self, host: Host) -> None:
        self._host, self.began_s = host, time.time()
        self.kept: deque[Seen] = deque(maxlen=N_KEPT)
        self._numbers = count(1)
        self._news, self.stopping = asyncio.Event(), asyncio.Event()
        self.n_calls, self.n_failed = Counter[str](), Counter[str]()
        """Calls by server since the start, and those of them that were answered with an error, as in the usage log."""

    def note(self, event: ToolCalled) -> None:
        request, decision, name = event.request, event.decision, event.name
        is_permitted = name in decision.permitted_names
        facts = self._host.tool_facts(decision.catalog, name) if is_permitted else None
        waited_s, upstream_s = request.values.get(TIMES) or (None, None)
        n_tokens, n_given = request.values.get(RESULT_TOKENS, (None, None))
        words, turn = words_of(request, name)
        context = trace.get_current_span().get_span_context()
        server = facts.server or self._host.name if facts is not None else ""
        self.n_calls[server] += 1
        self.n_failed[server] += not event.ok
        self._keep(
            Seen(
                next(self._numbers),
                time.time(),
                request.caller.person if request.caller is not None else ("", ""),
                name[:_LONGEST],
                server,
                event.ok,
                1000 * event.seconds,
                None if waited_s is None else 1000 * waited_s,
                None if upstream_s is None else 1000 * upstream_s,
                n_tokens,
                n_given,
                words[:_LONGEST],
                turn,
                len(decision.visible),
                len(decision.permitted),
                event.revision,
                f"{context.trace_id:032x}" if context.is_valid else "",
            )
        )

    def operated(self, reader: Reader, what: str, text: str, *, ok: bool) -> None:
        """Keep an action of an operator."""
        self._keep(
            Seen(next(self._numbers), time.time(), reader.caller.person, what[:_LONGEST], ok=ok, told=text[:_LONGEST])
        )

    def _keep(self, seen: Seen) -> None:
        self.kept.append(seen)
        self.look_again()

    def look_again(self) -> None:
        """Wake the streams, to send new calls, and to end where their reader may not read or the server stops."""
        self._news.set()

    def seen_by(self, reader: Reader, request: HttpRequest, after: int = 0) -> list[Seen]:
        """Return the calls that fit a reader's filters: all for an operator, for others their own."""
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
        """Return a stream of further calls, each as a row of the table.

        Args:
            reader_now: returns the present reader; the stream ends once their login or rights have ended.
            row: renders a row.
        """
        return _Stream(self._stream(reader_now, request, row), media_type="text/event-stream")

    async def _stream(
        self, reader_now: ReaderNow, request: HttpRequest, row: Callable[[Seen], str]
    ) -> AsyncIterator[str]:
        after = request.query_params.get("after") or request.headers.get("last-event-id", "")
        last = int(after) if after.isdecimal() and len(after) < 16 else 0
        stopping = self.stopping
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
    """A stream that ends where its reader stops reading."""

    async def stream_response(self, send: Any) -> None:
        async def in_time(message: Any) -> None:
            async with asyncio.timeout(_READ_S):
                await send(message)

        with suppress(TimeoutError):  # the web server closes the connection of an incomplete response
            await super().stream_response(in_time)


_KEEP_S = 2
_LINK = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>The page</title><p><a href="{link}">The page</a></p></html>"""


class Page(Feature):
    """Shows in a browser what is in the prompt and its cost, who is denied what and why, and the last calls."""

    name = "page"
    hears = (ToolCalled, PolicyChanged, Stopping)
    rights = ("page.read", "page.operate")

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._tail: Tail | None = None
        self._link: Path | None = None
        self._app: ASGIApp | None = None

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the page; everything behind them is imported at the first request."""
        if self._tail is None:
            self._tail = Tail(self.host)
        return [Route("/", self), Route("/page", self), Route("/page/{rest:path}", self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            make = await in_daemon_thread(partial(resolve_name, "agent_utilities.page.site:application"))
            self._app = self._app or make(self.host, self.key, self._tail)
        await self._app(scope, receive, send)

    def attach(self, host: Host) -> None:
        super().attach(host)
        host.offer(StartLink, lambda: self._place)

    async def _place(self) -> str:
        """Return the page's link for the startup message of a server that binds its own address; otherwise empty.

        The key is shown on stderr alone, and stored in a file of the user who runs the server.
        """
        address, port = self.host.address or (None, 0)
        host = f"[{address}]" if address is not None and ":" in address else address
        where = f"http://{host}:{port}/" if port else "/"
        if address is not None and find(self.host, AuthProvider) is not None:
            return f"{where} for whom a rule of access gives the right page.read"
        if address is None or not is_loopback(address):
            return ""
        link = f"{where}?key={self.key}"
        # Stored before it is printed; where that takes too long, stderr alone has it.
        with suppress(OSError, TimeoutError), anyio.fail_after(_KEEP_S):
            self._link = await in_daemon_thread(partial(keep_link, str(port), link))
        return link

    async def run(self) -> None:
        """Remove the file of the link once the server stops."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._link is not None:
                self._link.unlink(missing_ok=True)

    def notify(self, event: Event) -> None:
        """Keep a call for the page, and wake its streams where rights changed or the server stops."""
        if self._tail is not None and isinstance(event, ToolCalled):
            self._tail.note(event)
        elif self._tail is not None:
            if isinstance(event, Stopping):
                self._tail.stopping.set()
            self._tail.look_again()


def link_file(name: str) -> Path:
    """Return the file with the link to a page, readable by its user alone; a server here is named by its port."""
    return own_folder("state") / "page" / f"{name}.html"


def keep_link(name: str, link: str) -> Path:
    """Store a link for its user to open, since everybody on a machine sees a command's arguments.

    Raises:
        OSError: the file can't be written.
    """
    file = link_file(name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, _LINK.format(link=escape(link)).encode())
    return file
