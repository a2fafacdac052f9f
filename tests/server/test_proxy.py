"""Tools of an upstream reached over HTTP: one verdict, made here, on the names that callers see."""

from __future__ import annotations

import pytest
from fastmcp import Client
from fastmcp.server import create_proxy

from agent_utilities import create_mcp_server
from tests.every import every
from tests.server.servers import log_server, over_http, running, tool_names

pytestmark = pytest.mark.anyio


@every("mode", ["auto", "legacy"])
@every(
    ("url", "headers"),
    [
        ("/mcp?tools=far_tail_log,far_delete_log", {}),
        ("/mcp", {"x-mcp-enabled-tools": "far_tail_log,far_delete_log"}),
    ],
)
async def test_a_proxied_upstream_is_under_the_verdict(mode, url, headers):
    with running(log_server()) as upstream:
        parent = create_mcp_server("parent", environ={"MCP_DISABLED_TAGS": "delete"})
        parent.mount(create_proxy(f"{upstream}/mcp"), namespace="far")
        app, client = over_http(parent, url=url, headers=headers, mode=mode)
        async with app.router.lifespan_context(app), client:
            assert await tool_names(client) == ["far_tail_log"]
            assert (await client.call_tool("far_tail_log")).data == "tail of app.log"
            denied = await client.call_tool("far_delete_log", raise_on_error=False)
            assert denied.content[0].text == "Unknown tool: 'far_delete_log'"


async def test_the_upstreams_own_bounds_hold_too():
    with running(log_server(environ={"MCP_READ_ONLY": "true"})) as upstream:
        parent = create_mcp_server("parent", environ={})
        parent.mount(create_proxy(f"{upstream}/mcp"), namespace="far")
        async with Client(parent) as client:
            assert await tool_names(client) == ["far_tail_log", "far_search_logs"]
