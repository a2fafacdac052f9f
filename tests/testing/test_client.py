"""The in-process client, on a server like an author's."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from agent_utilities import AgentServer, SelectionError, create_mcp_server
from agent_utilities.testing import client, memory_graph

pytestmark = pytest.mark.anyio
KEY = "agent-utilities/selection"


def notes(**environ: str) -> AgentServer:
    server = create_mcp_server("notes", environ={"MCP_GRAPH_DEADLINE_MS": "30000", **environ}, graph=memory_graph())

    @server.tool(tags={"read"}, annotations={"readOnlyHint": True})
    def read_note(name: str) -> str:
        """Show a note."""
        return f"the note {name}"

    @server.tool(tags={"write"})
    def write_note(name: str) -> str:
        """Keep a note."""
        return "written"

    return server


async def names(server: AgentServer, **options: Any) -> list[str]:
    async with client(server, **options) as caller:
        return [tool.name for tool in await caller.list_tools()]


async def test_a_caller_without_a_selection_sees_every_tool():
    assert await names(notes()) == ["read_note", "write_note"]


async def test_a_selection_bounds_the_list_in_both_eras():
    for mode in ["legacy", "2026-07-28"]:
        assert await names(notes(), tools=["read_note"], mode=mode) == ["read_note"]


async def test_a_denied_tool_can_not_be_called():
    async with client(notes(), disabled_tags=["write"]) as reader:
        with pytest.raises(ToolError, match="Unknown tool"):
            await reader.call_tool("write_note", {"name": "a"})


async def test_an_operators_bound_holds_beneath_it():
    assert await names(notes(MCP_READ_ONLY="true"), tools=["read_note", "write_note"]) == ["read_note"]


async def test_headers_are_sent():
    assert await names(notes(), headers={"x-mcp-disabled-tags": "read"}) == ["write_note"]


async def test_a_query_is_answered_on_the_graph():
    async with client(notes(), query="show") as caller:
        listed = await caller.session.list_tools()
    assert ([tool.name for tool in listed.tools], listed.meta[KEY]["status"]) == (["read_note"], "fresh")


async def test_a_server_can_be_called_again_after_its_client_is_gone():
    server = notes()
    assert await names(server, read_only=True) == await names(server, tags=["read"])


async def test_a_selection_that_can_not_be_sent_is_refused():
    with pytest.raises(SelectionError):
        await names(notes(), tools=["a,b"])


async def test_a_failure_in_its_block_is_raised_as_it_is():
    with pytest.raises(KeyError, match="mine"):
        async with client(notes()):
            raise KeyError("mine")
