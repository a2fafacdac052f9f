"""`max_tools` bounds a whole list, entry tools and pins in it."""

from __future__ import annotations

import pytest
from fastmcp import Client

from tests.search.test_active_set import shop

pytestmark = pytest.mark.anyio
TOP = ["tool_search", "call_tool", "create_invoice", "create_branch"]


async def test_a_list_has_no_more_however_little_that_is(tmp_path):
    for most in [1, 2, 3, 4]:
        server = shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_MAX_TOOLS=str(most), MCP_PINNED_TOOLS="create_*")
        async with Client(server, mode="legacy") as client:
            assert [tool.name for tool in await client.list_tools()] == TOP[:most]
            await client.call_tool("read_photo")
            assert len(await client.list_tools()) == most
