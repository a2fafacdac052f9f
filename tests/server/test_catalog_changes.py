"""A tool of which only a hint or the version changed makes another revision, at once and in a running server."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client
from mcp_types import ToolAnnotations

from agent_utilities import AgentServer
from tests.every import every
from tests.server.servers import log_server

pytestmark = pytest.mark.anyio

CHANGES: list[dict[str, Any]] = [
    {"annotations": ToolAnnotations(read_only_hint=True, destructive_hint=True)},
    {"annotations": ToolAnnotations(read_only_hint=True, title="Tail")},
    {"version": "2"},
    {"title": "Tail a log"},
    {"output_schema": {"type": "object", "properties": {"lines": {"type": "integer"}}}},
    {"description": "Other words."},
    {"tags": {"logs", "read", "new"}},
]


async def replace(server: AgentServer, change: dict[str, Any]) -> None:
    """Put a copy with one trait changed in the place of a tool."""
    tool = await server.local_provider.get_tool("tail_log")
    server.local_provider.remove_tool("tail_log")
    server.add_tool(tool.model_copy(update=change))


async def revision(client: Client[Any]) -> str:
    result = await client.session.list_tools()
    told: str = result.meta["agent-utilities/selection"]["revision"]
    return told


@every("change", CHANGES)
async def test_a_running_server_tells_it_from_the_one_before(change: dict[str, Any]) -> None:
    server = log_server()
    await replace(server, {})
    async with Client(server) as client:
        before = await revision(client)
        await replace(server, {})
        assert await revision(client) == before
        await replace(server, change)
        assert await revision(client) != before


async def test_a_version_alone_is_told_from_none() -> None:
    plain, versioned = log_server(), log_server()
    await replace(plain, {})
    await replace(versioned, {"version": "1"})
    async with Client(plain) as first, Client(versioned) as second:
        assert await revision(first) != await revision(second)
