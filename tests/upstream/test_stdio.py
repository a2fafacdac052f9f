"""A process as an upstream, over its stdin and stdout."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.process_guard import ProcessGuard
from agent_utilities.upstream.stderr_log import StderrLog
from agent_utilities.upstream.stdio import StdioUpstream

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

SERVER = Path(__file__).parent / "faulty_server.py"


def config(*faults: str, **more: object) -> UpstreamConfig:
    given = {"command": sys.executable, "args": ("-I", "-S", str(SERVER), *faults), **more}
    return UpstreamConfig.model_validate({"name": "faulty", "source": "test", "transport": "stdio", **given})


@asynccontextmanager
async def upstream(*faults: str, **more: object) -> AsyncIterator[StdioUpstream]:
    async with ProcessGuard() as guard:
        yield StdioUpstream(config(*faults, **more), environ={}, stderr=StderrLog(), guard=guard)


def text(result: CallToolResult) -> str:
    return result.content[0].text


async def test_a_tool_answers():
    async with upstream() as faulty, Client(faulty, mode="legacy") as client:
        assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"


async def test_death_is_told_at_once_with_the_status():
    async with upstream("die-in-call") as faulty, Client(faulty, mode="legacy") as client:
        with pytest.raises(Exception, match="closed"):
            await client.call_tool("echo", {"text": "hello"})
        await faulty.died.wait()
        assert faulty.exit_text == "exited with status 3"
