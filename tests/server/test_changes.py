"""`list_changed` when the catalog changes while the server runs, in both protocol eras."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Namespace
from fastmcp.tools.base import Tool
from mcp.client.subscriptions import ResourceUpdated, listen
from mcp_types import PaginatedRequestParams

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.server.changes.changes import _is_comparing
from tests.every import every
from tests.server.servers import log_server, running, tool_names, when_tools_change

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]
KEY = "agent-utilities/selection"
USERS = {"admin": {"client_id": "a", "scopes": ["admin"]}, "user": {"client_id": "u", "scopes": []}}


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
        self.tools, self.prompts = anyio.Event(), anyio.Event()

    async def on_tool_list_changed(self, message: object) -> None:
        self.tools.set()

    async def on_prompt_list_changed(self, message: object) -> None:
        self.prompts.set()


CHANGES = [
    ("grow", "grown", True),
    ("grow_in_thread", "grown_in_thread", True),
    ("shrink", "tail_log", False),
    ("hide", "delete_log", False),
    ("mount", "mounted", True),
]


@every(("tool", "name", "there"), CHANGES)
async def test_a_session_is_told(tool, name, there):
    heard = Heard()
    async with Client(growing(log_server()), mode="legacy", message_handler=heard) as client:
        await client.call_tool(tool)
        await heard.tools.wait()
        assert (name in await tool_names(client)) is there


@every(("tool", "name", "there"), CHANGES)
async def test_a_listen_stream_is_told(tool, name, there):
    async with Client(growing(log_server())) as client:
        async with listen(client.session, tools_list_changed=True) as stream:
            await client.call_tool(tool)
            assert type(await anext(aiter(stream))).__name__ == "ToolsListChanged"
        assert (name in await tool_names(client)) is there


def _mount(child: FastMCP) -> None:
    child.mount(FastMCP("grandchild", tools=[_tool("mounted")]))


@every("made", [log_server, lambda: FastMCP("plain", tools=[_tool("tail_log")])])
@every(
    ("change", "name", "there"),
    [
        (lambda child: child.add_tool(_tool("grown")), "ops_grown", True),
        (_mount, "ops_mounted", True),
        (lambda child: child.disable(names={"tail_log"}), "ops_tail_log", False),
        (lambda child: child.add_transform(Namespace("new")), "ops_new_tail_log", True),
    ],
)
async def test_a_change_in_a_mounted_server_is_told(made, change, name, there):
    heard, child = Heard(), made()
    parent = create_mcp_server("parent", environ={"MCP_GRAPH": "off"})
    parent.mount(child, namespace="ops")
    async with Client(parent, mode="legacy", message_handler=heard) as client:
        await client.list_tools()
        change(child)
        await heard.tools.wait()
        assert (name in await tool_names(client)) is there


async def test_a_change_in_a_server_mounted_late_on_a_mounted_one_is_told():
    heard, child, grandchild = Heard(), FastMCP("child"), FastMCP("grandchild")
    parent = create_mcp_server("parent", environ={"MCP_GRAPH": "off"})
    parent.mount(child)
    child.mount(grandchild)
    async with Client(parent, mode="legacy", message_handler=heard) as client:
        await client.list_tools()
        grandchild.add_tool(_tool("grown"))
        await heard.tools.wait()
        assert "grown" in await tool_names(client)


class TestDenied:
    """Of what changes among denied tools a caller hears nothing, and the revision stays."""

    @every(
        ("operator", "meta"),
        [
            ({"MCP_DISABLED_TOOLS": "grown"}, {}),
            ({}, {KEY: {"disabled_tools": ["grown"]}}),
            ({}, {KEY: {"tools": ["tail_log"]}}),
        ],
    )
    async def test_a_session_is_not_told(self, operator: dict[str, str], meta: dict[str, Any]):
        heard, server = Heard(), log_server(environ=operator)
        changed = anyio.Event()
        when_tools_change(server, changed.set)
        asked = PaginatedRequestParams(_meta=meta)
        async with Client(server, mode="legacy", message_handler=heard) as client:
            before = (await client.session.list_tools(params=asked)).meta[KEY]["revision"]
            await client.session.list_prompts()
            server.add_tool(_tool("grown"))
            await changed.wait()
            server.local_provider.remove_prompt("triage")
            await heard.prompts.wait()
            assert not heard.tools.is_set()
            assert (await client.session.list_tools(params=asked)).meta[KEY]["revision"] == before

    async def test_a_call_of_it_reads_as_one_of_no_tool(self):
        async with Client(growing(log_server(environ={"MCP_DISABLED_TOOLS": "grown"}))) as client:
            await client.call_tool("grow")
            answer = await client.call_tool("grown", raise_on_error=False)
            assert answer.content[0].text == "Unknown tool: 'grown'"

    @pytest.mark.outside
    async def test_a_stream_is_not_told_of_what_its_caller_is_not_admitted_to_or_asked_not_to_have(self):
        server = log_server(auth=StaticTokenVerifier(tokens=USERS))
        async with AsyncExitStack() as stack:
            url = stack.enter_context(running(server)) + "/mcp"
            streams = {}
            for user in USERS:
                headers = {
                    "authorization": f"Bearer {user}",
                    **({"x-mcp-disabled-tools": "grown"} if user == "user" else {}),
                }
                client = await stack.enter_async_context(Client(StreamableHttpTransport(url, headers=headers)))
                await client.list_tools()
                asked = listen(client.session, tools_list_changed=True, prompts_list_changed=True)
                streams[user] = aiter(await stack.enter_async_context(asked))
            server.tool(lambda: "", name="vault", auth=lambda context: "admin" in context.token.scopes)
            assert type(await anext(streams["admin"])).__name__ == "ToolsListChanged"
            server.add_tool(_tool("grown"))
            assert type(await anext(streams["admin"])).__name__ == "ToolsListChanged"
            server.local_provider.remove_prompt("triage")
            assert type(await anext(streams["user"])).__name__ == "PromptsListChanged"

    @pytest.mark.outside
    async def test_updates_of_a_resource_are_told_to_those_alone_who_may_read_it(self):
        server, child = log_server(auth=StaticTokenVerifier(tokens=USERS)), FastMCP("child")
        for provider, uri in ((server, "vault://gold"), (child, "vault://silver")):
            provider.resource(uri, auth=lambda context: "admin" in context.token.scopes)(lambda: "ore")
        server.mount(child)
        uris = ["vault://gold", "vault://silver", "log://status"]

        @server.tool
        async def touch() -> None:
            for uri in uris:
                await server.changes.publish(ResourceUpdated(uri=uri))

        told = {}
        with running(server) as base:
            for user in USERS:
                transport = StreamableHttpTransport(base + "/mcp", headers={"authorization": f"Bearer {user}"})
                async with Client(transport) as client, listen(client.session, resource_subscriptions=uris) as stream:
                    await client.call_tool("touch")
                    told[user] = [str((await anext(aiter(stream))).uri)]
                    while told[user][-1] != "log://status":
                        told[user].append(str((await anext(aiter(stream))).uri))
        assert told == {"admin": uris, "user": ["log://status"]}


async def test_each_stream_is_told_of_a_change_though_another_has_listed_it_already():
    server = log_server()
    async with Client(server) as first, Client(server) as second:
        for client in (first, second):
            await client.list_tools()
        async with listen(second.session, tools_list_changed=True) as stream:
            server.add_tool(_tool("grown"))
            await first.list_tools()
            assert type(await anext(aiter(stream))).__name__ == "ToolsListChanged"


class Held(Provider):
    """Has no tools, and is listed to no comparison before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = anyio.Event()

    async def _list_tools(self) -> list[Tool]:
        if _is_comparing.get():
            await self.go.wait()
        return []


async def test_a_client_that_listed_what_is_gone_again_is_told():
    server, held = log_server(), Held()
    server.add_provider(held)
    server.transport = "http"  # so that lists are learnt at the start, which this one keeps going on
    async with Client(server) as client, listen(client.session, tools_list_changed=True) as stream:
        await client.list_tools()
        server.add_tool(_tool("grown"))
        assert "grown" in await tool_names(client)
        server.local_provider.remove_tool("grown")
        held.go.set()
        assert type(await anext(aiter(stream))).__name__ == "ToolsListChanged"


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
                await server.changes.publish(ResourceUpdated(uri=uri))
            assert (await anext(aiter(stream))).uri == "log://status"
