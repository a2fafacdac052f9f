"""A gateway is a server like any other to another gateway: what it has is listed and called, three deep."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types
import pytest

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import QUICK, Caller, faulty, running, script

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(240)]

ALL = mcp_types.ClientCapabilities(
    sampling=mcp_types.SamplingCapability(),
    elicitation=mcp_types.ElicitationCapability(form=mcp_types.FormElicitationCapability()),
    roots=mcp_types.RootsCapability(),
)
AT_ONCE = {"MCP_FIRST_LIST_S": "0"}
"""A gateway that lists what it has, however little."""
POLICY = replace(QUICK, settle_limit_s=0.1)
OWN = Path(sys.executable).with_name("agent-utilities")


def gateway(folder: Path, name: str, server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a gateway over stdio with one server, which it knows nothing of yet."""
    home = folder / name
    home.mkdir()
    config = home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"up": server}}))
    env = {"MCP_GATEWAY_FOLDER": str(home), "MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "off", "MCP_USAGE": "off"}
    return {"command": str(OWN), "args": ["gateway", str(config), "-t", "stdio"], "env": env}


def upstream(**entry: Any) -> UpstreamConfig:
    return UpstreamConfig.model_validate({"name": "gw", "source": "test", "transport": "stdio", **entry})


def over_http(gateway: Served) -> UpstreamConfig:
    return upstream(transport="http", url=f"{gateway.url}/mcp")


async def test_three_deep_over_http_all_is_listed_called_and_asked():
    with served(script("up", "two_era_server.py")) as inner, served(over_http(inner)) as middle:
        async with running(over_http(middle)) as gateways:
            await gateways.seen("gw")
            assert "gw_up_echo" in {tool["name"] for tool in gateways["gw"].snapshot.tools}
            assert await gateways.call("gw", "gw_up_echo", text="hello") == "hello"
            asked = Caller("one", asked_at_once=ALL)
            assert "Anna" in await gateways.call("gw", "gw_up_ask", asked, message="who?")
            assert "unavailable" in await gateways.call("gw", "gw_up_ask", Caller("other"), message="who?")


async def test_what_a_gateway_has_not_reached_yet_comes_when_it_has(tmp_path):
    gate, store = tmp_path / "gate", SnapshotStore(tmp_path)
    with served(faulty("up"), faulty("late", f"wait-for={gate}"), unreachable=["late"], environ=AT_ONCE) as inner:
        config = over_http(inner)
        async with running(config, store=store, policy=POLICY) as gateways:
            await gateways.seen("gw")
            assert gateways["gw"].snapshot.n_absent == 1
            assert "up_echo" in {tool["name"] for tool in gateways["gw"].snapshot.tools}
        async with running(config, store=store, policy=POLICY) as gateways:  # known, and asked for what it lacked
            await gateways.until(lambda: gateways["gw"].state.name == "ready")
            gate.touch()
            await gateways.until(lambda: gateways["gw"].snapshot.n_absent == 0)
            assert "late_echo" in {tool["name"] for tool in gateways["gw"].snapshot.tools}
            await gateways.at_rest("gw")


async def test_one_that_never_reaches_all_its_own_is_ended_all_the_same(tmp_path):
    with served(faulty("up"), faulty("never", "hang-at-start"), unreachable=["never"], environ=AT_ONCE) as inner:
        config = over_http(inner).model_copy(update={"idle_s": 0.3})
        async with running(config) as gateways:
            await gateways.seen("gw")
            assert gateways["gw"].snapshot.n_absent == 1
            await gateways.at_rest("gw")
            assert await gateways.call("gw", "up_echo", text="hello") == "hello"
