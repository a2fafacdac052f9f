"""What a gateway tells of its upstreams, and what it serves of them: as much as its caller may know, and no more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.selection.channels import META_KEY
from tests.gateway.upstreams.snapshots import config, snapshot, tool
from tests.server.in_process import ask, listed, web_of
from tests.wire.wires import modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

ABSENT = {"mcpServers": {name: {"command": "agent-utilities-no-such-program"} for name in ("git", "notion")}}
GIT = config("git", deny=frozenset({"pu*"}))


def environ(folder: Path, **variables: str) -> dict[str, str]:
    return {"MCP_GRAPH": "off", "MCP_RESULT_TOKENS": "off", "MCP_GATEWAY_FOLDER": str(folder), **variables}


def seen_before(folder: Path, *tools: str) -> AgentServer:
    """Return a gateway of an upstream that an earlier run has listed; its program is gone."""
    store = SnapshotStore(gateway_folder("snapshots", str(folder)))
    store.load(GIT)
    store.save(snapshot(GIT, *map(tool, tools or ("status", "push")), taken_at_s=time.time()))
    return create_gateway(GatewayConfig(upstreams=(GIT,)), environ=environ(folder))


async def absent(web: httpx2.AsyncClient, **headers: str) -> Any:
    """Return the upstreams of which a list says that they are not in it yet."""
    return (await ask(web, "/mcp", **headers)).json()["result"]["_meta"][META_KEY].get("absent")


async def called(web: httpx2.AsyncClient, name: str) -> str:
    """Return the answer to a call, without the name that was called."""
    body, routing = modern_request("tools/call", {"name": name, "arguments": {}})
    return (await web.post("/mcp", json=body, headers=dict(routing))).text.replace(name, "")


class TestAnUpstreamThatWasNeverReached:
    async def test_is_told_with_a_list_to_who_may_know_of_it(self, tmp_path: Path) -> None:
        gateway = create_gateway(ABSENT, environ=environ(tmp_path, MCP_DISABLED_TOOLSETS="notion"))
        async with web_of(gateway) as web:
            assert await absent(web) == ["git"]
            assert await absent(web, **{"x-mcp-disabled-toolsets": "git"}) is None

    async def test_that_the_operator_denies_reads_in_ready_as_one_that_is_not_there(self, tmp_path: Path) -> None:
        alone = {"mcpServers": {"git": ABSENT["mcpServers"]["git"]}}
        told = []
        for given in (ABSENT, alone):
            gateway = create_gateway(given, environ=environ(tmp_path, MCP_DISABLED_TOOLSETS="notion"))
            async with web_of(gateway) as web:
                told.append({**(await web.get("/ready")).json(), "warnings": None})
        assert told[0] == told[1]


async def test_a_tool_that_the_operator_denies_reads_in_ready_as_one_that_is_not_there(tmp_path: Path) -> None:
    told = []
    for tools in (["status", "push"], ["status"]):
        async with web_of(seen_before(tmp_path / str(len(tools)), *tools)) as web:
            assert await listed(web, "/mcp?q=status") == ["git_status"]
            told.append((await web.get("/ready")).json())
    assert told[0] == told[1]
    assert told[0]["upstreams"]["git"]["tools"] == 1


class TestAToolThatItsEntryDenies:
    async def test_is_in_no_list_whatever_a_caller_allows(self, tmp_path: Path) -> None:
        async with web_of(seen_before(tmp_path)) as web:
            assert await listed(web, "/mcp") == ["git_status"]
            assert await listed(web, "/mcp", **{"x-mcp-enabled-tools": "git_push,git_status"}) == ["git_status"]

    async def test_is_called_like_one_that_never_was(self, tmp_path: Path) -> None:
        async with web_of(seen_before(tmp_path)) as web:
            assert await called(web, "git_push") == await called(web, "git_pish")


async def test_a_deny_of_an_upstream_that_was_never_reached_is_no_misspelling(tmp_path: Path) -> None:
    denied = {"MCP_DISABLED_TOOLSETS": "notion", "MCP_DISABLED_TOOLS": "gti_*"}
    gateway = create_gateway(ABSENT, environ=environ(tmp_path, **denied))
    async with web_of(gateway):
        assert [name.name for name in gateway.operator_bounds.unfit()] == ["gti_*"]
