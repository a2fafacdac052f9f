"""A call of a denied tool takes the same steps as one of a name that never was, wherever the tool comes from."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy

from agent_utilities import AgentServer, create_mcp_server
from tests.every import every

pytestmark = pytest.mark.anyio


def with_a_denied_tool_of_every_origin() -> AgentServer:
    mcp = create_mcp_server("parent", environ={"MCP_GRAPH": "off", "MCP_DISABLED_TAGS": "write"})
    mounted, proxied = FastMCP("mounted"), FastMCP("proxied")
    for server in (mcp, mounted, proxied):
        server.tool(lambda: "", name="wipe", tags={"write"})
        server.tool(lambda: "", name="show")
    mcp.mount(mounted, namespace="mounted")
    mcp.mount(create_proxy(proxied), namespace="proxied")
    return mcp


async def n_steps(client: Client[Any], name: str) -> int:
    """Return how many functions are entered while a call of a tool is refused, once it has been before.

    The least of several: what other tasks and the collector of garbage enter meanwhile only adds to it.
    """
    counts: list[int] = []

    def count(frame: object, event: str, argument: object) -> None:
        counts[-1] += event == "call"

    for _ in range(6):
        counts.append(0)
        sys.setprofile(count)
        try:
            answer = await client.call_tool(name, raise_on_error=False)
        finally:
            sys.setprofile(None)
        assert answer.content[0].text == f"Unknown tool: {name!r}"
    return min(counts[1:])


@every("namespace", ["", "mounted_", "proxied_"])
async def test_of_a_tool(namespace: str) -> None:
    async with Client(with_a_denied_tool_of_every_origin()) as client:
        await client.list_tools()
        denied, unknown = [await n_steps(client, f"{namespace}{name}") for name in ("wipe", "wixe")]
    assert abs(denied - unknown) < 0.005 * unknown
