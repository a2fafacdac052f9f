"""Queries that narrow nothing, and one that is too long: served, and told, over every channel."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fastmcp import Client
from mcp_types import PaginatedRequestParams

from agent_utilities import create_mcp_server, selection_meta
from agent_utilities.selection.channels import META_KEY
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.testing import memory_graph
from tests.every import every

pytestmark = pytest.mark.anyio
NAMES = ["git_log", "send_mail", "show_weather"]
LONG = "show the weather " * 700


def server(**environ: str) -> AgentServer:
    made = create_mcp_server("demo", environ={"MCP_GRAPH_DEADLINE_MS": "60000", **environ}, graph=memory_graph())
    for name in NAMES:
        made.tool(lambda: "x", name=name, description=f"A tool that can {name.replace('_', ' ')}.")
    return made


async def asked(query: str, **headers: str) -> dict[str, Any]:
    """Return what `GET /tools` says of a query, in the URL or else in headers."""
    app = server().http_app(host_origin_protection=False)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web,
    ):
        answer = await web.get("/tools", params={"q": query} if query else {}, headers=headers)
        assert answer.status_code == 200
        told: dict[str, Any] = answer.json()
        return told


@every(
    ("query", "cause"),
    [
        ("a", "one letter is no query"),
        ("*", "the query asks for all tools"),
        ("what tools are there?", "the query asks for all tools"),
    ],
)
async def test_it_shows_everything_and_says_why(query: str, cause: str) -> None:
    told = await asked(query)
    assert sorted(tool["name"] for tool in told["tools"]) == NAMES
    assert told["selection"]["cause"] == cause


async def test_a_long_query_is_cut_and_answered_over_url_and_header() -> None:
    for told in (await asked(LONG), await asked("", **{"x-mcp-query": LONG})):
        assert told["selection"]["ranked"][0] == "show_weather"
        assert told["selection"]["cause"].endswith("cut to 8192 bytes")


async def test_a_long_query_is_cut_and_answered_in_meta() -> None:
    async with Client(server()) as client:
        params = PaginatedRequestParams(_meta=selection_meta(query=LONG))
        listed = await client.session.list_tools(params=params)
    told = (listed.meta or {})[META_KEY]
    assert told["ranked"][0] == "show_weather"
    assert told["cause"].endswith("_meta query, cut to 8192 bytes")


async def test_a_star_leafs_through_what_is_permitted() -> None:
    made = server(MCP_TOOL_SEARCH="on", MCP_DISABLED_TOOLS="git_log")
    async with Client(made, mode="legacy") as client:
        found = []
        for _ in range(2):
            result = await client.call_tool("tool_search", {"query": "*", "max_results": 1})
            found += [tool["name"] for tool in (result.structured_content or {})["tools"]]
    assert found == ["send_mail", "show_weather"]
