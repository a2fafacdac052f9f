"""What is told of a tool that is called, listed or recorded: of which server it is, and what it costs."""

from __future__ import annotations

import pytest
from fastmcp import FastMCP

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.seam.host import ToolFacts

pytestmark = pytest.mark.anyio


def look(path: str) -> str:
    """Look at a file."""
    return path


async def facts(server: AgentServer) -> ToolFacts:
    await server.components("tool")
    return server.tool_facts(await server.catalog("tool"), "look")


async def test_are_those_of_the_server_that_has_it_by_now() -> None:
    server, other = create_mcp_server("one", environ={"MCP_GRAPH": "off"}), FastMCP("other")
    server.tool(look)
    before = await facts(server)
    server.local_provider.remove_tool("look")
    other.tool(look)
    server.mount(other)
    after = await facts(server)
    assert (before.server, after.server) == ("", "other")
    assert before.tokens == after.tokens > 0
