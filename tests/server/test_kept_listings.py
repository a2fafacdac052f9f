"""What a list costs follows what is shown, and nothing that changed is passed over for it (laws L1, L2)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.providers import LocalProvider
from fastmcp.server.transforms import Namespace, Transform
from fastmcp.tools.base import Tool

from agent_utilities import AgentServer, create_mcp_server

pytestmark = pytest.mark.anyio


def server_of(n_tools: int, **environ: str) -> AgentServer:
    given = environ or {"MCP_ENABLED_TOOLS": "tool_0,tool_1"}
    mcp = create_mcp_server("kept", environ={"MCP_GRAPH": "off", **given})
    for i in range(n_tools):
        mcp.add_tool(named(f"tool_{i}"))
    return mcp


def named(name: str, **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, **options)


async def names(mcp: AgentServer) -> list[str]:
    return [tool.name for tool in await mcp.list_tools()]


async def n_calls_of_a_list(mcp: AgentServer) -> int:
    """Return how many functions, Python's and C's, one more list calls."""
    await mcp.list_tools()
    n_calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        await mcp.list_tools()
    finally:
        sys.setprofile(None)
    return n_calls


async def test_a_list_of_two_of_many_tools_takes_no_more_steps_than_of_two_of_few() -> None:
    assert await n_calls_of_a_list(server_of(1_000)) <= await n_calls_of_a_list(server_of(10)) + 10


class TestWhatChangedIsListedAtOnce:
    @pytest.fixture
    async def mcp(self) -> AgentServer:
        """A server that has listed its tools, two of three, more than once."""
        mcp = server_of(3, MCP_ENABLED_TOOLS="tool_0,tool_1,tool_7*,late_tool_2,in_*", MCP_DISABLED_TAGS="write")
        assert await names(mcp) == await names(mcp) == ["tool_0", "tool_1"]
        return mcp

    async def test_a_tool_that_is_removed(self, mcp: AgentServer) -> None:
        mcp.local_provider.remove_tool("tool_0")
        assert await names(mcp) == ["tool_1"]

    async def test_a_tool_that_is_replaced_by_one_that_is_denied(self, mcp: AgentServer) -> None:
        mcp.local_provider.remove_tool("tool_0")
        mcp.add_tool(named("tool_0", tags={"write"}))
        assert await names(mcp) == ["tool_1"]

    async def test_a_tool_that_gets_a_denied_tag_where_it_is(self, mcp: AgentServer) -> None:
        tool = await mcp.get_tool("tool_0")
        assert tool is not None
        tool.tags.add("write")
        assert await names(mcp) == ["tool_1"]

    async def test_a_tool_that_is_disabled_and_enabled(self, mcp: AgentServer) -> None:
        mcp.disable(names={"tool_0"})
        assert await names(mcp) == ["tool_1"]
        mcp.enable(names={"tool_0"})
        assert await names(mcp) == ["tool_0", "tool_1"]

    async def test_a_provider_that_is_added_past_the_server(self, mcp: AgentServer) -> None:
        provider = LocalProvider()
        provider.add_tool(named("tool_7"))
        mcp.providers.append(provider)
        assert await names(mcp) == ["tool_0", "tool_1", "tool_7"]
        provider.add_tool(named("tool_77"))
        assert await names(mcp) == ["tool_0", "tool_1", "tool_7", "tool_77"]
        mcp.providers.remove(provider)
        assert await names(mcp) == ["tool_0", "tool_1"]

    async def test_a_provider_that_gets_a_transform_of_its_own(self, mcp: AgentServer) -> None:
        mcp.local_provider.add_transform(Namespace("late"))
        assert await names(mcp) == ["late_tool_2"]

    async def test_a_provider_that_reloads_when_it_is_listed(self, mcp: AgentServer) -> None:
        class Reloading(LocalProvider):
            async def _list_tools(self) -> list[Tool]:
                return [named(f"tool_{n_lists}")]

        n_lists = 1
        mcp.add_provider(Reloading())
        assert await names(mcp) == ["tool_0", "tool_1", "tool_1"]
        n_lists = 77
        assert await names(mcp) == ["tool_0", "tool_1", "tool_77"]

    @pytest.mark.parametrize("make", [FastMCP, create_mcp_server])
    async def test_a_tool_of_a_mounted_server(self, mcp: AgentServer, make: Callable[[str], FastMCP[Any]]) -> None:
        inner = make("inner")
        mcp.mount(inner, namespace="in")
        assert await names(mcp) == ["tool_0", "tool_1"]
        inner.add_tool(named("added"))
        assert await names(mcp) == ["tool_0", "tool_1", "in_added"]


async def test_transforms_of_an_author_are_given_a_list_of_their_own() -> None:
    class Appending(Transform):
        async def list_tools(self, tools: Any) -> Any:
            tools.append(named("tool_1"))
            return tools

    mcp = server_of(1)
    mcp.add_transform(Appending())
    assert await names(mcp) == await names(mcp) == ["tool_0", "tool_1"]
