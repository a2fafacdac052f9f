"""The live tail on a real socket: who does not read it, who may not any more, and a server that stops."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_utilities import create_mcp_server
from agent_utilities.page import feature as module
from agent_utilities.page.feature import N_KEPT, Tail
from agent_utilities.seam.caller import NOBODY
from agent_utilities.seam.events import PolicyChanged
from agent_utilities.seam.panel import Reader
from tests.access.team import Team
from tests.every import every
from tests.page.serving import server as serving
from tests.page.test_door import TEAM
from tests.server.servers import running
from tests.wire.http_raw import RawHttp, Stream
from tests.wire.wires import modern_request

pytestmark = pytest.mark.outside
SILENCE_S = module._SILENCE_S


@pytest.mark.anyio
async def test_is_dropped_and_nothing_goes_on_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_S", 0.2)
    tail, reader, is_over = Tail(create_mcp_server("x", environ={})), Reader(NOBODY, True), asyncio.Event()
    for number in range(N_KEPT):
        tail.operated(reader, f"restart {number}", "done", ok=True)

    async def reader_now() -> Reader:
        return reader

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # More than the system's buffers of a connection take.
            await tail.events(reader_now, Request(scope), lambda seen: "x" * 20_000)(scope, receive, send)
        finally:
            is_over.set()

    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as deaf:
        serving = asyncio.create_task(server.serve([listening]))
        deaf.connect(listening.getsockname())
        deaf.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        async with asyncio.timeout(60):
            await is_over.wait()
        server.should_exit = server.force_exit = True
        await serving


def entered(url: str, **form: str) -> list[tuple[str, str]]:
    """Return the cookie of a browser that has logged in to the page."""
    headers = [("origin", url), ("content-type", "application/x-www-form-urlencoded")]
    body = "&".join(f"{name}={value}" for name, value in form.items()).encode()
    with closing(RawHttp(url)) as http:
        return [("cookie", http.send("POST", "/page/login", headers, body).headers["set-cookie"].partition(";")[0])]


def look(url: str, headers: list[tuple[str, str]]) -> Stream:
    """Open the tail, and return once it goes on."""
    with closing(RawHttp(url)) as http:
        return http.stream("/page/calls/events", headers)


def call(url: str, who: dict[str, str]) -> None:
    request, headers = modern_request("tools/call", {"name": "git_log", "arguments": {}})
    with closing(RawHttp(url)) as http:
        assert http.send("POST", "/mcp", [*headers, *who.items()], request).status == 200


def seen(stream: Stream) -> bool:
    """Whether a call by eve is told of, up to the end of a stream."""
    return b"eve" in stream.read()


class TestIsToldNothingMore:
    """Each stream ends while nobody calls, long before the tail would say that it is silent."""

    @pytest.fixture(autouse=True)
    def _silent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_SILENCE_S", 600.0)

    @every("by", ["token", "login"])
    @every(
        "edit",
        [
            lambda team: team.write(TEAM.replace("page.operate", "metrics")),
            lambda team: team.write(TEAM.replace('"ann"', '"anne"')),
            lambda team: team.tokens.unlink(),
        ],
        ids=["right", "rule", "tokens"],
    )
    def test_who_may_look_no_more(self, edit: Callable[[Team], None], by: str, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        ann, eve = team.token("ann"), team.token("eve")
        with running(team.server()) as url:
            token = ann["authorization"].removeprefix("Bearer ")
            with closing(look(url, entered(url, token=token) if by == "login" else [*ann.items()])) as tail:
                call(url, eve)
                assert b"eve" in tail.event()
                edit(team)
                assert not seen(tail)

    def test_who_looks_still_at_what_others_call_when_the_right_to_operate_is_gone(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        ann, eve = team.token("ann"), team.token("eve")
        server, is_taken = team.server(), threading.Event()
        server.features.observe(lambda _: is_taken.set(), PolicyChanged)
        with running(server) as url, closing(look(url, [*ann.items()])) as tail:
            call(url, eve)
            assert b"eve" in tail.event()
            team.write(TEAM.replace("page.operate", "page.read"))
            assert is_taken.wait(60)
            call(url, eve)
            call(url, ann)
            assert b"eve" not in (told := tail.event())
            assert b"ann" in told

    def test_who_has_logged_out(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        ann, eve = team.token("ann"), team.token("eve")
        with running(team.server()) as url:
            cookie = entered(url, token=ann["authorization"].removeprefix("Bearer "))
            with closing(look(url, cookie)) as tail, closing(RawHttp(url)) as http:
                assert http.send("POST", "/page/logout", [*cookie, ("origin", url)]).status == 303
                call(url, eve)
                assert not seen(tail)


def test_of_a_server_that_stops_ends_and_holds_nothing_up(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        key = served.link.partition("key=")[2]
        with closing(RawHttp(served.url)) as http:
            cookie = http.get(f"/?key={key}").headers["set-cookie"].partition(";")[0]
        tails = [look(served.url, [("cookie", cookie)]) for _ in range(3)]
        served.process.process.send_signal(signal.SIGTERM)
        assert [tail.read().rstrip().endswith(b"nothing yet") for tail in tails] == [True] * 3
        assert served.process.process.wait(SILENCE_S) in (0, -signal.SIGTERM)
        for tail in tails:
            tail.close()
        assert "Traceback" not in served.process.log
