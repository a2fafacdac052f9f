"""Arguments repeated in HTTP headers are checked without a listing, and without telling of denied tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import anyio.lowlevel
import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool
from mcp_types import HEADER_MISMATCH
from pydantic import Field

from tests.every import every
from tests.server.servers import log_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]
Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


def server(**environ: str):
    mcp = log_server(environ=environ)

    @mcp.tool(tags={"read"})
    def routed(region: Region) -> str:
        """Answer from a region."""
        return region

    return mcp


async def call(
    server, name: str, header: str | None, ready=lambda: None, listed: bool = True, arguments=None, **headers: str
) -> dict[str, object]:
    app = server.http_app(host_origin_protection=False)
    sent = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
        **({"mcp-param-region": header} if header else {}),
        **headers,
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    }
    params = {"name": name, "arguments": arguments or {"region": "eu"}, "_meta": meta}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
    ):
        while listed and server.surface.catalogs.of_caller("tool") is None:
            await anyio.lowlevel.checkpoint()
        ready()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return (await web.post("/mcp", json=body, headers=sent)).json()


async def test_a_header_that_fits_is_served():
    assert (await call(server(), "routed", "eu"))["result"]["content"][0]["text"] == "eu"


async def test_a_header_that_does_not_fit_is_refused():
    assert "error" in await call(server(), "routed", "us")


@every("tool_search", ["off", "on"])
@every("header", ["us", None])
async def test_the_first_call_of_a_caller_who_was_listed_nothing_is_checked_too(header, tool_search):
    mcp = server(MCP_TOOL_SEARCH=tool_search)
    mcp.auth = StaticTokenVerifier(tokens={"good": {"client_id": "c", "scopes": []}})
    answer = await call(mcp, "routed", header, listed=False, authorization="Bearer good")
    assert answer["error"]["code"] == HEADER_MISMATCH


@every("listed", [True, False])
async def test_call_tool_needs_no_header_of_a_tool_whose_schema_was_never_listed(listed):
    mcp = server(MCP_TOOL_SEARCH="on")
    if not listed:
        mcp.auth = StaticTokenVerifier(tokens={"good": {"client_id": "c", "scopes": []}})
    arguments = {"name": "routed", "arguments": {"region": "eu"}}
    answer = await call(mcp, "call_tool", None, listed=listed, arguments=arguments, authorization="Bearer good")
    assert "error" not in answer, answer
    assert answer["result"]["content"][0]["text"] == "eu"


async def test_a_denied_tool_is_unknown_whatever_its_headers():
    for operator, caller in (({"MCP_DISABLED_TOOLS": "routed"}, {}), ({}, {"x-mcp-disabled-tools": "routed"})):
        for header in ("us", "eu", None):
            answer = await call(server(**operator), "routed", header, **caller)
            assert answer["result"]["content"][0]["text"] == "Unknown tool: 'routed'"


class Counting(Provider):
    """A provider that counts how often it is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.n_lists = 0

    async def _list_tools(self) -> Sequence[Tool]:
        self.n_lists += 1
        return []


async def test_no_tool_is_listed_for_the_check():
    mcp, counting = server(), Counting()
    mcp.add_provider(counting)
    before = []
    assert "error" in await call(mcp, "routed", "us", ready=lambda: before.append(counting.n_lists))
    assert [counting.n_lists] == before


async def test_a_tool_with_a_check_of_its_own_is_left_to_the_call():
    mcp = log_server()

    @mcp.tool(auth=lambda context: False)
    def routed(region: Region) -> str:
        return region

    for header in ("us", "eu", None):
        answer = await call(mcp, "routed", header)
        assert answer["result"]["content"][0]["text"] == "Unknown tool: 'routed'"


async def test_a_tool_whose_words_only_mention_the_keyword_has_nothing_to_check():
    mcp = log_server()

    @mcp.tool
    def quoting(region: str = 'send "x-mcp-header" along') -> str:
        return region

    await mcp.list_tools()
    assert mcp.surface.catalogs.of_caller("tool").with_header_parameters == ()
