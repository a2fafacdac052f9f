"""Through a gateway: what its configuration denies can't be found, and `call_tool` is the upstream's own call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.every import every
from tests.gateway.gateways import LONG_S, Served, served
from tests.gateway.test_calls import Person
from tests.gateway.upstreams.supervised import gateway_of, script
from tests.parts import upstreams_of
from tests.wire.http_raw import RawHttp
from tests.wire.search_questions import META, Question, call, masked, searched
from tests.wire.wires import Caller, LegacyCaller, ModernCaller

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
DEFERRED = {"MCP_TOOL_SEARCH": "on", "MCP_RANKER": "lexical"}
HIDDEN = ("up_tool_00000", "up_tool_00003")
QUESTIONS: list[Question] = [
    ("tools/list", {}),
    *(each for name in HIDDEN for each in (searched(name), searched(f"select:{name}"), call(name))),
    *(call("call_tool", name=name, arguments=arguments) for name in HIDDEN for arguments in ({}, {"text": 5})),
    searched("tool number of many", max_results=25),
    searched("echo the text", max_results=25),
    searched("text", server="up"),
    searched("text", server="tool_00000"),
    ("tools/list", {"_meta": {META: {"active": f"{HIDDEN[0]},up_echo,{HIDDEN[1]}"}}}),
    ("tools/list", {"_meta": {META: {"active": f"{HIDDEN[0]},up_echo", "max_tools": 3}}}),
    ("tools/list", {}),
]


def transcript(gateway: Served) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    with closing(RawHttp(gateway.url)) as http:
        modern = ModernCaller(http, "", ())
        said.append(("server/discover", masked(modern.ask("server/discover").raw)))
        with closing(LegacyCaller(http, "", ())) as legacy:
            said.append(("initialize", masked(legacy.opened.raw)))
            for caller in (modern, legacy):
                said.extend([(repr(each), masked(caller.ask(*each).raw)) for each in QUESTIONS])
        said.extend([(path, http.get(path).body.decode()) for path in ("/tools", "/context?definitions=true")])
    return said


class TestDeniedByTheConfiguration:
    def test_no_answer_moves_because_an_upstream_has_a_tool_that_is_denied(self) -> None:
        said: list[list[tuple[str, str]]] = []
        for faults in (["tools=5"], []):
            with served(script("up", "faulty_server.py", *faults, deny={"tool_0*"}), environ=DEFERRED) as gateway:
                said.append(transcript(gateway))
        assert [pair for pair in zip(*said, strict=True) if pair[0] != pair[1]][:1] == []

    def test_a_deny_that_comes_with_a_reload_beats_what_is_active_at_once(self) -> None:
        with served(script("up", "faulty_server.py"), environ=DEFERRED) as gateway, ExitStack() as stack:
            http = stack.enter_context(closing(RawHttp(gateway.url)))
            session = stack.enter_context(closing(LegacyCaller(http, "", ())))
            session.ask(*searched("select:up_echo,up_add"))
            assert listed(session) == ["up_echo", "up_add"]
            denying = gateway_of(script("up", "faulty_server.py", deny={"echo"}))
            asyncio.run_coroutine_threadsafe(upstreams_of(gateway.gateway).reload(denying), gateway.loop).result(LONG_S)
            told = session.ask("tools/list").result
            found = session.ask(*searched("select:up_echo"))
            assert told["_meta"][META]["active"] == "up_add"
            assert found.result["structuredContent"]["tools"] == []
            assert "up_echo" not in json.dumps(found.result["structuredContent"]["unknown"]["up_echo"])
            for question in (call("up_echo", text="x"), call("call_tool", name="up_echo", arguments={"text": "x"})):
                assert session.ask(*question).result["content"][0]["text"] == "Unknown tool: 'up_echo'"


def listed(caller: Caller) -> list[str]:
    return [name for tool in caller.ask("tools/list").result["tools"] if (name := tool["name"]).startswith("up_")]


@pytest.fixture(scope="module")
def asking() -> Iterator[Served]:
    upstreams = script("old", "asking_server.py"), script("new", "asking_server.py", "modern")
    with served(*upstreams, environ=DEFERRED) as gateway:
        yield gateway


EITHER = every("mode", ["legacy", "auto"])
BOTH = every("upstream", ["old", "new"])


class TestCallTool:
    @EITHER
    @BOTH
    @every("name", ["elicit", "sample", "roots", "both", "fail", "tell"])
    async def test_asks_tells_and_answers_as_the_direct_call_does(
        self, asking: Served, mode: str, upstream: str, name: str
    ) -> None:
        seen: list[Any] = []
        for tool, arguments in (
            (f"{upstream}_{name}", {"message": "Who?"}),
            ("call_tool", {"name": f"{upstream}_{name}", "arguments": {"message": "Who?"}}),
        ):
            person = Person()
            async with person.client(asking, mode) as client:
                result = await client.call_tool_mcp(tool, arguments, meta={"x-trace": "1"})
            seen.append((result.model_dump(), person.asked, person.logged, person.progress))
        assert seen[0] == seen[1]

    @EITHER
    @BOTH
    async def test_the_meta_of_the_request_reaches_the_upstream(self, asking: Served, mode: str, upstream: str) -> None:
        async with Person().client(asking, mode) as client:
            sent = {"tracestate": "one=1", "x-trace": "1"}  # a trace crosses, as with a direct call, and nothing else
            result = await client.call_tool_mcp("call_tool", {"name": f"{upstream}_meta"}, meta=sent)
        told = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert (told["tracestate"], "x-trace" in told) == ("one=1", False)

    @EITHER
    @BOTH
    async def test_a_protocol_error_is_the_upstreams(self, asking: Served, mode: str, upstream: str) -> None:
        async with Person().client(asking, mode) as client:
            with pytest.raises(MCPError) as direct:
                await client.call_tool_mcp(f"{upstream}_refuse", {})
            with pytest.raises(MCPError) as by_name:
                await client.call_tool_mcp("call_tool", {"name": f"{upstream}_refuse"})
        assert (by_name.value.error, by_name.value.error.code) == (direct.value.error, -32055)
