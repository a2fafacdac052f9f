"""Each private part of FastMCP is where it is looked for, and does what is asked of it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.tools.base import Tool
from mcp.server.lowlevel import Server

from agent_utilities import create_mcp_server
from agent_utilities.compat import fastmcp_server

pytestmark = pytest.mark.anyio


async def test_options_are_those_that_the_constructor_names() -> None:
    taken = inspect.signature(FastMCP.__init__).parameters.values()
    named = {each.name for each in taken if each.kind is each.KEYWORD_ONLY}
    assert {*fastmcp_server.FastMCPOptions.__annotations__} == named


async def test_the_low_level_server_takes_middleware_handlers_hints_and_a_schema_look_up() -> None:
    sdk = fastmcp_server.low_level_server(FastMCP("s"))
    assert isinstance(sdk, Server)
    assert isinstance(sdk.middleware, list)
    assert hasattr(sdk, "get_tool_input_schema")
    assert dict(sdk.cache_hints) == {}
    assert sdk.get_request_handler("tools/list") is not None


async def test_a_servers_whole_lifespan_can_be_entered_twice() -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        entered.append("entered")
        yield
        entered.append("left")

    server: FastMCP[Any] = FastMCP("s", lifespan=lifespan)
    async with fastmcp_server.whole_lifespan(server):
        async with fastmcp_server.whole_lifespan(server):
            pass
        assert entered == ["entered"]
    assert entered == ["entered", "left"]


async def test_a_mounted_tool_tells_its_server() -> None:
    server, mounted = FastMCP[Any]("s"), FastMCP[Any]("m")
    server.tool(lambda: "", name="own")
    mounted.tool(lambda: "", name="theirs")
    server.mount(mounted, namespace="n")
    servers = {tool.name: fastmcp_server.mounted_server(tool) for tool in await server.list_tools()}
    assert servers == {"own": None, "n_theirs": mounted}


def test_the_transport_is_told_outside_a_request_too() -> None:
    assert fastmcp_server.is_over_stdio() is False
    with fastmcp_server.as_over_stdio():
        assert fastmcp_server.is_over_stdio() is True
    assert fastmcp_server.is_over_stdio() is False


def test_a_provider_in_a_namespace_tells_what_it_wraps() -> None:
    local = LocalProvider()
    server: FastMCP[Any] = FastMCP("s")
    server.add_provider(local, namespace="n")
    (wrapped,) = [provider for provider in server.providers if provider is not server.local_provider]
    assert fastmcp_server.parts_of(wrapped) == [local]
    child: FastMCP[Any] = FastMCP("child")
    assert fastmcp_server.parts_of(FastMCPProvider(child)) == [child]


async def test_an_injected_tool_is_listed_and_called_until_a_bound_refuses_it() -> None:
    for denied in ("", "injected"):
        injecting = ToolInjectionMiddleware([Tool.from_function(lambda: "done", name="injected")])
        server = create_mcp_server("s", environ={"MCP_DISABLED_TOOLS": denied}, middleware=[injecting])
        async with Client(server) as client:
            assert [tool.name for tool in await client.list_tools()] == ([] if denied else ["injected"])
            assert (await client.call_tool("injected", raise_on_error=False)).is_error == bool(denied)


class TestWhatReplicasShare:
    async def test_authors_state_goes_where_it_is_shared_and_stays_in_memory_until_then(self) -> None:
        from key_value.aio.stores.memory import MemoryStore

        options: dict[str, Any] = {}
        replicated = fastmcp_server.Replicated(options)
        server: FastMCP[Any] = FastMCP("s", **options)
        server.tool(remember)
        async with Client(server) as client:
            assert (await client.call_tool("remember", {"word": "here"})).data == "here"
        replicated.share(server, b"k" * 32, shared := MemoryStore())
        async with Client(server) as client:
            assert (await client.call_tool("remember", {"word": "there"})).data == "there"
        assert (
            "there" in str(await shared.keys(collection="fastmcp_state"))
            or shared is options["session_state_store"].shared
        )

    def test_what_an_author_gave_stays(self) -> None:
        from key_value.aio.stores.memory import MemoryStore
        from mcp.server.request_state import RequestStateSecurity

        own = MemoryStore()
        options: dict[str, Any] = {
            "session_state_store": own,
            "request_state_security": RequestStateSecurity(keys=[b"a" * 32]),
        }
        replicated = fastmcp_server.Replicated(options)
        server: FastMCP[Any] = FastMCP("s", **options)
        before = list(fastmcp_server.low_level_server(server).middleware)
        replicated.share(server, b"k" * 32, MemoryStore())
        assert options["session_state_store"] is own
        assert fastmcp_server.low_level_server(server).middleware == before


async def remember(word: str) -> str:
    """Keep a word for the session, and return it as it is kept."""
    from fastmcp.server.dependencies import get_context

    await get_context().set_state("word", word)
    return str(await get_context().get_state("word"))
