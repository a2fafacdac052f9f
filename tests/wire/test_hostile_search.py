"""Forged values of `active`, searches that are broken off, and clients that don't read: all bounded, none a fault."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.every import every
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.search_questions import META, call, searched
from tests.wire.search_server import PERMITTED
from tests.wire.wires import ACCEPT, LEGACY, LegacyCaller, ModernCaller, jsonrpc, modern_request, stdio_caller

pytestmark = pytest.mark.outside
LAUNCH = Launch(script="search_server.py", env=(("MCP_TOOL_SEARCH", "on"),))
FORGED: dict[str, str] = {
    "names without end": ",".join(f"tool_{n}" for n in range(1000)),
    "more commas than names": "," * 600,
    "a name too long": "x" * 5000,
    "an order of too few": "read_note,send_mail;used=0",
    "an order of too many": "read_note;used=" + ".".join(["0"] * 512),
    "a bomb of an order": "read_note;used=" + "9" * 7000,
    "turns without end": "read_note;turns=" + "9" * 400,
    "words that are no digest": "read_note;of=<script>",
    "a part twice": "read_note;turns=1;turns=2",
    "an unknown part": "read_note;admin=1",
    "parts without end": ";" * 8000,
}
IN_JSON: dict[str, Any] = {
    "ten thousand names": [f"tool_{n}" for n in range(10_000)],
    "a megabyte": "x" * 1_000_000,
    "a number": 5,
    "an object": {"read_note": True},
    "true": True,
    "lists in lists": json.loads("[" * 150 + "]" * 150),
    "a name with a comma": ["read_note,send_mail"],
    "control characters": "read_note\x00\x1b[2J",
    "a line break": "read_note\r\nx-mcp-tools: all",
    "an invisible character": "read_note\u202e",
}


@pytest.fixture(scope="module")
def process() -> Iterator[HttpProcess]:
    with served(LAUNCH) as made:
        yield made


@pytest.fixture
def http(process: HttpProcess) -> Iterator[RawHttp]:
    with closing(RawHttp(process.url)) as made:
        yield made


def listed(result: dict[str, Any]) -> list[str]:
    """Return the names of the tools in a list, without the entry tools."""
    return [name for tool in result["tools"] if (name := tool["name"]) not in ("tool_search", "call_tool")]


class TestForgedValues:
    @every(("label", "value"), FORGED.items())
    @every("channel", ["header", "query"])
    def test_one_over_http_is_refused_with_what_is_wrong(
        self, http: RawHttp, label: str, value: str, channel: str
    ) -> None:
        query, headers = (f"?active={quote(value)}", ()) if channel == "query" else ("", (("x-mcp-active", value),))
        request, routing = modern_request("tools/list")
        refused = http.send("POST", f"/mcp{query}", [*routing, *headers], request)
        assert refused.status == 400
        assert sorted(refused.json["error"]["data"]) == ["hint", "source", "value", "what"]
        assert len(refused.body) < 700
        assert listed(ModernCaller(http, "", ()).ask("tools/list").result) == []

    @every(("label", "value"), [*FORGED.items(), *IN_JSON.items()])
    @every("method", ["tools/list", "tools/call"])
    def test_one_in_meta_is_refused_with_what_is_wrong(
        self, http: RawHttp, label: str, value: Any, method: str
    ) -> None:
        params = {"_meta": {META: {"active": value}}, **(searched("note")[1] if method == "tools/call" else {})}
        with closing(LegacyCaller(http, "", ())) as session:
            for caller in (ModernCaller(http, "", ()), session):
                error = caller.ask(method, params).message["error"]
                assert error["code"] == -32602
                assert sorted(error["data"]) == ["hint", "source", "value", "what"]
                assert len(json.dumps(error)) < 1500
            assert listed(session.ask("tools/list").result) == []

    def test_one_over_a_pipe_is_refused_and_the_next_request_served(self) -> None:
        with stdio_caller(LAUNCH) as caller:
            for value in [*FORGED.values(), *IN_JSON.values()]:
                refused = caller.ask("tools/list", {"_meta": {META: {"active": value}}})
                assert refused.message["error"]["code"] == -32602
            assert listed(caller.ask("tools/list").result) == []

    def test_a_header_of_a_megabyte_is_refused_and_the_next_request_served(self, process: HttpProcess) -> None:
        parts = urlsplit(process.url)
        with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30) as connection:
            head = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx-mcp-active: " + b"a," * 500_000
            try:
                connection.sendall(head)
                answer = connection.recv(4096)
            except ConnectionError:
                answer = b""
        assert answer == b"" or answer.split(b" ")[1] in (b"400", b"431")
        with closing(RawHttp(process.url)) as http:
            assert listed(ModernCaller(http, "", ()).ask("tools/list").result) == []

    def test_values_that_never_come_again_take_no_more_memory(self, process: HttpProcess, http: RawHttp) -> None:
        def bring(n: int) -> None:
            value = ",".join(f"tool_{n}_{i}" for i in range(500))
            ModernCaller(http, "", (("x-mcp-active", value),)).ask("tools/list")

        for n in range(200):
            bring(n)
        before = process.rss_kib()
        for n in range(200, 600):
            bring(n)
        assert process.rss_kib() - before < 30_000

    def test_names_that_nobody_bears_are_dropped_and_the_others_kept(self, http: RawHttp) -> None:
        value = ",".join([*(f"tool_{n}" for n in range(400)), *PERMITTED])
        result = ModernCaller(http, "", (("x-mcp-active", value),)).ask("tools/list").result
        assert result["_meta"][META]["active"] == ",".join(PERMITTED)


class TestBrokenOff:
    def test_a_client_that_goes_during_a_search_harms_nobody(self, http: RawHttp, process: HttpProcess) -> None:
        parts = urlsplit(process.url)
        request, headers = modern_request(*searched("read a note"))
        body = json.dumps(request).encode()
        head = "".join(f"{key}: {value}\r\n" for key, value in headers)
        for _ in range(50):
            with socket.create_connection((str(parts.hostname), int(parts.port or 0))) as connection:
                connection.sendall(
                    f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}content-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
        assert b"read_note" in ModernCaller(http, "", ()).ask(*searched("read a note")).raw

    def test_a_search_that_is_cancelled_leaves_its_session_as_it_was_or_as_it_wanted(self, http: RawHttp) -> None:
        with closing(LegacyCaller(http, "", ())) as session:
            protocol = [ACCEPT, ("mcp-protocol-version", LEGACY), ("mcp-session-id", str(session.session))]
            for n in range(20):
                request = {**jsonrpc(*searched("select:read_note")), "id": 1000 + n}
                stream = http.stream("/mcp", protocol, request)
                cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1000 + n}}
                http.send("POST", "/mcp", protocol, cancelled)
                stream.close()
            assert listed(session.ask("tools/list").result) in ([], ["read_note"])
            session.ask(*searched("select:send_mail"))
            assert "send_mail" in listed(session.ask("tools/list").result)

    def test_a_server_that_is_stopped_during_searches_ends(self) -> None:
        with served(LAUNCH) as process, ExitStack() as stack:
            for n in range(8):
                http = stack.enter_context(closing(RawHttp(process.url)))
                request, headers = modern_request(*searched(f"read note {n}"))
                stack.callback(http.stream("/mcp", headers, request).close)
            process.process.send_signal(signal.SIGTERM)
            assert process.process.wait(30) in (0, -signal.SIGTERM)


class TestClientsThatDoNotRead:
    def test_one_whose_list_changes_holds_up_no_other(self, process: HttpProcess, http: RawHttp) -> None:
        with closing(LegacyCaller(http, "", ())) as idle, closing(LegacyCaller(http, "", ())) as other:
            protocol = [ACCEPT, ("mcp-protocol-version", LEGACY), ("mcp-session-id", str(idle.session))]
            streams = [
                http.stream("/mcp", protocol, {**jsonrpc(*call(name)), "id": n}) for n, name in enumerate(PERMITTED)
            ]
            try:
                for name in PERMITTED:
                    other.ask(*searched(f"select:{name}"))
                assert listed(other.ask("tools/list").result) == list(PERMITTED)
                for stream in streams:
                    while b'"id":' not in stream.event():
                        pass
                assert sorted(listed(idle.ask("tools/list").result)) == sorted(PERMITTED)
            finally:
                for stream in streams:
                    stream.close()
