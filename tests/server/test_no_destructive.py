"""All but what destroys: a tool stays that reads only, or that says it destroys nothing, whoever asks for that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

from agent_utilities import AgentServer, create_mcp_server, selection_headers, selection_meta, selection_url
from agent_utilities.selection.parse import read_cli
from tests.every import every
from tests.server.servers import running

pytestmark = pytest.mark.anyio

HINTS: dict[str, dict[str, bool] | None] = {
    "read": {"readOnlyHint": True},
    "add": {"destructiveHint": False},
    "says_both": {"readOnlyHint": True, "destructiveHint": True},
    "wipe": {"destructiveHint": True},
    "writes": {"readOnlyHint": False},
    "silent": None,
    "again": {"idempotentHint": True},
}
KEPT, GONE = ["read", "add", "says_both"], ["wipe", "writes", "silent", "again"]


def server(**environ: str) -> AgentServer:
    mcp = create_mcp_server("hinted", environ={"MCP_GRAPH": "off", **environ})
    for name, hints in HINTS.items():
        mcp.tool(lambda: "done", name=name, annotations=hints)
    mcp.prompt(lambda: "look", name="triage")
    return mcp


@asynccontextmanager
async def web_of(mcp: AgentServer) -> AsyncIterator[httpx2.AsyncClient]:
    app = mcp.http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web,
    ):
        yield web


async def listed(client: Client[Any], **selection: Any) -> list[str]:
    params = mcp_types.PaginatedRequestParams.model_validate({"_meta": selection_meta(**selection)})
    result = await client.session.send_request(mcp_types.ListToolsRequest(params=params), mcp_types.ListToolsResult)
    return [tool.name for tool in result.tools]


@every("mode", ["legacy", "auto"])
async def test_its_operator_says_so_and_what_is_gone_never_was(mode: str) -> None:
    async with Client(server(MCP_NO_DESTRUCTIVE="true"), mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == KEPT
        assert [prompt.name for prompt in await client.list_prompts()] == ["triage"]
        for name in [*GONE, "never"]:
            refused = await client.call_tool(name, raise_on_error=False)
            assert refused.content[0].text == f"Unknown tool: {name!r}"


async def test_on_the_command_line_and_in_a_profile(tmp_path: Path) -> None:
    launched = server()
    launched.surface.launch(read_cli([("--no-destructive", "true")]))
    file = tmp_path / "agent-utilities.toml"
    file.write_text("no_destructive = false\n[profiles.careful]\nno-destructive = true\n")
    for mcp in (launched, server(MCP_CONFIG_FILE=str(file), MCP_PROFILE="careful")):
        async with Client(mcp) as client:
            assert [tool.name for tool in await client.list_tools()] == KEPT


@pytest.mark.outside
async def test_on_every_channel_of_the_callers() -> None:
    with running(server()) as base:
        url = f"{base}/mcp"
        asked_by_header = StreamableHttpTransport(url, headers=selection_headers(no_destructive=True))
        for transport in (
            asked_by_header,
            StreamableHttpTransport(selection_url(url, no_destructive=True)),
            StreamableHttpTransport(f"{url}?no_destructive"),
        ):
            for mode in ("legacy", "auto"):
                async with Client(transport, mode=mode) as client:
                    assert [tool.name for tool in await client.list_tools()] == KEPT
        async with Client(SSETransport(f"{base}/sse?no_destructive")) as client:
            assert [tool.name for tool in await client.list_tools()] == KEPT
        for mode in ("legacy", "auto"):
            async with Client(url, mode=mode) as client:
                assert await listed(client, no_destructive=True) == KEPT
                assert await listed(client) == list(HINTS)


@pytest.mark.outside
async def test_a_callers_false_lifts_nothing() -> None:
    async with web_of(server(MCP_NO_DESTRUCTIVE="true")) as web:
        for query, headers in (
            ("?no_destructive=false", {}),
            ("", {"x-mcp-no-destructive": "0"}),
            ("?no-destructive=off&tools=all", {"x-mcp-enabled-tools": "all"}),
        ):
            told = (await web.get(f"/tools{query}", headers=headers)).json()
            assert [tool["name"] for tool in told["tools"]] == KEPT


async def test_it_is_told_which_tools_may_destroy() -> None:
    async with web_of(server()) as web:
        told = (await web.get("/tools?no_destructive=false")).json()["tools"]
        assert [tool["name"] for tool in told if tool["destructive"]] == GONE
        assert (await web.get("/tools?no_destructive=1")).json()["selection"]["caller"] == {"no_destructive": True}
