"""Each listed tool names its toolsets where clients look for groups, unless the operator turns that off."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client, FastMCP

from agent_utilities import AgentServer, create_mcp_server
from tests.every import every

pytestmark = pytest.mark.anyio

KEY = "io.modelcontextprotocol/groups"


def server(**environ: str) -> AgentServer:
    mcp = create_mcp_server("groups", environ={"MCP_GRAPH": "off", **environ})
    mcp.tool(lambda: "", name="log", tags={"Git", "read"})
    mcp.tool(lambda: "", name="push", tags={"Git", "write"}, meta={KEY: ["remote", "Git"]})
    mcp.tool(lambda: "", name="plain")
    mounted = FastMCP("mounted")
    mounted.tool(lambda: "", name="now", tags={"time"})
    mcp.mount(mounted)
    return mcp


async def groups(mcp: AgentServer, mode: Any = "auto") -> dict[str, Any]:
    async with Client(mcp, mode=mode) as client:
        return {tool.name: (tool.meta or {}).get(KEY) for tool in await client.list_tools()}


@every("mode", ["auto", "legacy"])
async def test_are_its_tags_and_those_that_its_author_gave(mode: str) -> None:
    found = await groups(server(), mode)
    assert found == {"log": ["Git", "read"], "push": ["remote", "Git", "write"], "plain": None, "now": ["time"]}


async def test_are_of_no_tool_that_is_not_listed() -> None:
    assert list(await groups(server(MCP_DISABLED_TAGS="write,time"))) == ["log", "plain"]


async def test_turned_off_are_only_those_that_the_author_gave() -> None:
    assert await groups(server(MCP_GROUPS="off")) == {
        "log": None,
        "push": ["remote", "Git"],
        "plain": None,
        "now": None,
    }


async def test_change_no_revision_and_nothing_else_of_a_list() -> None:
    async def listed(**environ: str) -> Any:
        async with Client(server(**environ)) as client:
            return (await client.list_tools_mcp()).model_dump(by_alias=True)

    on, off = await listed(), await listed(MCP_GROUPS="off")
    for tool in on["tools"]:
        if tool["name"] != "push":
            tool["_meta"].pop(KEY, None)
    on["tools"][1]["_meta"][KEY] = ["remote", "Git"]
    assert on == off
