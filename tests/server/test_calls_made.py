"""Calls that a feature makes on behalf of a call, by `make_call`: each is judged and counted by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.tools.base import Tool, ToolResult
from mcp.shared.exceptions import MCPError

from agent_utilities import AgentServer, Feature, create_mcp_server, selection_meta
from agent_utilities.access.record.log import all_files
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import Asked, OwnTool, Refusal
from agent_utilities.seam.request import Call, Request, ToolCalled, make_call, request_in_force
from tests.every import every
from tests.gateway.gateways import served
from tests.gateway.upstreams.supervised import script
from tests.server.servers import over_http

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
MODES = ["legacy", "2026-07-28"]


class Makes(Feature):
    """Has a tool `make` that makes the calls it is told of, one after another or all at once."""

    name = "makes"

    async def tools_at_head(self, request: Request, decision: Any) -> Sequence[Tool]:
        return [self._tool(request)]

    async def tool(self, name: str, request: Request) -> Tool | None:
        return self._tool(request) if name == "make" else None

    def _tool(self, request: Request) -> Tool:
        async def made(name: str, arguments: Mapping[str, Any]) -> str:
            try:
                result = await make_call(request, name, arguments, within="p_1")
            except Asked as asked:
                return f"asked {asked.question}"
            except MCPError as error:
                return f"error {error}"
            text = "".join(block.get("text", "?") for block in result["content"])
            return f"! {text}" if result.get("isError") else text

        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            calls = [made(name, given) for name, given in arguments["calls"]]
            texts = await asyncio.gather(*calls) if arguments.get("together") else [await each for each in calls]
            return ToolResult(content=json.dumps(texts))

        return OwnTool(name="make", description="", parameters={"type": "object"}, answer=answer)


class Asks(Feature):
    """Has calls of `write` wait, until it is told not to."""

    name = "asks"
    before = ("quotas",)

    def __init__(self) -> None:
        self.waits, self.seen, self.events = True, list[str](), list[tuple[str, str, bool, bool]]()

    async def admit(self, request: Request, call: Call) -> None:
        if call.name == "write" and self.waits:
            result = {"resultType": "complete", "content": [{"type": "text", "text": "it waits"}], "isError": True}
            raise Asked(result, "q_1" if request.within else None)

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        if call is not None:
            self.seen.append(f"{call.name} {request.within}".strip())
        return result

    hears = (ToolCalled,)

    def notify(self, event: Event) -> None:
        if isinstance(event, ToolCalled):
            self.events.append((event.name, event.request.within, event.ok, event.is_asked))


def server(*features: Feature, **environ: str) -> AgentServer:
    """Return a server of four tools, one of which may turn another off."""
    mcp = create_mcp_server("made", environ={"MCP_GRAPH": "off", **environ}, features=[Makes(), *features])

    @mcp.tool(annotations={"readOnlyHint": True}, tags={"reads"})
    def read(text: str = "x") -> str:
        return f"read {text}"

    @mcp.tool
    def write(text: str = "x") -> str:
        return f"wrote {text}"

    @mcp.tool
    def off(name: str) -> str:
        mcp.disable(names={name})
        return "off"

    @mcp.tool
    def fail() -> str:
        raise ToolError("out of paper")

    return mcp


async def make(client: Client[Any], *names: Any, together: bool = False, **options: Any) -> list[str]:
    """Return what calls came to that were made on behalf of one."""
    calls = [(each, {}) if isinstance(each, str) else each for each in names]
    result = await client.call_tool("make", {"calls": calls, "together": together}, **options)
    found: list[str] = json.loads(result.content[0].text)
    return found


def lines(path: Path, *events: str) -> list[dict[str, Any]]:
    """Return the lines of a record of some events."""
    texts = [text for file in all_files(path) for text in file.read_text().splitlines()]
    return [line for line in map(json.loads, texts) if line["event"] in events]


class TestTheVerdict:
    @every("mode", MODES)
    async def test_a_denied_name_is_answered_as_one_that_never_was(self, mode: str):
        async with Client(server(MCP_DISABLED_TOOLS="write"), mode=mode) as client:
            denied, absent = await make(client, "write", "absent")
        assert denied.replace("write", "NAME") == absent.replace("absent", "NAME")

    @every("mode", MODES)
    async def test_it_is_made_anew_for_each_call(self, mode: str):
        async with Client(server(), mode=mode) as client:
            first, _, then = await make(client, "write", ("off", {"name": "write"}), "write")
        assert first == "wrote x"
        assert then.startswith("! Unknown tool")

    @every("mode", MODES)
    async def test_what_the_caller_selects_holds(self, mode: str):
        async with Client(server(), mode=mode) as client:
            texts = await make(client, "read", "write", meta=selection_meta(disabled_tools="write"))
        assert texts[0] == "read x"
        assert texts[1].startswith("! Unknown tool")

    @every("mode", MODES)
    @every(
        ("url", "headers"),
        [("/mcp?read_only=true&tools=make,read,write", {}), ("/mcp", {"x-mcp-disabled-tools": "write"})],
    )
    async def test_so_does_what_its_url_or_headers_select(self, mode: str, url: str, headers: dict[str, str]):
        app, client = over_http(server(), url=url, headers=headers, mode=mode)
        async with app.router.lifespan_context(app), client:
            texts = await make(client, "read", "write")
        assert texts[0] == "read x"
        assert texts[1].startswith("! Unknown tool")

    async def test_wrong_arguments_and_failures_are_results(self):
        async with Client(server()) as client:
            wrong, failed = await make(client, ("read", {"text": 3}), "fail")
        assert wrong.startswith("! ")
        assert failed == "! out of paper"

    async def test_a_feature_that_refuses_is_a_result(self):
        class No(Feature):
            name = "no"

            async def admit(self, request: Request, call: Call) -> None:
                if request.within:
                    raise Refusal("not in programs")

        async with Client(server(No())) as client:
            assert await make(client, "read") == ["! not in programs"]

    async def test_the_request_in_force_is_the_calls_own_and_then_the_callers_again(self):
        found: list[str] = []

        class Sees(Feature):
            name = "sees"

            async def after_request(
                self, request: Request, result: dict[str, Any], call: Call | None
            ) -> dict[str, Any]:
                if call is not None and (in_force := request_in_force()) is not None:
                    found.append(f"{call.name} {in_force.params['name']} {in_force.within}".strip())
                return result

        async with Client(server(Sees())) as client:
            await make(client, "read", "write")
        assert found == ["read read p_1", "write write p_1", "make make"]


class TestMiddlewareOfTheAuthors:
    async def test_it_is_called_with_each(self):
        seen: list[str] = []

        class Sees(Middleware):
            async def on_call_tool(self, context: Any, call_next: Any) -> Any:
                seen.append(context.message.name)
                return await call_next(context)

        mcp = server()
        mcp.add_middleware(Sees())
        async with Client(mcp) as client:
            await make(client, "read", "write")
        assert seen == ["make", "read", "write"]

    async def test_what_it_refuses_is_refused(self):
        class No(Middleware):
            async def on_call_tool(self, context: Any, call_next: Any) -> Any:
                if context.message.name == "write":
                    raise ToolError("not today")
                return await call_next(context)

        mcp = server()
        mcp.add_middleware(No())
        async with Client(mcp) as client:
            assert await make(client, "read", "write") == ["read x", "! not today"]


class TestQuotas:
    @every("mode", MODES)
    async def test_each_counts_and_the_tool_that_makes_them_does_not(self, mode: str, tmp_path: Path):
        async with Client(server(MCP_CONFIG_FILE=quota(tmp_path, 2)), mode=mode) as client:
            texts = await make(client, "read", "read", "read")
        assert texts[:2] == ["read x", "read x"]
        assert texts[2].startswith("! refused by a quota: you may have 2 calls a minute")

    async def test_one_that_is_asked_for_does_not(self, tmp_path: Path):
        asks = Asks()
        async with Client(server(asks, MCP_CONFIG_FILE=quota(tmp_path, 1))) as client:
            assert await make(client, *["write"] * 9) == ["asked q_1"] * 9
            asks.waits = False
            first, then = await make(client, "write", "write")
        assert first == "wrote x"
        assert then.startswith("! refused by a quota")

    async def test_one_of_a_tool_is_its_own(self, tmp_path: Path):
        text = '[quota.tools."write"]\ncalls_per_minute = 1\n'
        async with Client(server(MCP_CONFIG_FILE=quota(tmp_path, 9, text))) as client:
            texts = await make(client, "write", "write", "read")
        assert texts[0] == "wrote x"
        assert "all callers of write together may have 1" in texts[1]
        assert texts[2] == "read x"

    async def test_calls_at_once_are_given_back_by_those_that_are_asked_for(self, tmp_path: Path):
        asks = Asks()
        path = tmp_path / "quotas.toml"
        path.write_text("[quota]\ncalls_at_once = 2\n")
        async with Client(server(asks, MCP_CONFIG_FILE=str(path))) as client:
            assert await make(client, *["write"] * 5) == ["asked q_1"] * 5
            asks.waits = False
            assert await make(client, "write", "read") == ["wrote x", "read x"]


def quota(folder: Path, n: int, more: str = "") -> str:
    """Write a settings file in which a person may have so many calls, and return its path."""
    path = folder / f"quotas{n}.toml"
    path.write_text(f"[quota]\ncalls_per_minute = {n}\n{more}")
    return str(path)


class TestTheRecord:
    @every("mode", MODES)
    @every("kept", ["best effort", "required"])
    async def test_each_has_a_line_before_and_one_after_which_say_within_what(
        self, mode: str, kept: str, tmp_path: Path
    ):
        path = tmp_path / f"{mode}{kept}.jsonl"
        async with Client(server(MCP_AUDIT_FILE=str(path), MCP_AUDIT_MODE=kept), mode=mode) as client:
            await make(client, "read", "fail")
        found = [(each["event"], each["tool"], each.get("within")) for each in lines(path, "call", "result", "refused")]
        assert found == [
            ("call", "make", None),
            ("call", "read", "p_1"),
            ("result", "read", "p_1"),
            ("call", "fail", "p_1"),
            ("result", "fail", "p_1"),
            ("result", "make", None),
        ]
        outcomes = [each["outcome"] for each in lines(path, "result")]
        assert outcomes == ["ok", "error", "ok"]

    async def test_calls_at_once_have_lines_of_their_own(self, tmp_path: Path):
        path = tmp_path / "audit.jsonl"
        async with Client(server(MCP_AUDIT_FILE=str(path))) as client:
            await make(client, *[("read", {"text": str(i)}) for i in range(20)], together=True)
        of_call = [each["call"] for each in lines(path, "call")]
        assert len(set(of_call)) == 21
        assert sorted(of_call) == sorted(each["call"] for each in lines(path, "result"))

    async def test_a_denied_one_and_an_unknown_one_have_one_line(self, tmp_path: Path):
        path = tmp_path / "audit.jsonl"
        async with Client(server(MCP_AUDIT_FILE=str(path), MCP_DISABLED_TOOLS="write")) as client:
            await make(client, "write", "absent")
        found = [(each["tool"], each["verdict"], each["within"]) for each in lines(path, "refused")]
        assert found == [("write", "denied", "p_1"), ("absent", "unknown", "p_1")]

    @every("mode", MODES)
    async def test_one_that_is_asked_for_is_recorded_as_that_alone(self, mode: str, tmp_path: Path):
        path = tmp_path / f"{mode}.jsonl"
        async with Client(server(Asks(), MCP_AUDIT_FILE=str(path)), mode=mode) as client:
            await make(client, "write")
        found = [
            (each["event"], each["tool"], each["verdict"]) for each in lines(path, "asked", "call", "result", "refused")
        ]
        assert found == [
            ("call", "make", "permitted"),
            ("asked", "write", "asked"),
            ("result", "make", "permitted"),
        ]

    @every("mode", MODES)
    async def test_a_plain_call_that_is_asked_for_is_recorded_so_too(self, mode: str, tmp_path: Path):
        path = tmp_path / f"{mode}.jsonl"
        async with Client(server(Asks(), MCP_AUDIT_FILE=str(path)), mode=mode) as client:
            await client.call_tool("write", {}, raise_on_error=False)
        found = [(each["event"], each["tool"]) for each in lines(path, "asked", "call", "result", "refused")]
        assert found == [("asked", "write")]


class TestWhatIsAskedFor:
    @every("mode", MODES)
    async def test_a_plain_call_is_sent_what_it_says(self, mode: str):
        asks = Asks()
        async with Client(server(asks), mode=mode) as client:
            result = await client.call_tool("write", {}, raise_on_error=False)
        assert result.is_error
        assert result.content[0].text == "it waits"
        assert asks.events == [("write", "", False, True)]

    @every("mode", MODES)
    async def test_no_feature_is_shown_a_result_of_it(self, mode: str):
        asks = Asks()
        async with Client(server(asks), mode=mode) as client:
            assert await make(client, "read", "write") == ["read x", "asked q_1"]
        assert asks.seen == ["read p_1", "make"]

    async def test_observers_are_told_what_was_made_and_what_waits(self):
        asks = Asks()
        async with Client(server(asks)) as client:
            await make(client, "read", "write", "fail")
        assert asks.events == [
            ("read", "p_1", True, False),
            ("write", "p_1", False, True),
            ("fail", "p_1", False, False),
            ("make", "", True, False),
        ]

    async def test_it_may_be_made_again_on_behalf_of_the_same_call(self):
        class Once(Asks):
            async def admit(self, request: Request, call: Call) -> None:
                try:
                    await super().admit(request, call)
                finally:
                    self.waits = self.waits and call.name != "write"

        async with Client(server(Once())) as client:
            assert await make(client, "write", "write") == ["asked q_1", "wrote x"]


async def test_results_of_an_upstream_are_not_mixed_up_between_calls_at_once():
    with served(script("plain", "plain_server.py"), features=[Makes()]) as gateway:
        for mode in MODES:
            async with Client(f"{gateway.url}/mcp", mode=mode) as client:
                texts = [f"{mode} {i}" * (1 + i * 50) for i in range(20)]
                calls = [("plain_echo", {"text": each}) for each in texts]
                assert await make(client, *calls, together=True) == texts
                async with Client(f"{gateway.url}/mcp", mode=mode) as other:
                    both = await asyncio.gather(
                        make(client, *calls[:10], together=True), make(other, *calls[10:], together=True)
                    )
                assert [*both[0], *both[1]] == texts


async def test_an_upstreams_error_is_one_of_that_call():
    with served(script("plain", "plain_server.py"), features=[Makes()]) as gateway:
        async with Client(f"{gateway.url}/mcp") as client:
            wrong, right = await make(client, ("plain_add", {"a": "x"}), ("plain_add", {"a": 1, "b": 2}), together=True)
    assert wrong.startswith(("! ", "error "))
    assert right == "3"
