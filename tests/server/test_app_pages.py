"""The page that FastMCP makes for a tool with an app is listed and read only where the tool is permitted."""

from __future__ import annotations

import re

import pytest
from fastmcp import Client
from fastmcp.apps import AppConfig, ResourceCSP
from fastmcp.client.client import Client as AnyClient
from fastmcp.server.providers.addressing import hashed_resource_uri
from fastmcp.server.providers.prefab_synthesis import PREFAB_PLACEHOLDER_URI as PLACEHOLDER

from agent_utilities import AgentServer, create_mcp_server

pytestmark = pytest.mark.anyio
PAGE = "ui://prefab/"


def app_server(**environ: str) -> AgentServer:
    """A server with two tools that have apps, one of them for deleting, whose page may load from elsewhere."""
    mcp = create_mcp_server("panels", environ={"MCP_GRAPH": "off", **environ})

    @mcp.tool(app=True, tags={"read"})
    def show_panel() -> str:
        return "shown"

    # FastMCP 4.2 has one page for all tools whose pages are configured alike.
    @mcp.tool(
        app=AppConfig(resource_uri=PLACEHOLDER, csp=ResourceCSP(connect_domains=["https://a.test"])), tags={"delete"}
    )
    def wipe_panel() -> str:
        return "wiped"

    return mcp


async def pages(client: AnyClient) -> list[str]:
    return [uri for resource in await client.list_resources() if (uri := str(resource.uri)).startswith(PAGE)]


async def page_of(name: str) -> str:
    """Return the URI of a tool's page, as a server without bounds tells it."""
    async with Client(app_server()) as client:
        (tool,) = [tool for tool in await client.list_tools() if tool.name == name]
        uri: str = tool.meta["ui"]["resourceUri"]
        return uri


async def test_each_permitted_tool_has_its_page() -> None:
    async with Client(app_server()) as client:
        assert sorted(await pages(client)) == sorted([await page_of("show_panel"), await page_of("wipe_panel")])


async def test_the_page_of_a_denied_tool_is_not_listed() -> None:
    async with Client(app_server(MCP_DISABLED_TAGS="delete")) as client:
        assert await pages(client) == [await page_of("show_panel")]


async def test_the_page_of_a_denied_tool_reads_like_one_that_never_was() -> None:
    async with Client(app_server(MCP_DISABLED_TAGS="delete")) as client:
        denied = await page_of("wipe_panel")
        missing = re.sub("[0-9a-f]{12,}", lambda digest: "0" * len(digest[0]), denied)
        errors = []
        for uri in (denied, missing):
            with pytest.raises(Exception, match=r"not found|Unknown resource") as caught:
                await client.read_resource(uri)
            errors.append(str(caught.value).replace(uri, "?"))
        assert errors[0] == errors[1]


async def test_the_page_of_a_permitted_tool_is_read() -> None:
    async with Client(app_server(MCP_DISABLED_TAGS="delete")) as client:
        assert await client.read_resource(await page_of("show_panel"))


async def test_the_page_of_a_denied_tool_is_not_read_by_the_address_that_fastmcp_4_1_gave_it() -> None:
    async with Client(app_server(MCP_DISABLED_TAGS="delete")) as client:
        with pytest.raises(Exception, match=r"not found|Unknown resource"):
            await client.read_resource(hashed_resource_uri("", "wipe_panel"))


async def test_the_page_of_a_tool_that_is_deferred_is_read() -> None:
    page = await page_of("show_panel")
    async with Client(app_server(MCP_QUERY="wipe", MCP_TOP_K="1", MCP_RANKER="lexical")) as client:
        assert await client.read_resource(page)


async def test_the_page_of_a_denied_tool_of_a_mounted_server_is_not_read() -> None:
    server = create_mcp_server("all", environ={"MCP_GRAPH": "off", "MCP_DISABLED_TOOLS": "kid_wipe_panel"})
    server.mount(app_server(), namespace="kid")
    async with Client(server) as client:
        listed = await pages(client)
        (shown,) = [tool.meta["ui"]["resourceUri"] for tool in await client.list_tools() if tool.meta.get("ui")]
        assert [shown] == listed
        assert await client.read_resource(shown)
        with pytest.raises(Exception, match=r"not found|Unknown resource"):
            await client.read_resource(await page_of("wipe_panel"))
