"""The ordinary client sends a selection with a request of its own."""

from __future__ import annotations

import pytest
from fastmcp import Client
from mcp_types import PaginatedRequestParams

from agent_utilities import selection_meta
from tests.every import every
from tests.server.servers import log_server

pytestmark = pytest.mark.anyio


@every("mode", ["auto", "legacy"])
async def test_with_a_list_and_with_a_call(mode):
    async with Client(log_server(), mode=mode) as client:
        asked = PaginatedRequestParams.model_validate({"_meta": selection_meta(tools=["tail_log"])})
        listed = await client.session.list_tools(params=asked)
        assert [tool.name for tool in listed.tools] == ["tail_log"]
        refused = await client.call_tool("search_logs", meta=selection_meta(tools=["tail_log"]), raise_on_error=False)
        assert refused.content[0].text == "Unknown tool: 'search_logs'"
        served = await client.call_tool("search_logs", {"text": "x"})
        assert served.data == "lines with x"
