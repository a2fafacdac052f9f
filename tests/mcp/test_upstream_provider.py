"""A gateway lists what its upstreams' snapshots have, as they list it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fastmcp import Client

from tests.mcp.gateways import Gateway, gateway
from tests.upstream.supervised import script

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture
async def plain() -> AsyncIterator[Gateway]:
    async with gateway(script("plain", "plain_server.py")) as running:
        yield running


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_tools_are_listed_and_called_by_their_namespaced_names(plain: Gateway, mode: str) -> None:
    async with Client(plain.server, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["plain_echo", "plain_add", "plain_count"]
        result = await client.call_tool("plain_echo", {"text": "hi"})
        assert result.data == "hi"
