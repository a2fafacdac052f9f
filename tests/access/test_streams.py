"""Streams that go on while their client listens, and end with the token that they were opened with: on a socket."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp.server.auth import AccessToken, TokenVerifier

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access import oidc
from agent_utilities.access.token_file import new_token, revoke_token
from tests.access.local_issuer import LocalIssuer
from tests.every import every
from tests.server.servers import running
from tests.wire.http_raw import RawHttp, Stream
from tests.wire.raw_clients import RawSession, RawSse
from tests.wire.wires import modern_request

pytestmark = pytest.mark.outside
WAIT_S = 60
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
KINDS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
LOGIN = """
[auth]
issuer = "{issuer}"
base_url = "http://tools.example"
client_id = "us"
client_secret = "ours"
tokens = "{tokens}"

[[access]]
who = {{ issuer = ["{issuer}", "local"] }}
profile = "all"
may = ["page.read", "page.operate"]
"""
Headers = list[tuple[str, str]]


def of_a_session(url: str, headers: Headers) -> Stream:
    with closing(RawSession(url, headers)) as opened:
        for method in LISTS:
            opened.ask(method, {})
    return opened.stream


def of_sse(url: str, headers: Headers) -> Stream:
    with closing(RawSse(url, headers)) as opened:
        for method in LISTS:
            opened.ask(method, {})
    return opened.stream


def of_listening(url: str, headers: Headers) -> Stream:
    with closing(RawHttp(url)) as http:
        for method in LISTS:
            request, given = modern_request(method)
            assert http.send("POST", "/mcp", [*given, *headers], request).status == 200
        request, given = modern_request("subscriptions/listen", {"notifications": KINDS})
        opened = http.stream("/mcp", [*given, *headers], request)
    assert b"acknowledged" in opened.event()
    return opened


def of_the_tail(url: str, headers: Headers) -> Stream:
    with closing(RawHttp(url)) as http:
        return http.stream("/page/calls/events", headers)


def of_the_tail_by_a_login(url: str, headers: Headers) -> Stream:
    form = headers[0][1].replace("Bearer ", "token=").encode()
    kind = ("content-type", "application/x-www-form-urlencoded")
    with closing(RawHttp(url)) as http:
        entered = http.send("POST", "/page/login", [("origin", "http://tools.example"), kind], form)
        assert entered.status == 303
        return of_the_tail(url, [("cookie", entered.headers["set-cookie"].partition(";")[0])])


STREAMS = every("opening", [of_a_session, of_sse, of_listening, of_the_tail, of_the_tail_by_a_login])


class Served:
    """A server on a socket, and streams that are hung up at its end.

    Args:
        server: the server; it has a tool `add`.
        url: its root URL.
    """

    def __init__(self, server: AgentServer, url: str) -> None:
        self.server, self.url, self.streams = server, url, ExitStack()

    def open(self, opening: Callable[[str, Headers], Stream], token: str) -> Stream:
        """Open a stream with a token."""
        opened = opening(self.url, bearing(token))
        self.streams.callback(opened.close)
        return opened

    def status(self, token: str, method: str = "tools/list", **params: Any) -> int:
        """Return the status that a token's request is answered with."""
        request, headers = modern_request(method, params)
        with closing(RawHttp(self.url)) as http:
            return http.send("POST", "/mcp", [*headers, *bearing(token)], request).status

    def wait_until_refused(self, token: str) -> None:
        """Return once a token is taken no more."""
        until_s = time.monotonic() + WAIT_S
        while self.status(token) != 401:
            assert time.monotonic() < until_s, "it is taken still"
            time.sleep(0.05)  # each try is a request

    def add_a_tool(self, token: str) -> None:
        """Have a call of `add` be seen, and a list changed."""
        assert self.status(token, "tools/call", name="add", arguments={}) == 200


def bearing(token: str) -> Headers:
    return [("authorization", f"Bearer {token}")]


def with_add(server: AgentServer) -> AgentServer:
    @server.tool
    def add() -> str:
        """Add a tool."""
        server.tool(name="late")(lambda: "done")
        return "added"

    return server


@contextmanager
def serving(server: AgentServer) -> Iterator[Served]:
    with running(with_add(server)) as url:
        served = Served(server, url)
        with served.streams:  # the server waits for them when it stops
            yield served


@contextmanager
def serving_team(folder: Path, issuer: LocalIssuer) -> Iterator[Served]:
    issuer.said["registration_endpoint"] = f"{issuer.url}/register"
    settings = folder / "agent-utilities.toml"
    origins = "http://tools.example"  # as browsers reach it
    environ = {"MCP_CONFIG_FILE": str(settings), "MCP_GRAPH": "off", "MCP_ALLOWED_ORIGINS": origins}
    settings.write_text(LOGIN.format(issuer=issuer.url, tokens=folder / "tokens.json"))
    with serving(create_mcp_server("team", environ=environ)) as served:
        yield served


def is_told(stream: Stream) -> bool:
    return b"list_changed" in (event := stream.event()) or b"add" in event


def told_to_its_end(stream: Stream) -> list[bytes]:
    """Return what is told on a stream up to its end."""
    return [line for line in stream.read().splitlines() if line.startswith(b"data:")]


@STREAMS
class TestATokenOfAnIssuers:
    def test_is_told_nothing_once_it_has_expired(
        self, opening: Callable[[str, Headers], Stream], tmp_path: Path, issuer: LocalIssuer
    ) -> None:
        with serving_team(tmp_path, issuer) as served:
            short, lasting = issuer.token(sub="bob", exp=int(time.time()) + 4), issuer.token()
            ended, kept = served.open(opening, short), served.open(opening, lasting)
            served.wait_until_refused(short)
            served.add_a_tool(lasting)
            assert is_told(kept)
            assert told_to_its_end(ended) == []

    def test_is_told_nothing_once_its_issuer_says_that_it_is_revoked(
        self,
        opening: Callable[[str, Headers], Stream],
        tmp_path: Path,
        issuer: LocalIssuer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(oidc, "OPAQUE_S", 0)
        issuer.introspected = {who: {"active": True, **issuer.claims(sub=who)} for who in ("opaque-ann", "opaque-bob")}
        with serving_team(tmp_path, issuer) as served:
            ended, kept = served.open(opening, "opaque-bob"), served.open(opening, "opaque-ann")
            del issuer.introspected["opaque-bob"]
            served.wait_until_refused("opaque-bob")
            served.add_a_tool("opaque-ann")
            assert is_told(kept)
            assert told_to_its_end(ended) == []


@STREAMS
class TestATokenOfTheFiles:
    @every("is_made_anew", [False, True])
    def test_is_told_nothing_once_it_is_revoked(
        self, is_made_anew: bool, opening: Callable[[str, Headers], Stream], tmp_path: Path, issuer: LocalIssuer
    ) -> None:
        file = tmp_path / "tokens.json"
        ann, bob = new_token(file, "ann"), new_token(file, "bob")
        with serving_team(tmp_path, issuer) as served:
            ended, kept = served.open(opening, bob), served.open(opening, ann)
            revoke_token(file, "bob")
            if is_made_anew:
                new_token(file, "bob")
            served.wait_until_refused(bob)
            served.add_a_tool(ann)
            assert is_told(kept)
            assert told_to_its_end(ended) == []


class Named(TokenVerifier):
    """An author's own login: whoever is named gets in."""

    def __init__(self) -> None:
        super().__init__()
        self.names = {"ann", "bob"}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whom a name speaks for; fails where it is asked about nobody at all."""
        if not self.names:
            raise OSError("the directory can't be asked")
        return AccessToken(token=token, client_id=token, scopes=[]) if token in self.names else None


class TestAnAuthorsOwnLogin:
    @every("opening", [of_a_session, of_sse, of_listening])
    def test_ends_the_streams_of_whom_it_lets_in_no_more(self, opening: Callable[[str, Headers], Stream]) -> None:
        login = Named()
        with serving(create_mcp_server("own", environ={"MCP_GRAPH": "off"}, auth=login)) as served:
            ended, kept = served.open(opening, "bob"), served.open(opening, "ann")
            login.names.discard("bob")
            served.add_a_tool("ann")
            assert is_told(kept)
            assert told_to_its_end(ended) == []

    def test_that_cant_be_asked_lets_nobody_in(self) -> None:
        login = Named()
        with serving(create_mcp_server("own", environ={"MCP_GRAPH": "off"}, auth=login)) as served:
            ended = served.open(of_listening, "ann")
            login.names.clear()
            served.server.tool(name="late")(lambda: "done")
            assert told_to_its_end(ended) == []


def test_a_call_that_was_let_in_is_answered_though_its_token_has_expired(tmp_path: Path, issuer: LocalIssuer) -> None:
    with serving_team(tmp_path, issuer) as served:
        short = issuer.token(exp=int(time.time()) + 2)

        @served.server.tool
        async def outlive() -> str:
            """Return once the token is refused."""
            while await served.server.auth.verify_token(short) is not None:  # type: ignore[union-attr]
                pass
            return "outlived"

        request, headers = modern_request("tools/call", {"name": "outlive", "arguments": {}})
        with closing(RawHttp(served.url)) as http:
            reply = http.send("POST", "/mcp", [*headers, *bearing(short)], request)
        assert json.loads(reply.message)["result"]["content"][0]["text"] == "outlived"
