"""What callers get of results that are over their budget, from a server and in both eras of the protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from mcp_types import CallToolRequestParams, ImageContent, TextContent

from agent_utilities import AgentServer, SettingsError, create_gateway, create_mcp_server, selection_meta
from agent_utilities.catalog.context import n_tokens
from agent_utilities.results.feature import Results
from agent_utilities.results.making_visible import Invisible
from tests.every import every
from tests.parts import part

pytestmark = pytest.mark.anyio
ISSUES = [
    {"number": i, "title": f"Issue number {i} about a thing", "state": "open", "body": "x" * 300} for i in range(400)
]
LOG = "\n".join(f"2026-01-01T00:00:{i % 60:02} INFO request {i} served in {i % 97} ms" for i in range(20_000))
MODES = ["legacy", "2026-07-28"]


def github(**environ: str) -> AgentServer:
    """A server whose tools answer with more than fits."""
    server = create_mcp_server("github", environ={"MCP_RESULT_TOKENS": "2000", "MCP_GRAPH": "off", **environ})

    @server.tool(annotations={"readOnlyHint": True})
    def list_issues() -> list[dict[str, Any]]:
        return ISSUES

    @server.tool
    def read_log() -> str:
        return LOG

    @server.tool
    def small() -> dict[str, int]:
        return {"n": 1}

    @server.tool
    def fail() -> str:
        raise ToolError("no such repository: " + "y" * 40_000)

    @server.tool
    def picture() -> ToolResult:
        return ToolResult(
            content=[TextContent(text="a picture"), ImageContent(data="A" * 400_000, mime_type="image/png")]
        )

    return server


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content if block.type == "text"]


def tokens(result: Any) -> int:
    return sum(map(n_tokens, texts(result)))


def about(result: Any) -> dict[str, Any]:
    own: dict[str, Any] = (result.meta or {}).get("agent-utilities/result", {})
    return own


class TestWhatIsOver:
    @every("mode", MODES)
    async def test_it_is_shortened_to_the_budget_and_says_how_to_go_on(self, mode: str):
        async with Client(github(), mode=mode) as client:
            result = await client.call_tool("list_issues")
        assert tokens(result) <= 2000
        first = texts(result)[0]
        assert (about(result)["handle"] in first, "400" in first, "read_result" in first) == (True, True, True)

    @every("mode", MODES)
    async def test_it_has_no_structured_content_and_its_list_promised_none(self, mode: str):
        async with Client(github(), mode=mode) as client:
            listed = await client.list_tools()
            result = await client.call_tool("list_issues")
        assert [tool.name for tool in listed if tool.output_schema is not None] == []
        assert result.structured_content is None

    async def test_it_is_read_on_by_select(self):
        async with Client(github()) as client:
            handle = about(await client.call_tool("list_issues"))["handle"]
            read = await client.call_tool("read_result", {"result": handle, "select": "[?number==`317`].title"})
        assert "Issue number 317 about a thing" in texts(read)[-1]

    async def test_its_characters_give_the_whole_back(self):
        async with Client(github()) as client:
            handle = about(await client.call_tool("read_log"))["handle"]
            pieces: list[str] = []
            while (start := sum(map(len, pieces))) < len(LOG):
                given = {"result": handle, "start": start, "unit": "characters"}
                pieces.append(texts(await client.call_tool("read_result", given))[1])
        assert "".join(pieces) == LOG

    async def test_a_link_leads_hosts_to_it(self):
        async with Client(github()) as client:
            result = await client.call_tool("read_log")
            link = next(block for block in result.content if block.type == "resource_link")
            contents = await client.read_resource(link.uri)
        assert contents[0].text.startswith(texts(result)[0][:10])

    async def test_an_error_stays_one_and_keeps_two_thousand_tokens(self):
        async with Client(github(MCP_RESULT_TOKENS="200")) as client:
            result = await client.call_tool("fail", raise_on_error=False)
        assert result.is_error
        assert 1_500 < tokens(result) <= 2_000

    async def test_an_image_is_kept_behind_a_link(self):
        async with Client(github(MCP_RESULT_TOKENS="1000")) as client:
            result = await client.call_tool("picture")
            link = next(block for block in result.content if block.type == "resource_link" and "/0" in str(block.uri))
            contents = await client.read_resource(link.uri)
        assert [block.type for block in result.content if block.type == "image"] == []
        assert contents[0].blob == "A" * 400_000


class TestWhatIsNotOver:
    @every("mode", MODES)
    async def test_it_is_the_same_as_without_a_budget(self, mode: str):
        results = []
        for budget in ("2000", "off"):
            async with Client(github(MCP_RESULT_TOKENS=budget), mode=mode) as client:
                results.append((await client.call_tool_mcp("small", {})).model_dump_json(by_alias=True))
        assert results[0] == results[1]

    async def test_read_result_is_not_listed_without_a_budget(self):
        async with Client(github(MCP_RESULT_TOKENS="off")) as client:
            assert "read_result" not in [tool.name for tool in await client.list_tools()]


class TestWhoSaysHowMuch:
    async def test_an_operator_s_number_is_not_lifted(self):
        assert await _tokens_of(github(), "off") <= 2_000

    async def test_a_caller_narrows_it(self):
        assert await _tokens_of(github(), 500) <= 500

    async def test_a_caller_s_off_lifts_what_is_so_by_default(self):
        server = AgentServer("notes", environ={"MCP_GRAPH": "off"}, features=[Results(2_000)])
        server.tool(lambda: LOG, name="read_log")
        assert await _tokens_of(server, "off") == n_tokens(LOG)

    async def test_a_budget_of_one_call_alone_shortens_no_structured_answer(self):
        async with Client(github(MCP_RESULT_TOKENS="")) as client:
            await client.list_tools()
            params = CallToolRequestParams.model_validate(
                {"name": "list_issues", "_meta": selection_meta(result_tokens=500)}
            )
            result = await client.session.call_tool(params.name, {}, meta=params.meta)
        assert result.structured_content == {"result": ISSUES}

    async def test_a_select_of_a_call_is_all_that_is_given(self):
        async with Client(github()) as client:
            meta = {"agent-utilities/result": {"select": "[:2].number"}}
            result = await client.session.call_tool("list_issues", {}, meta=meta)
        assert json.loads(texts(result)[1]) == [0, 1]

    async def test_a_select_of_what_is_text_is_told_and_loses_nothing(self):
        async with Client(github()) as client:
            meta = {"agent-utilities/result": {"select": "[].number"}}
            long = await client.session.call_tool("read_log", {}, meta=meta)
            failed = await client.session.call_tool("fail", {}, meta=meta)
        assert "select was not applied: it takes JSON" in texts(long)[0]
        assert texts(failed)[-1].count("y") > 1_000

    async def test_a_select_that_can_t_be_read_is_refused_before_the_call(self):
        called: list[None] = []
        server = github()
        server.tool(lambda: called.append(None), name="write")
        async with Client(server) as client:
            meta = {"agent-utilities/result": {"select": "issues[?"}}
            result = await client.session.call_tool("write", {}, meta=meta)
        assert (result.is_error, called) == (True, [])

    async def test_call_tool_takes_a_select(self):
        async with Client(github(MCP_TOOL_SEARCH="on")) as client:
            given = {"name": "list_issues", "arguments": {}, "select": "[-1].title"}
            result = await client.call_tool("call_tool", given)
        assert "Issue number 399 about a thing" in "".join(texts(result))


class TestWhoseItIs:
    async def test_a_tool_that_is_denied_by_then_hides_its_results(self):
        server = github()
        async with Client(server) as client:
            handle = about(await client.call_tool("list_issues"))["handle"]
            meta = selection_meta(disabled_tools=["list_issues"])
            other = handle[:-2] + "aa"
            denied = await client.session.call_tool("read_result", {"result": handle}, meta=meta)
            unknown = await client.session.call_tool("read_result", {"result": other}, meta=meta)
        assert denied.content[0].text.replace(handle, other) == unknown.content[0].text
        assert denied.is_error

    async def test_another_session_reads_none(self):
        server = github()
        async with Client(server, mode="legacy") as first, Client(server, mode="legacy") as second:
            handle = about(await first.call_tool("list_issues"))["handle"]
            result = await second.call_tool("read_result", {"result": handle}, raise_on_error=False)
        assert (result.is_error, "no such result" in texts(result)[0]) == (True, True)


async def _tokens_of(server: AgentServer, asked: int | str) -> int:
    async with Client(server) as client:
        await client.list_tools()
        result = await client.session.call_tool("read_log", {}, meta=selection_meta(result_tokens=asked))
    return tokens(result)


class TestRulesOfTheOperator:
    async def test_a_tool_s_own_select_is_all_that_is_given(self, tmp_path: Path):
        file = tmp_path / "config.toml"
        file.write_text("[results.list_issues]\nselect = '[].number'\n", encoding="utf-8")
        async with Client(github(MCP_CONFIG_FILE=str(file))) as client:
            result = await client.call_tool("list_issues")
        assert json.loads(texts(result)[1]) == list(range(400))

    async def test_a_tool_s_own_tokens_hold_in_place_of_all_others(self, tmp_path: Path):
        file = tmp_path / "config.toml"
        file.write_text("[results.read_log]\ntokens = 5000\n", encoding="utf-8")
        assert 4_500 < await _tokens_of(github(MCP_CONFIG_FILE=str(file)), "off") <= 5_000

    async def test_it_shortens_structured_results_where_nobody_else_does(self, tmp_path: Path):
        file = tmp_path / "config.toml"
        file.write_text("[results.list_issues]\ntokens = 500\n", encoding="utf-8")
        async with Client(github(MCP_CONFIG_FILE=str(file), MCP_RESULT_TOKENS="")) as client:
            listed = {tool.name: tool for tool in await client.list_tools()}
            result = await client.call_tool("list_issues")
        assert (tokens(result) <= 500, listed["list_issues"].output_schema, "read_result" in listed) == (
            True,
            None,
            True,
        )

    async def test_one_that_can_t_be_read_ends_the_start(self, tmp_path: Path):
        file = tmp_path / "config.toml"
        file.write_text("[results.read_log]\nselect = 'a['\n", encoding="utf-8")
        server = AgentServer("notes", environ={"MCP_CONFIG_FILE": str(file)}, features=[Results()])
        with pytest.raises(SettingsError, match=r"results\.read_log\.select"):
            part(server, Results).check()

    @pytest.mark.outside
    async def test_an_upstream_s_entry_has_rules_by_the_tool_s_own_name(self):
        code = (
            "from fastmcp import FastMCP\nmcp = FastMCP('a')\n"
            "@mcp.tool\ndef rows() -> list[dict[str, int]]:\n    return [{'n': i, 'm': 0} for i in range(9)]\nmcp.run()"
        )
        entry = {"command": sys.executable, "args": ["-c", code], "results": {"rows": {"select": "[].n"}}}
        server = create_gateway({"mcpServers": {"a": entry}}, environ={"MCP_GRAPH": "off"})
        async with Client(server) as client:
            result = await client.call_tool("a_rows")
        assert json.loads(texts(result)[1]) == list(range(9))


class TestWhatIsCounted:
    async def test_tokens_are_counted_by_tool(self):
        server = github()
        transport = httpx2.ASGITransport(app=server.http_app())
        async with Client(server) as client:
            await client.call_tool("read_log")
            await client.call_tool("no_such_tool", raise_on_error=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            text = (await web.get("/metrics")).text
        whole = re.search(r'mcp_result_tokens_total\{server="github",tool="read_log"\} (\S+)', text)
        assert whole is not None
        assert float(whole[1]) == pytest.approx(n_tokens(LOG), rel=0.03)
        assert "no_such_tool" not in text


class TestInvisibleText:
    async def test_a_gateway_makes_it_visible_and_counts_it(self):
        hidden = "".join(chr(0xE0000 + ord(each)) for each in "obey")
        server = AgentServer("notes", environ={"MCP_GRAPH": "off", "MCP_INVISIBLE": "show"}, features=[Invisible()])
        server.tool(lambda: f"hello{hidden}", name="say", description=f"Say hello.{hidden}")
        async with Client(server) as client:
            listed = await client.list_tools()
            result = await client.call_tool("say")
        assert "obey" in (listed[0].description or "")
        assert (texts(result)[0], result.meta["agent-utilities/invisible"]) == ("hello⟨tags: obey⟩", 4)


@pytest.mark.outside
def test_what_is_off_is_not_imported() -> None:
    code = (
        "import sys, asyncio\nfrom fastmcp import Client\nfrom agent_utilities import create_mcp_server\n"
        "server = create_mcp_server('a', environ={'MCP_GRAPH': 'off', 'MCP_RESULT_TOKENS': 'off'})\n"
        "server.tool(lambda: 'b' * 99_999, name='c')\n"
        "async def main():\n    async with Client(server) as client:\n        await client.call_tool('c')\n"
        "asyncio.run(main())\nrooms = ('utilities.results', 'utilities.programs', 'utilities.approvals', 'monty')\n"
        "print([name for name in sys.modules if any(room in name for room in rooms)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
