"""A gateway's first start: lists are whole, whatever time its servers take, and nothing else waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.selection.channels import META_KEY
from tests.every import every
from tests.gateway.upstreams.processes import until
from tests.gateway.upstreams.supervised import faulty
from tests.server.in_process import ask, listed, web_of
from tests.wire.wires import modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]

LONG = "600"
"""Seconds of waiting that no test lives to see the end of: what it waits for must come, or be passed over."""
both_eras = every("mode", ["legacy", "auto"])


def gateway_of(folder: Path, *configs: UpstreamConfig, limit_s: str = LONG, **environ: str) -> AgentServer:
    given = {"MCP_GRAPH": "off", "MCP_RESULT_TOKENS": "off", "MCP_GATEWAY_FOLDER": str(folder / "gateway")}
    given |= {"MCP_FIRST_LIST_S": limit_s, **environ}
    return create_gateway(GatewayConfig(upstreams=configs), environ=given)


def held(folder: Path, name: str = "slow", *faults: str) -> UpstreamConfig:
    """Return the config of a server that answers nothing until `release` is called."""
    return faulty(name, f"wait-for={folder / name}", *faults)


def release(folder: Path, name: str = "slow") -> None:
    (folder / name).touch()


async def hung(work: asyncio.Task[Any], *others: asyncio.Task[Any]) -> bool:
    """Whether work still waits once others, which were begun after it, are done."""
    await asyncio.wait_for(asyncio.gather(*others), 30)
    return not work.done()


@asynccontextmanager
async def begun(*coroutines: Any) -> AsyncIterator[list[asyncio.Task[Any]]]:
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def absent(web: httpx2.AsyncClient, **headers: str) -> tuple[Any, int]:
    """Return which servers a list says are not in it, and for how many milliseconds it may be kept."""
    result = (await ask(web, "/mcp", **headers)).json()["result"]
    return result["_meta"][META_KEY].get("absent"), result["ttlMs"]


class TestAServerThatWasNeverSeen:
    @both_eras
    async def test_is_in_the_first_list_of_every_kind_and_delays_nothing_else(self, tmp_path: Path, mode: str) -> None:
        gateway = gateway_of(tmp_path, held(tmp_path), faulty("quick"))
        async with (
            Client(gateway, mode=mode) as client,  # it is greeted at once
            begun(client.list_tools(), client.list_prompts(), client.list_resources()) as lists,
        ):
            # Not a call: the client lists tools for its result.
            quick = asyncio.ensure_future(client.get_prompt("quick_greet", {"name": "x"}))
            assert await hung(lists[0], quick)
            assert not any(each.done() for each in lists)
            release(tmp_path)
            tools, prompts, resources = await asyncio.gather(*lists)
        assert {tool.name.partition("_")[0] for tool in tools} == {"slow", "quick"}
        assert {prompt.name.partition("_")[0] for prompt in prompts} == {"slow", "quick"}
        assert len(resources) == 2

    @both_eras
    async def test_is_waited_for_by_calls_of_names_that_it_may_have_alone(self, tmp_path: Path, mode: str) -> None:
        gateway = gateway_of(tmp_path, held(tmp_path), faulty("quick"))
        async with (
            Client(gateway, mode=mode) as client,
            begun(client.call_tool("slow_echo", {"text": "x"}), client.get_prompt("slow_nonesuch")) as (call, prompt),
        ):
            with pytest.raises(ToolError, match="Unknown tool: 'quick_nonesuch'"):
                await client.call_tool("quick_nonesuch")
            with pytest.raises(ToolError, match="Unknown tool: 'other_echo'"):
                await client.call_tool("other_echo")
            assert not call.done()
            assert not prompt.done()
            release(tmp_path)
            assert (await call).content[0].text == "x"

    async def test_is_in_the_plain_list_over_http_while_health_answers(self, tmp_path: Path) -> None:
        async with (
            web_of(gateway_of(tmp_path, held(tmp_path))) as web,
            begun(web.get("/tools"), web.get("/context")) as routes,
        ):
            assert (await web.get("/health")).status_code == 200
            assert (await web.get("/ready")).json()["upstreams"]["slow"]["state"] in ("starting", "unseen")
            assert not any(route.done() for route in routes)
            release(tmp_path)
            tools, context = [(await route).json() for route in routes]
        assert tools["selection"]["permitted"] == len(tools["tools"]) > 0
        assert "20 of 20 listed" in str(context)

    async def test_is_whole_however_much_it_lists(self, tmp_path: Path) -> None:
        async with web_of(gateway_of(tmp_path, faulty("large", "tools=3000"), MCP_TOOL_SEARCH="off")) as web:
            assert len(await listed(web, "/mcp")) > 3000

    async def test_is_searched_too(self, tmp_path: Path) -> None:
        gateway = gateway_of(tmp_path, held(tmp_path), MCP_TOOL_SEARCH="on", MCP_RANKER="lexical")
        async with (
            Client(gateway, mode="legacy") as client,
            begun(client.call_tool("tool_search", {"query": "select:slow_echo"})) as (search,),
        ):
            await client.ping()
            assert not search.done()
            release(tmp_path)
            assert "slow_echo" in str((await search).content)

    @every("query", ["?tools=slow_echo", "?tools=sl*", "?toolsets=slow", "?read_only=true"])
    async def test_is_waited_for_by_whoever_may_use_any_of_it(self, tmp_path: Path, query: str) -> None:
        async with (
            web_of(gateway_of(tmp_path, held(tmp_path))) as web,
            begun(ask(web, f"/mcp{query}")) as (asked,),
        ):
            assert await hung(asked, asyncio.ensure_future(web.get("/health")))
            release(tmp_path)
            assert "absent" not in (await asked).json()["result"]["_meta"][META_KEY]


class TestAServerThatACallerMayNotUse:
    """Law L1: it delays nobody, and is told to nobody. The server never answers here, so that waiting would not end."""

    @every(
        "query", ["?disabled_tools=slow", "?tools=quick_echo", "?toolsets=quick", "?tools=none", "?disabled_tags=slow"]
    )
    async def test_delays_no_list(self, tmp_path: Path, query: str) -> None:
        async with web_of(gateway_of(tmp_path, held(tmp_path), faulty("quick"))) as web:
            result = (await ask(web, f"/mcp{query}")).json()["result"]
        assert "absent" not in result["_meta"][META_KEY]
        assert not [tool for tool in result["tools"] if tool["name"].startswith("slow")]

    async def test_that_the_operator_denies_delays_no_call_of_its_names(self, tmp_path: Path) -> None:
        async with web_of(gateway_of(tmp_path, held(tmp_path), MCP_DISABLED_TOOLS="slow")) as web:
            answers = []
            for name in ("slow_echo", "slaw_echo"):
                body, routing = modern_request("tools/call", {"name": name, "arguments": {}})
                answers.append((await web.post("/mcp", json=body, headers=dict(routing))).text.replace(name, ""))
            assert await absent(web) == (None, 60_000)
        assert answers[0] == answers[1]


class TestAServerThatDoesNotCome:
    async def test_is_told_as_absent_and_waited_for_at_no_later_start(self, tmp_path: Path) -> None:
        slow = held(tmp_path)
        async with web_of(gateway_of(tmp_path, slow, limit_s="0.5")) as web:
            assert await absent(web) == (["slow"], 0)
            store = SnapshotStore(gateway_folder("snapshots", str(tmp_path / "gateway")))
            await until(lambda: store.is_late(slow))
        async with web_of(gateway_of(tmp_path, slow, faulty("quick"))) as web:
            assert await absent(web) == (["slow"], 0)
            assert {name.partition("_")[0] for name in await listed(web, "/mcp")} == {"quick"}

    async def test_comes_by_a_notice_then(self, tmp_path: Path) -> None:
        changed = asyncio.Event()

        async def hear(message: Any) -> None:
            if "tools/list_changed" in str(message):
                changed.set()

        server = held(tmp_path)
        gateway = gateway_of(tmp_path, server)
        SnapshotStore(gateway_folder("snapshots", str(tmp_path / "gateway"))).note_late(server)
        gateway = gateway_of(tmp_path, server)
        async with Client(gateway, mode="legacy", message_handler=hear) as client:
            assert await client.list_tools() == []
            release(tmp_path)
            await changed.wait()
            assert await client.list_tools() != []

    async def test_that_fails_is_waited_for_no_longer_than_that(self, tmp_path: Path) -> None:
        server = faulty("broken", "exits=3")
        async with web_of(gateway_of(tmp_path, server)) as web:
            assert await absent(web) == (["broken"], 0)
            store = SnapshotStore(gateway_folder("snapshots", str(tmp_path / "gateway")))
            await until(lambda: store.is_late(server))

    async def test_is_not_waited_for_where_the_operator_says_so(self, tmp_path: Path) -> None:
        async with web_of(gateway_of(tmp_path, held(tmp_path), limit_s="0")) as web:
            assert await absent(web) == (["slow"], 0)


async def test_a_server_that_was_seen_is_not_waited_for(tmp_path: Path) -> None:
    server = held(tmp_path)
    release(tmp_path)
    async with web_of(gateway_of(tmp_path, server)) as web:
        first = await listed(web, "/mcp")
    (tmp_path / "slow").unlink()
    async with web_of(gateway_of(tmp_path, server)) as web:
        assert await listed(web, "/mcp") == first != []
