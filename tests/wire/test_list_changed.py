"""A client whose list grows by a search, a load or a call is told so once, before the answer: down to the bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Literal

import pytest

from tests.every import every_of
from tests.wire.conversation import LAUNCH
from tests.wire.http_raw import RawHttp
from tests.wire.processes import served
from tests.wire.raw_clients import (
    HELLO,
    INITIALIZED,
    NOTICE,
    Raw,
    RawSession,
    RawSse,
    call,
    raw_stdio,
    search,
    text_of,
)
from tests.wire.wires import ACCEPT, LEGACY, jsonrpc

pytestmark = [pytest.mark.outside, pytest.mark.timeout(300)]

Wire = Literal["stdio", "sse", "session", "json"]
JSON = replace(LAUNCH, env=(*LAUNCH.env, ("FASTMCP_JSON_RESPONSE", "true")))


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[Wire, str]]:
    with served(LAUNCH) as events_server, served(JSON) as json_server:
        yield {"sse": events_server.url, "session": events_server.url, "json": json_server.url}


@pytest.fixture
def stdio() -> Iterator[Raw]:
    with raw_stdio(LAUNCH.command(), LAUNCH.environ) as client:
        yield client


@pytest.fixture
def as_they_come(stdio: Raw, urls: dict[Wire, str]) -> dict[Wire, Raw]:
    """Clients that have shaken hands, over wires on which each message comes when it is sent."""
    return {"stdio": stdio, "sse": RawSse(urls["sse"])}


@pytest.fixture
def with_events(as_they_come: dict[Wire, Raw], urls: dict[Wire, str]) -> dict[Wire, Raw]:
    """Those, and one that is told of a call on its own stream."""
    return {**as_they_come, "session": RawSession(urls["session"])}


@pytest.fixture
def on_each_wire(with_events: dict[Wire, Raw], urls: dict[Wire, str]) -> dict[Wire, Raw]:
    return {**with_events, "json": RawSession(urls["json"])}


@every_of("raw", "on_each_wire")
def test_it_is_said_at_the_start_that_lists_change(raw: Raw) -> None:
    assert raw.hello["capabilities"]["tools"]["listChanged"] is True
    raw.rest()


@every_of("raw", "with_events")
class TestOnTheCallsOwnStream:
    def test_the_notice_of_a_search_comes_before_its_result(self, raw: Raw) -> None:
        notice, result = search(raw, "select:tides")
        assert notice == NOTICE
        assert "tides" in text_of(result)
        raw.rest()

    def test_the_notice_of_a_direct_call_comes_before_its_result(self, raw: Raw) -> None:
        notice, result = call(raw, "wind", subject="Kiel")
        assert (notice, text_of(result)) == (NOTICE, "wind Kiel")
        raw.rest()

    def test_the_notice_of_a_call_by_call_tool_comes_before_its_result(self, raw: Raw) -> None:
        notice, result = call(raw, "call_tool", name="wind", arguments={"subject": "Kiel"})
        assert (notice, text_of(result)) == (NOTICE, "wind Kiel")
        raw.rest()

    def test_what_changes_nothing_is_told_to_nobody(self, raw: Raw) -> None:
        search(raw, "select:tides")
        came = [*search(raw, "select:tides"), *call(raw, "tides"), *search(raw, "select:no_such_tool")]
        assert [message for message in came if "method" in message] == []
        raw.rest()

    def test_each_change_is_told_once_and_on_no_other_stream(self, raw: Raw) -> None:
        came = [*search(raw, "select:tides"), *call(raw, "wind"), *search(raw, "select:pollen,sunrise")]
        assert [message for message in came if "method" in message] == [NOTICE] * 3
        assert raw.rest() == []

    def test_words_that_come_with_a_list_are_told_to_nobody_since_the_list_has_it(self, raw: Raw) -> None:
        search(raw, "pollen")  # waits for the index, without which the list would be turned beside it
        meta = {"agent-utilities/selection": {"query": "weather forecast"}}
        came = raw.ask("tools/list", {"_meta": meta})
        assert "forecast" in [tool["name"] for tool in came[0]["result"]["tools"]]
        assert raw.rest() == []


@every_of("raw", "as_they_come")
def test_words_that_come_with_a_call_alone_are_a_turn_of_which_the_client_is_told(raw: Raw) -> None:
    words = {"_meta": {"agent-utilities/selection": {"query": "weather forecast"}}}
    params = {"name": "tool_search", "arguments": {"query": "select:no_such_tool"}}
    came = raw.ask("tools/call", {**params, **words})
    while NOTICE not in came:  # the call does not wait for the turn
        came += raw.ask("ping", {})
    names = [tool["name"] for tool in raw.ask("tools/list", {})[-1]["result"]["tools"]]
    assert "forecast" in names
    assert (came.count(NOTICE), raw.rest()) == (1, [])


class TestWhereAnswersAreJson:
    @pytest.fixture
    def raw(self, urls: dict[Wire, str]) -> RawSession:
        return RawSession(urls["json"])

    def test_the_notice_comes_on_the_sessions_own_stream(self, raw: RawSession) -> None:
        assert search(raw, "select:tides")[-1].keys() == {"jsonrpc", "id", "result"}
        assert json.loads(raw.stream.event()) == NOTICE
        raw.rest()

    def test_each_change_is_told_once(self, raw: RawSession) -> None:
        came = [*search(raw, "select:tides"), *call(raw, "wind"), *call(raw, "wind")]
        assert [message for message in came if "method" in message] == []
        assert raw.rest() == [NOTICE] * 2

    def test_a_client_without_that_stream_is_answered_all_the_same(self, urls: dict[Wire, str]) -> None:
        with closing(RawHttp(urls["json"])) as http:
            opened = http.send("POST", "/mcp", [ACCEPT], jsonrpc("initialize", HELLO))
            headers = [ACCEPT, ("mcp-protocol-version", LEGACY), ("mcp-session-id", opened.headers["mcp-session-id"])]
            http.send("POST", "/mcp", headers, INITIALIZED)
            params = {"name": "tool_search", "arguments": {"query": "select:tides"}}
            assert "tides" in text_of(http.send("POST", "/mcp", headers, jsonrpc("tools/call", params)).json)
            listed = http.send("POST", "/mcp", headers, jsonrpc("tools/list")).json["result"]["tools"]
        assert listed[-1]["name"] == "tides"


def test_the_tool_is_listed_and_can_be_called_before_the_notice_is_read_and_before_the_result() -> None:
    with raw_stdio(LAUNCH.command(), LAUNCH.environ) as raw:
        requests = [
            jsonrpc("tools/call", {"name": "tool_search", "arguments": {"query": "select:tides"}}),
            jsonrpc("tools/call", {"name": "tides", "arguments": {"subject": "Kiel"}}),
        ]
        stdin, stdout = raw.process.stdin, raw.process.stdout
        assert stdin is not None
        assert stdout is not None
        for n, request in enumerate(requests, 100):
            stdin.write(json.dumps({**request, "id": n}).encode() + b"\n")
        stdin.flush()
        came = [json.loads(stdout.readline()) for _ in range(3)]
    assert [message for message in came if "method" in message] == [NOTICE]
    assert [text_of(message) for message in came if message.get("id") == 101] == ["tides Kiel"]
