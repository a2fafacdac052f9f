"""Upstreams that are not lazy: their tools are pins."""

from __future__ import annotations

from typing import Any

import pytest

from agent_utilities.mcp.gateway import Gateway, create_gateway
from agent_utilities.selection.model import NOTHING, NameSet
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig

pytestmark = pytest.mark.anyio


def config(**lazy: bool) -> GatewayConfig:
    made = [
        UpstreamConfig(name=name, source="test", transport="stdio", command="x", enabled=False, lazy=is_lazy)
        for name, is_lazy in lazy.items()
    ]
    return GatewayConfig(upstreams=tuple(made))


def pins(gateway: Gateway) -> Any:
    return gateway.surface.verdict(NOTHING, shapes_lists=True).preferences.pins


async def test_are_what_the_config_says_now(tmp_path: Any) -> None:
    gateway = create_gateway(config(git=False, time=True), environ={"MCP_GATEWAY_FOLDER": str(tmp_path)})
    assert pins(gateway) == NameSet(toolsets=frozenset({"git"}))
    await gateway.reload(config(git=True, Time=False))
    assert pins(gateway) == NameSet(toolsets=frozenset({"time"}))
