"""An author's middleware that fails lists of tools, on a server that defers them."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client
from fastmcp.server.middleware import Middleware
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

from agent_utilities import AgentServer, create_mcp_server
from tests.every import every

pytestmark = pytest.mark.anyio


class FailingLists(Middleware):
    """Fails each list of tools."""

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        raise RuntimeError("no list today")


def failing(tool_search: str) -> AgentServer:
    """A server of one tool whose lists fail."""
    environ = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": tool_search}
    server = create_mcp_server("shop", environ=environ)
    server.tool(lambda: "done", name="read_photo", description="Read one photo.")
    server.add_middleware(FailingLists())
    return server


async def called(client: Client[Any], name: str, **arguments: str) -> CallToolResult:
    """Call a tool as a client does that does not list tools for it."""
    params = CallToolRequestParams(name=name, arguments=arguments)
    return await client.session.send_request(CallToolRequest(params=params), CallToolResult)


@every("mode", ["legacy", "auto"])
@every("tool_search", ["off", "on"])
async def test_a_tool_is_called_all_the_same(tool_search, mode):
    async with Client(failing(tool_search), mode=mode) as client:
        assert (await called(client, "read_photo")).content[0].text == "done"


async def test_the_list_itself_fails_as_its_author_has_it():
    for tool_search in ["off", "on"]:
        async with Client(failing(tool_search), mode="legacy") as client:
            with pytest.raises(MCPError):
                await client.list_tools()


async def test_nothing_of_its_tools_is_told_by_instructions_or_search():
    async with Client(failing("on"), mode="legacy") as client:
        assert "photo" not in (client.initialize_result.instructions or "")
        result = await called(client, "tool_search", query="read photo")
        assert result.is_error
        assert "Read one photo" not in str(result.content)
