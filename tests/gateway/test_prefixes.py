"""A server's prefix of its own, or none: what its tools are called, and that every bound holds with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig, ToolOverride, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.upstreams.snapshots import config, snapshot, tool
from tests.gateway.upstreams.supervised import faulty
from tests.server.in_process import ask, listed, web_of
from tests.server.test_first_lists import begun, held, hung, release
from tests.server.test_first_lists import gateway_of as first_gateway_of
from tests.wire.wires import modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


def gateway_of(folder: Path, servers: dict[UpstreamConfig, list[str]] | Any, **variables: str) -> AgentServer:
    """Return a gateway of upstreams that an earlier run has listed; their programs are gone."""
    store = SnapshotStore(gateway_folder("snapshots", str(folder)))
    for each, tools in servers:
        store.load(each)
        store.save(snapshot(each, *map(tool, tools), taken_at_s=time.time()))
    environ = {"MCP_GRAPH": "off", "MCP_RESULT_TOKENS": "off", "MCP_GATEWAY_FOLDER": str(folder), **variables}
    return create_gateway(GatewayConfig(upstreams=tuple(each for each, _ in servers)), environ=environ)


class TestNames:
    async def test_begin_with_it_or_are_the_tools_own(self, tmp_path: Path) -> None:
        servers = [(config("git", prefix=""), ["git_status"]), (config("notion", prefix="n"), ["find"])]
        async with web_of(gateway_of(tmp_path, servers)) as web:
            assert await listed(web, "/mcp") == ["git_status", "n_find"]
            assert await listed(web, "/mcp?tools=git_status") == ["git_status"]
            assert await listed(web, "/mcp?toolsets=notion") == ["n_find"]
            assert await listed(web, "/mcp?disabled_tools=n_*") == ["git_status"]

    async def test_that_two_without_one_have_are_told_and_nobodys(self, tmp_path: Path) -> None:
        servers = [(config("a", prefix=""), ["read", "one"]), (config("b", prefix=""), ["read", "two"])]
        gateway = gateway_of(tmp_path, servers)
        async with web_of(gateway) as web:
            assert await listed(web, "/mcp") == ["one", "two"]
            body, routing = modern_request("tools/call", {"name": "read", "arguments": {}})
            assert "Unknown tool" in (await web.post("/mcp", json=body, headers=dict(routing))).text
        assert any(
            "'read' is listed by the upstreams 'a', 'b', and left out" in line
            for feature in gateway.features
            for line in feature.start_lines()
        )


class TestRules:
    async def test_of_an_entry_are_by_the_names_that_its_server_has(self, tmp_path: Path) -> None:
        says = {"status": ToolOverride(description="says what is new", tags=("safe",))}
        for prefix, name in [("", "status"), ("g", "g_status")]:
            git = config("git", prefix=prefix, deny=frozenset({"pu*"}), overrides=says, tags=("mine",))
            async with web_of(gateway_of(tmp_path / name, [(git, ["status", "push"])])) as web:
                for url in ("/mcp", "/mcp?toolsets=git", "/mcp?toolsets=safe", "/mcp?toolsets=mine"):
                    assert await listed(web, url) == [name]
                assert await listed(web, "/mcp?disabled_toolsets=git") == []
                (told,) = (await ask(web, "/mcp")).json()["result"]["tools"]
                assert told["description"] == "says what is new"

    async def test_of_operators_are_by_the_names_that_callers_see(self, tmp_path: Path) -> None:
        servers = [(config("git", prefix=""), ["status", "push"]), (config("hub", prefix="h"), ["push", "pull"])]
        denied = gateway_of(tmp_path, servers, MCP_DISABLED_TOOLS="push,h_pull")
        async with web_of(denied) as web:
            assert await listed(web, "/mcp") == ["status", "h_push"]


class TestFirstLists:
    async def test_wait_for_a_server_by_the_prefix_that_it_has(self, tmp_path: Path) -> None:
        for prefix, waits, passes in [("s", "s_echo", "slow_echo"), ("", "echo", "")]:
            folder = tmp_path / (prefix or "none")
            folder.mkdir()
            slow = held(folder).model_copy(update={"prefix": prefix})
            gateway = first_gateway_of(folder, slow, faulty("quick"))
            async with web_of(gateway) as web:

                def call(name: str, web: Any = web) -> Any:
                    body, routing = modern_request("tools/call", {"name": name, "arguments": {"text": "hello"}})
                    return web.post("/mcp", json=body, headers=dict(routing))

                async with begun(call(waits)) as (waiting,):
                    if passes:
                        async with begun(call(passes)) as others:
                            assert await hung(waiting, *others)
                    release(folder)
                    assert (await waiting).json()["result"]["content"][0]["text"] == "hello"
