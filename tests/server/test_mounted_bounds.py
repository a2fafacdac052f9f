"""A server that is mounted in another keeps the bounds that its own operator set, under its own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import FastMCPError
from fastmcp.server import create_proxy
from mcp.shared.exceptions import MCPError

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.selection.parse import read_env
from tests.every import every
from tests.server.servers import log_server, tool_names

pytestmark = pytest.mark.anyio

FILE = "tools = ['in_tail_log', 'in_search_logs']\ndisabled_tags = ['delete']"
READ_ONLY = {"in_tail_log", "in_search_logs"}


def bounded() -> AgentServer:
    return log_server(environ={"MCP_DISABLED_TAGS": "write"})


def outer_of(*mounted: FastMCP[Any], environ: dict[str, str] | None = None) -> AgentServer:
    outer = create_mcp_server("outer", environ={"MCP_GRAPH": "off", **(environ or {})})
    for server in mounted:
        outer.mount(server, namespace="in")
    return outer


def through_a_plain_server() -> AgentServer:
    middle = FastMCP("middle")
    middle.mount(bounded())
    return outer_of(middle)


def through_a_bounded_server() -> AgentServer:
    middle = create_mcp_server("middle", environ={"MCP_GRAPH": "off"})
    middle.mount(bounded())
    return outer_of(middle)


async def refusal(request: Any) -> str:
    """Await a request that must be refused, and return what the caller is told."""
    with pytest.raises((FastMCPError, MCPError)) as caught:
        await request
    return str(caught.value)


@every(
    "outer",
    [
        pytest.param(lambda: outer_of(bounded()), id="mounted"),
        pytest.param(lambda: outer_of(create_proxy(bounded())), id="proxied"),
        pytest.param(through_a_plain_server, id="mounted in a plain server that is mounted"),
        pytest.param(through_a_bounded_server, id="mounted in a server that is mounted"),
    ],
)
async def test_what_its_operator_denies_is_neither_listed_nor_served(outer: Callable[[], AgentServer]) -> None:
    async with Client(outer()) as client:
        assert set(await tool_names(client)) == READ_ONLY
        assert [prompt.name for prompt in await client.list_prompts()] == ["in_triage"]
        assert [str(resource.uri) for resource in await client.list_resources()] == ["log://in/status"]
        assert "Unknown tool" in await refusal(client.call_tool("in_delete_log"))
        assert await refusal(client.get_prompt("in_cleanup"))
        assert (await client.call_tool("in_tail_log")).data == "tail of app.log"


async def test_no_template_answers_for_a_resource_that_its_operator_denies() -> None:
    async with Client(outer_of(bounded())) as client:
        denied = await refusal(client.read_resource("log://in/keys"))
        assert "Unknown resource" in denied
        assert (await client.read_resource("log://in/other"))[0].text == "by name: other"


async def test_both_operators_bounds_hold() -> None:
    async with Client(outer_of(bounded(), environ={"MCP_DISABLED_TOOLS": "in_tail_log"})) as client:
        assert await tool_names(client) == ["in_search_logs"]


async def test_an_allow_list_of_an_environment_that_both_read_names_tools_as_callers_see_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCP_GRAPH", "off")
    monkeypatch.setenv("MCP_ENABLED_TOOLS", "in_refund,in_wipe")
    monkeypatch.setenv("MCP_DISABLED_TOOLS", "wipe")
    inner, outer = create_mcp_server("billing"), create_mcp_server("outer")
    inner.tool(lambda: "refunded", name="refund")
    inner.tool(lambda: "wiped", name="wipe")
    outer.mount(inner, namespace="in")
    async with Client(outer) as client:
        assert await tool_names(client) == ["in_refund"]
        assert "Unknown tool" in await refusal(client.call_tool("in_wipe"))


async def test_its_own_launch_holds_where_it_is_mounted() -> None:
    inner = log_server(environ={"MCP_DISABLED_TAGS": "write"})
    outer = outer_of(inner)
    async with Client(outer) as client:
        assert set(await tool_names(client)) == READ_ONLY
        inner.surface.launch(read_env({"MCP_DISABLED_TOOLS": "tail_log"}))
        assert await tool_names(client) == ["in_search_logs"]


async def test_a_file_that_both_read_names_tools_as_callers_see_them(tmp_path: Any) -> None:
    (tmp_path / "agent-utilities.toml").write_text(FILE)
    environ = {"MCP_GRAPH": "off", "MCP_CONFIG_FILE": str(tmp_path / "agent-utilities.toml")}
    outer, inner = create_mcp_server("outer", environ=environ), create_mcp_server("inner", environ=environ)

    @inner.tool(tags={"logs"})
    def tail_log() -> str:
        return "tail"

    @inner.tool(tags={"delete"})
    def search_logs() -> str:
        return "search"

    outer.mount(inner, namespace="in")
    async with Client(outer) as client:
        assert [tool.name for tool in await client.list_tools()] == ["in_tail_log"]
