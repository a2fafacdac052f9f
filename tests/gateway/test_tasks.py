"""Background tasks of FastMCP's own servers, behind a gateway, which may have some of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from mcp.shared.exceptions import MCPError

from agent_utilities import AgentServer
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.seam.feature import Feature
from tests.background_tasks import tasks_extension
from tests.every import every
from tests.fleet.processes.replicas import until
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script
from tests.server.servers import running
from tests.server.task_clients import TaskClient

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.tasks]

NEWER = "requires the tasks extension"
OLDER = "runs as a background task alone, and a gateway carries none: call it at its own server"


@pytest.fixture(scope="module")
def newer() -> Iterator[UpstreamConfig]:
    server: FastMCP[Any] = FastMCP("newer")
    server.add_extension(tasks_extension())
    server.tool(can, task=TaskConfig("optional"))
    server.tool(must, task=TaskConfig("required"))
    with running(server) as url:
        given = {"name": "newer", "source": "test", "transport": "http", "url": f"{url}/mcp"}
        yield UpstreamConfig.model_validate(given)


@pytest.fixture(scope="module")
def gateway(newer: UpstreamConfig) -> Iterator[Served]:
    with served(newer, script("older", "asking_server.py")) as made:
        yield made


async def can() -> str:
    """Run as a task or as a call."""
    await asyncio.sleep(0)
    return "it ran"


async def must() -> str:
    """Run as a task."""
    return await can()


def text_of(result: mcp_types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    return content.text


class TestACallerOf20260728:
    @every("tool", ["newer_can", "newer_must"])
    async def test_has_a_tool_run_as_a_task_to_its_end(self, gateway: Served, tool: str) -> None:
        async with Client(f"{gateway.url}/mcp", mode="auto") as caller:
            assert text_of(await caller.call_tool_mcp(tool, {})) == "it ran"


class TestACallerOf20251125:
    async def test_is_told_of_no_tasks(self, gateway: Served) -> None:
        async with Client(f"{gateway.url}/mcp", mode="legacy") as caller:
            told = caller.server_capabilities
            assert told is not None
            assert told.tasks is None
            assert "io.modelcontextprotocol/tasks" not in (told.extensions or {})

    async def test_has_what_can_be_one_run_as_a_call(self, gateway: Served) -> None:
        async with Client(f"{gateway.url}/mcp", mode="legacy") as caller:
            assert text_of(await caller.call_tool_mcp("newer_can", {})) == "it ran"

    async def test_is_told_by_the_upstream_what_would_do_for_what_must_be_one(self, gateway: Served) -> None:
        async with Client(f"{gateway.url}/mcp", mode="legacy") as caller:
            with pytest.raises(MCPError, match=NEWER):
                await caller.call_tool_mcp("newer_must", {})


@every("mode", ["legacy", "auto"])
async def test_what_must_be_a_task_of_2025_11_25_does_not_run(gateway: Served, mode: str) -> None:
    async with Client(f"{gateway.url}/mcp", mode=mode) as caller:
        with pytest.raises(MCPError, match=OLDER):
            await caller.call_tool_mcp("older_task", {})


class OwnTasks(Feature):
    """A tool of the gateway's own that runs as a task."""

    name = "own tasks"

    def attach(self, host: AgentServer) -> None:
        super().attach(host)
        host.add_extension(tasks_extension())
        host.tool(must, name="own", task=TaskConfig("required"))


@pytest.fixture(scope="module")
def both() -> Iterator[Served]:
    with served(script("up", "tasks_server.py", "stdio"), features=[OwnTasks()]) as made:
        yield made


class TestAGatewayWithTasksOfItsOwn:
    async def test_has_either_asked_for_where_it_is(self, both: Served) -> None:
        client = TaskClient(both.url)
        own, theirs = client.task("own"), client.task("up_work", more={"statusMessage": "theirs"})
        assert client.get(theirs)["statusMessage"] == "theirs"
        await until(lambda: client.get(own)["status"] == "completed")
        assert client.get(own)["result"]["content"][0]["text"] == "it ran"

    @every("method", ["tasks/get", "tasks/update", "tasks/cancel"])
    @every("query", ["?disabled_tools=own", "?disabled_tools=up_work", "?tools=none"])
    async def test_knows_neither_under_bounds_without_its_tool(self, both: Served, query: str, method: str) -> None:
        client, narrowed = TaskClient(both.url), TaskClient(both.url, query=query)
        tasks = {"own": client.task("own"), "up_work": client.task("up_work")}
        for tool in tasks if query.endswith("none") else [query.partition("=")[2]]:
            told = [
                json.dumps(narrowed.ask(method, {"taskId": task, "inputResponses": {}})).replace(task, "it")
                for task in (tasks[tool], "x" * len(tasks[tool]))
            ]
            assert told[0] == told[1]
            assert "not found" in told[0]

    async def test_keeps_nothing_of_what_an_upstream_calls_as_one_of_them(self, both: Served) -> None:
        client = TaskClient(both.url)
        own = client.task("own")
        docket: Any = both.gateway.docket
        key = docket.key(f"agent-utilities:bounds:{own}")

        async def kept() -> Any:
            async with docket.redis() as redis:
                return await redis.get(key), await redis.keys(docket.key("agent-utilities:bounds:*"))

        before = asyncio.run_coroutine_threadsafe(kept(), both.loop).result()
        client.task("up_work", id=own, ttlMs="long")
        assert client.call("up_plain", result={"content": [], "taskId": own, "ttlMs": 1})["taskId"] == own
        assert asyncio.run_coroutine_threadsafe(kept(), both.loop).result() == before
