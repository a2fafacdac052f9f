"""DNS rebinding and foreign origins: which hosts and origins get in, down to the byte, on real servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.wires import Access

NOT_LOOPBACK = "127.1"
"""Binds the loopback address, and is none by its name: no test listens on a network to be told from one that does."""
ROUTES = [
    "/mcp",
    "/sse",
    "/messages/?session_id=0",
    "/tools",
    "/context",
    "/health",
    "/ready",
    "/metrics",
    "/authors-own",
    "/none",
]
LAUNCH = Launch(script="foreign_server.py")


@contextmanager
def elsewhere(**env: str) -> Iterator[tuple[HttpProcess, RawHttp]]:
    """A server on an address that is none of the loopback ones by its name, and a connection to it."""
    launch = Launch(script=LAUNCH.script, env=tuple(env.items()))
    command = launch.command("-t", "http", "-p", "0", "--host", NOT_LOOPBACK, "--log-level", "info")
    process = HttpProcess(command, launch.environ)
    try:
        port = process.wait_for(re.compile(r"Uvicorn running on http://127\.1:(\d+)"))[1]
        with closing(RawHttp(f"http://127.0.0.1:{port}")) as http:
            yield process, http
    finally:
        process.stop()


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    """A way into a server on the loopback address."""
    with served(LAUNCH) as process, closing(Access(process.url)) as access:
        yield access


@pytest.fixture(scope="module")
def named() -> Iterator[RawHttp]:
    """A connection to a server on another address that names hosts and origins."""
    hosts, origins = (
        "agent.example, *.wild.example, port.example:8001, [2001:db8::1]",
        "https://app.example, http://*.lan:*",
    )
    with elsewhere(MCP_ALLOWED_HOSTS=hosts, MCP_ALLOWED_ORIGINS=origins) as (_, http):
        yield http


def status(http: RawHttp, host: str, origin: str | None = None, path: str = "/health") -> int:
    origins = [("origin", origin)] if origin is not None else []
    return http.get(path, [("host", host), *origins]).status


class TestOnTheLoopbackAddress:
    def test_a_rebound_name_calls_no_tool(self, access):
        evil = [("host", "evil.example"), ("origin", "http://evil.example")]
        with access.calling("modern", headers=evil) as caller:
            answer = caller.ask("tools/call", {"name": "wipe"})
        assert (answer.status, access.http.get("/authors-own").json) == (421, {"wiped": 0})

    def test_every_route_is_guarded(self, access):
        foreign = [("evil.example:8001", None), ("localhost", "http://evil.example")]
        codes = {path: [status(access.http, *each, path=path) for each in foreign] for path in ROUTES}
        assert codes == {path: [421, 403] for path in ROUTES}

    def test_the_answer_tells_what_came_and_what_to_set(self, access):
        bodies = [
            access.http.get("/tools", [("host", "evil.example:80")]).json,
            access.http.get("/tools", [("origin", "https://evil.example")]).json,
        ]
        assert [(body["error"]["value"], body["error"]["source"]) for body in bodies] == [
            ("evil.example:80", "header host"),
            ("https://evil.example", "header origin"),
        ]
        assert "--allowed-hosts evil.example (MCP_ALLOWED_HOSTS)" in bodies[0]["error"]["hint"]
        assert "--allowed-origins https://evil.example (MCP_ALLOWED_ORIGINS)" in bodies[1]["error"]["hint"]

    def test_loopback_names_get_in_with_any_port_and_from_each_other(self, access):
        names = [
            "localhost",
            "LocalHost:1",
            "localhost.",
            "127.0.0.1:65535",
            "127.9.8.7",
            "[::1]:80",
            "[::ffff:7f00:1]",
        ]
        origins = [None, "https://127.0.0.1:6274", *(f"http://{name}" for name in names)]
        assert [(n, o) for n in names for o in origins if status(access.http, n, o) != 200] == []

    def test_what_only_looks_like_one_does_not(self, access):
        hosts = ["", "0.0.0.0", "localhost.evil.example", "evil.example@localhost", "[::1].evil.example", "localhost.."]
        hosts += ["localhost:80:80", "localhost:99999", "127.0.0.1.evil.example", "2130706433", "localhost/", "\u212a"]
        origins = ["", "null", "*", "localhost", "http://localhost.evil.example", "http://localhost/x"]
        assert [host for host in hosts if status(access.http, host) != 421] == []
        assert [origin for origin in origins if status(access.http, "localhost", origin) != 403] == []

    def test_a_host_given_twice_or_not_at_all_is_refused(self, access):
        requests = [f"GET /health HTTP/1.0\r\n{lines}\r\n" for lines in ("", "host: localhost\r\nhost: localhost\r\n")]
        assert [access.raw(request.encode()).split()[1] for request in requests] == [b"421", b"400"]

    def test_two_origins_are_refused(self, access):
        origins = [("origin", "http://localhost"), ("origin", "http://localhost")]
        assert access.http.get("/health", origins).status == 403


class TestOnAnotherAddress:
    def test_nothing_gets_in_where_nothing_is_named_and_the_start_says_so(self):
        with elsewhere() as (process, http):
            assert [status(http, "localhost"), status(http, "evil.example")] == [421, 421]
            told = process.wait_for(re.compile(r"WARNING: .*nothing else gets in.*"))[0]
        assert "MCP_ALLOWED_HOSTS" in told

    def test_named_hosts_get_in(self, named):
        expected = {
            "agent.example": 200,
            "AGENT.example.:8443": 200,
            "a.b.wild.example": 200,
            "wild.example": 421,
            "evilwild.example": 421,
            "port.example:8001": 200,
            "port.example:8002": 421,
            "port.example": 421,
            "[2001:DB8:0::1]:8001": 200,
            "localhost": 421,
        }
        assert {host: status(named, host) for host in expected} == expected

    def test_named_origins_and_the_servers_own_get_in(self, named):
        expected = {
            None: 200,
            "https://app.example": 200,
            "https://APP.example:443": 200,
            "http://app.example": 403,
            "https://app.example:8443": 403,
            "http://desk.lan:5173": 200,
            "https://agent.example": 200,
            "https://agent.example:9999": 403,
            "http://localhost": 403,
        }
        assert {origin: status(named, "agent.example", origin) for origin in expected} == expected
