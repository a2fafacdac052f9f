"""Upstreams of the newer era, over HTTP: what they list, what changes, and the private name that this rests on."""

from __future__ import annotations

import pytest
from mcp import ClientSession
from mcp_types.version import LATEST_MODERN_VERSION

from agent_utilities import create_mcp_server
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from tests.gateway.upstreams.supervised import running
from tests.server.servers import running as serving

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]


def test_the_private_name_that_is_used_is_still_there():
    assert callable(ClientSession._absorb_tool_listing)


async def test_a_change_is_told_and_taken_over():
    server = create_mcp_server("newer", environ={"MCP_GRAPH": "off"})

    @server.tool
    def grow(name: str) -> str:
        """Add a tool of this name."""
        server.tool(lambda: name, name=name)
        return name

    with serving(server) as url:
        config = UpstreamConfig.model_validate(
            {"name": "newer", "source": "test", "transport": "http", "url": f"{url}/mcp"}
        )
        async with running(config) as gateway:
            assert await gateway.call("newer", "grow", name="first") == "first"
            await gateway.seen("newer")
            assert gateway["newer"].snapshot.protocol_version == LATEST_MODERN_VERSION
            gateway.changes.clear()
            await gateway.call("newer", "grow", name="second")
            await gateway.until(lambda: "second" in {tool["name"] for tool in gateway["newer"].snapshot.tools})
