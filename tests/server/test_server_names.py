"""A server's name among the names of tools: a deny of it denies the server, an allow of it permits nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

from agent_utilities.selection.channels import META_KEY
from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import faulty, script

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

UP, OTHER = script("up", "plain_server.py"), faulty("other")
URIS = {"plain://text": "up", "note://a": "other"}
BY_CALLERS = [("?disabled_tools=up", {}), ("", {"x-mcp-disabled-tools": "UP"}), ("?exclude_tools=x,up", {})]


@pytest.fixture(scope="module")
def both() -> Iterator[Served]:
    with served(UP, OTHER) as gateway:
        yield gateway


def client_of(gateway: Served, query: str, headers: dict[str, str]) -> Client[Any]:
    return Client(StreamableHttpTransport(f"{gateway.url}/mcp{query}", headers))


async def surface_of(client: Client[Any]) -> set[str]:
    """Return the servers of which a caller is listed anything."""
    names = [each.name for each in [*await client.list_tools(), *await client.list_prompts()]]
    return {name.partition("_")[0] for name in names} | {URIS[str(each.uri)] for each in await client.list_resources()}


class TestADeny:
    @every(("query", "headers"), BY_CALLERS)
    async def test_of_a_caller_holds_on_all_that_the_server_has(
        self, both: Served, query: str, headers: dict[str, str]
    ) -> None:
        async with client_of(both, query, headers) as client:
            assert await surface_of(client) == {"other"}
            with pytest.raises(ToolError, match="Unknown tool: 'up_echo'"):
                await client.call_tool("up_echo", {"text": "x"})

    async def test_in_one_requests_meta_holds_on_that(self, both: Served) -> None:
        async with client_of(both, "", {}) as client:
            meta = {META_KEY: {"disabled_tools": ["up"]}}
            with pytest.raises(ToolError, match="Unknown tool: 'up_echo'"):
                await client.call_tool("up_echo", {"text": "x"}, meta=meta)
            assert (await client.call_tool("up_echo", {"text": "x"})).data == "x"

    async def test_of_the_operator_holds_for_everybody(self) -> None:
        with served(UP, OTHER, environ={"MCP_DISABLED_TOOLS": "up"}) as gateway:
            async with client_of(gateway, "?tools=up_echo,up,other_echo&toolsets=up", {}) as client:
                assert await surface_of(client) == {"other"}


class TestAnAllow:
    async def test_permits_no_tool_and_is_told_how_it_would(self, both: Served) -> None:
        async with client_of(both, "?tools=up", {}) as client:
            listed = await client.list_tools_mcp()
        assert listed.tools == []
        assert (listed.meta or {})[META_KEY]["unknown"] == {"up": "toolsets=up"}

    async def test_permits_no_tool_that_tags_itself_like_another(self) -> None:
        with served(UP, faulty("evil", "tag=up_echo")) as gateway:
            async with client_of(gateway, "?tools=up_echo", {}) as client:
                assert [tool.name for tool in await client.list_tools()] == ["up_echo"]
