"""Background tasks stop at a gateway: what can run as one runs as a call, what must says why it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from mcp.shared.exceptions import MCPError

from agent_utilities.upstream.config import UpstreamConfig
from tests.background_tasks import tasks_extension
from tests.mcp.gateways import Served, served
from tests.mcp.servers import running
from tests.upstream.supervised import script

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.tasks]

WHY = "runs as a background task alone, and a gateway carries none: call it at its own server"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    server: FastMCP[Any] = FastMCP("newer")
    server.add_extension(tasks_extension())
    server.tool(can, task=TaskConfig("optional"))
    server.tool(must, task=TaskConfig("required"))
    with running(server) as url:
        newer = {"name": "newer", "source": "test", "transport": "http", "url": f"{url}/mcp"}
        with served(UpstreamConfig.model_validate(newer), script("older", "asking_server.py")) as made:
            yield made


async def can() -> str:
    """Run as a task or as a call."""
    await asyncio.sleep(0)
    return "it ran"


async def must() -> str:
    """Run as a task."""
    return await can()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
class TestACallerWhoKnowsTasks:
    async def test_is_told_of_none(self, gateway: Served, mode: str) -> None:
        async with Client(f"{gateway.url}/mcp", mode=mode) as caller:
            told = caller.server_capabilities
            assert told is not None
            assert told.tasks is None
            assert "io.modelcontextprotocol/tasks" not in (told.extensions or {})

    async def test_has_what_can_be_one_run_as_a_call(self, gateway: Served, mode: str) -> None:
        async with Client(f"{gateway.url}/mcp", mode=mode) as caller:
            result = await caller.call_tool_mcp("newer_can", {})
        (content,) = result.content
        assert isinstance(content, mcp_types.TextContent)
        assert content.text == "it ran"

    async def test_is_told_why_what_must_be_one_does_not_run(self, gateway: Served, mode: str) -> None:
        for tool in ["newer_must", "older_task"]:
            async with Client(f"{gateway.url}/mcp", mode=mode) as caller:
                with pytest.raises(MCPError, match=WHY):
                    await caller.call_tool_mcp(tool, {})
