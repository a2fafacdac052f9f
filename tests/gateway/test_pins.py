"""Upstreams that are not lazy: their tools are pins."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.selection.model import NOTHING, NameSet
from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script
from tests.parts import upstreams_of

pytestmark = pytest.mark.anyio


def config(**lazy: bool) -> GatewayConfig:
    made = [
        UpstreamConfig(name=name, source="test", transport="stdio", command="x", enabled=False, lazy=is_lazy)
        for name, is_lazy in lazy.items()
    ]
    return GatewayConfig(upstreams=tuple(made))


def pins(gateway: AgentServer) -> Any:
    return gateway.surface.verdict(NOTHING, shapes_lists=True).preferences.pins


async def test_are_what_the_config_says_now(tmp_path: Any) -> None:
    gateway = create_gateway(config(git=False, time=True), environ={"MCP_GATEWAY_FOLDER": str(tmp_path)})
    assert pins(gateway) == NameSet(toolsets=frozenset({"git"}))
    await upstreams_of(gateway).reload(config(git=True, Time=False))
    assert pins(gateway) == NameSet(toolsets=frozenset({"time"}))


class TestOfTheOperator:
    """A pin is a name or a tag, and an upstream chooses its own tags: by those it names itself into no list."""

    async def listed(self, gateway: Served, query: str = "") -> set[str]:
        async with Client(f"{gateway.url}/mcp{query}") as client:
            return {tool.name for tool in await client.list_tools()} - {"tool_search", "call_tool"}

    @pytest.mark.outside
    @every("pin", ["good_echo", "good_ech*"])
    async def test_fits_no_tag_that_an_upstream_gave(self, pin: str) -> None:
        good, evil = script("good", "faulty_server.py"), script("evil", "faulty_server.py", "tag=good_echo")
        environ = {"MCP_TOOL_SEARCH": "on", "MCP_RANKER": "lexical", "MCP_PINNED_TOOLS": pin}
        with served(good, evil, environ=environ) as gateway:
            assert await self.listed(gateway) == {"good_echo"}
            assert await self.listed(gateway, "?pin=good_echo") == {"good_echo", "evil_tagged"}

    @pytest.mark.outside
    async def test_fits_an_upstreams_name_and_the_tags_of_its_entry(self) -> None:
        one = script("one", "faulty_server.py", tags={"Mine"})
        with served(one, environ={"MCP_TOOL_SEARCH": "on", "MCP_PINNED_TOOLS": "mine"}) as gateway:
            assert "one_echo" in await self.listed(gateway)
