"""`list_changed` when the catalog changes while the server runs, in both protocol eras."""

from __future__ import annotations

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.messages import MessageHandler
from mcp.client.subscriptions import ResourceUpdated, listen

from agent_utilities import AgentServer, create_mcp_server
from tests.mcp.servers import log_server, tool_names

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


def growing(server: AgentServer) -> AgentServer:
    """Give a server tools that change its own catalog, from the loop and from a worker thread."""

    @server.tool
    async def grow() -> str:
        server.add_tool(_tool("grown"))
        return "grew"

    @server.tool
    def grow_in_thread() -> str:
        server.add_tool(_tool("grown_in_thread"))
        return "grew"

    @server.tool
    async def shrink() -> str:
        server.local_provider.remove_tool("tail_log")
        return "shrank"

    @server.tool
    async def hide() -> str:
        server.disable(tags={"write"})
        return "hid"

    @server.tool
    async def mount() -> str:
        server.mount(FastMCP("late", tools=[_tool("mounted")]))
        return "mounted"

    return server


def _tool(name: str):
    def answer() -> str:
        return name

    answer.__name__ = name
    return answer


class Heard(MessageHandler):
    """Remembers that a tool list changed, for a test to wait on."""

    def __init__(self) -> None:
        self.tools = anyio.Event()

    async def on_tool_list_changed(self, message: object) -> None:
        self.tools.set()


CHANGES = [
    ("grow", "grown", True),
    ("grow_in_thread", "grown_in_thread", True),
    ("shrink", "tail_log", False),
    ("hide", "delete_log", False),
    ("mount", "mounted", True),
]


@pytest.mark.parametrize(("tool", "name", "there"), CHANGES)
async def test_a_session_is_told(tool, name, there):
    heard = Heard()
    async with Client(growing(log_server()), mode="legacy", message_handler=heard) as client:
        await client.call_tool(tool)
        await heard.tools.wait()
        assert (name in await tool_names(client)) is there


@pytest.mark.parametrize(("tool", "name", "there"), CHANGES)
async def test_a_listen_stream_is_told(tool, name, there):
    async with Client(growing(log_server())) as client:
        async with listen(client.session, tools_list_changed=True) as stream:
            await client.call_tool(tool)
            assert type(await anext(aiter(stream))).__name__ == "ToolsListChanged"
        assert (name in await tool_names(client)) is there


async def test_a_mounted_servers_change_is_told():
    heard, child = Heard(), log_server()
    parent = create_mcp_server("parent", environ={})
    parent.mount(child, namespace="ops")
    async with Client(parent, mode="legacy", message_handler=heard) as client:
        await client.list_tools()
        child.add_tool(_tool("grown"))
        await heard.tools.wait()
        assert "ops_grown" in await tool_names(client)


async def test_a_change_lifts_no_bound():
    heard = Heard()
    server = growing(log_server(environ={"MCP_DISABLED_TOOLS": "grown"}))
    async with Client(server, mode="legacy", message_handler=heard) as client:
        await client.call_tool("grow")
        await heard.tools.wait()
        assert "grown" not in await tool_names(client)
        answer = await client.call_tool("grown", raise_on_error=False)
        assert answer.content[0].text == "Unknown tool: 'grown'"


async def test_capabilities_promise_it_in_both_eras():
    for mode in ("auto", "legacy"):
        async with Client(log_server(), mode=mode) as client:
            assert client.session.server_capabilities.tools.list_changed is True


async def test_updates_of_a_denied_resource_are_not_told():
    server = log_server(environ={"MCP_DISABLED_TAGS": "write"})
    async with Client(server) as client:
        await client.list_resources()
        async with listen(client.session, resource_subscriptions=["log://keys", "log://status"]) as stream:
            for uri in ("log://keys", "log://status"):
                await server.changes.bus.publish(ResourceUpdated(uri=uri))
            assert (await anext(aiter(stream))).uri == "log://status"
