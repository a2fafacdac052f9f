"""Every private name of FastMCP and the SDK that is used, so that an upgrade that moves one says which."""

from __future__ import annotations

import ast
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.resources.base import Resource
from fastmcp.server import context
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.providers.wrapped_provider import _WrappedProvider
from fastmcp.utilities.versions import VersionSpec
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession

from agent_utilities import create_mcp_server
from agent_utilities.mcp import fastmcp_internals

pytestmark = pytest.mark.anyio
PACKAGE = Path(fastmcp_internals.__file__).parents[1]
HOSTS = ("fastmcp", "mcp", "mcp_types")


def private_names(tree: ast.AST) -> set[str]:
    """Return the private names that a file imports from the host, and the private attributes it asks objects for."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in HOSTS:
                names |= {alias.name for alias in node.names if alias.name.startswith("_")}
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=attribute) if attribute.startswith("_") and not attribute.startswith("__"):
                names.add(attribute)
    return names


def test_no_other_file_imports_a_private_name_of_the_host():
    offending = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in HOSTS
            for alias in node.names
            if alias.name.startswith("_")
        }
        if imported and path.name != "fastmcp_internals.py":
            offending[path.name] = imported
    assert offending == {}


def test_the_private_names_are_these():
    tree = ast.parse(inspect.getsource(fastmcp_internals))
    assert private_names(tree) == {
        "_MCP_LEVEL_SEVERITY",
        "_WrappedProvider",
        "_add_component",
        "_client_log_levels",
        "_components",
        "_connection",
        "_docket",
        "_current_transport",
        "_get_component",
        "_get_injected_tool",
        "_get_tool",
        "_injected_tools",
        "_inner",
        "_lifespan_manager",
        "_log_level_session_key",
        "_on_list_tools",
        "_list_tools",
        "_lookup_resource",
        "_mcp_server",
        "_remove_component",
        "_request_state_security",
        "_server",
        "_started",
        "_state_storage",
        "_state_store",
    }


class TestEachIsWhereItIsLookedFor:
    def test_the_low_level_server_takes_middleware_handlers_hints_and_a_schema_look_up(self):
        sdk = fastmcp_internals.low_level_server(FastMCP("s"))
        assert isinstance(sdk, Server)
        assert isinstance(sdk.middleware, list)
        assert (sdk.get_tool_input_schema, dict(sdk.cache_hints)) == (None, {})

    async def test_a_server_is_started_while_it_runs(self):
        server: FastMCP[Any] = FastMCP("s")
        assert not fastmcp_internals.is_started(server)
        async with Client(server):
            assert fastmcp_internals.is_started(server)

    async def test_a_server_keeps_what_its_sessions_state_is_kept_in(self):
        server: FastMCP[Any] = FastMCP("s")
        fastmcp_internals.make_session_state(server)
        assert server._state_store is server._state_store

    async def test_a_servers_whole_lifespan_can_be_entered_twice(self):
        entered: list[str] = []

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[None]:
            entered.append("entered")
            yield
            entered.append("left")

        server: FastMCP[Any] = FastMCP("s", lifespan=lifespan)
        async with fastmcp_internals.whole_lifespan(server):
            async with fastmcp_internals.whole_lifespan(server):
                pass
            assert entered == ["entered"]
        assert entered == ["entered", "left"]

    async def test_a_resource_that_is_hidden_is_told_from_one_that_is_missing(self):
        server: FastMCP[Any] = FastMCP("s")
        server.resource("a://b")(lambda: "text")
        server.disable(keys={"resource:a://b@"})
        assert await fastmcp_internals.look_up_resource(server, "a://b") == (None, True)
        assert await fastmcp_internals.look_up_resource(server, "a://c") == (None, False)
        server.enable(keys={"resource:a://b@"})
        resource, exists = await fastmcp_internals.look_up_resource(server, "a://b")
        assert (isinstance(resource, Resource), exists) == (True, True)

    def test_a_session_bears_its_connection(self):
        parameters = inspect.signature(ServerSession.__init__).parameters
        assert "connection" in parameters
        connection = Connection.__new__(Connection)
        session = ServerSession.__new__(ServerSession)
        session._connection = connection
        assert session._connection is connection

    async def test_a_mounted_tool_tells_its_server(self):
        server, mounted = FastMCP[Any]("s"), FastMCP[Any]("m")
        server.tool(lambda: "", name="own")
        mounted.tool(lambda: "", name="theirs")
        server.mount(mounted, namespace="n")
        servers = {tool.name: fastmcp_internals.mounted_server(tool) for tool in await server.list_tools()}
        assert servers == {"own": None, "n_theirs": mounted}

    def test_the_transport_is_that_of_a_context_variable(self):
        assert fastmcp_internals.is_over_stdio() is False
        with fastmcp_internals.as_over_stdio():
            assert fastmcp_internals.is_over_stdio() is True
            assert context._current_transport.get() == "stdio"
        assert fastmcp_internals.is_over_stdio() is False

    def test_a_provider_in_a_namespace_tells_what_it_wraps(self):
        local = LocalProvider()
        server: FastMCP[Any] = FastMCP("s")
        server.add_provider(local, namespace="n")
        (wrapped,) = [provider for provider in server.providers if isinstance(provider, _WrappedProvider)]
        assert fastmcp_internals.parts_of(wrapped) == [local]
        child: FastMCP[Any] = FastMCP("child")
        assert fastmcp_internals.parts_of(FastMCPProvider(child)) == [child]

    def test_a_provider_tells_of_what_is_added_and_removed(self):
        server: FastMCP[Any] = FastMCP("s")
        told: list[str] = []
        fastmcp_internals.watch_components(server.local_provider, lambda component: told.append(component.name))
        server.tool(lambda: "done", name="a")
        server.local_provider.remove_tool("a")
        assert told == ["a", "a"]

    async def test_a_name_is_looked_up_as_fastmcp_does_and_anew_after_each_change(self):
        def add(provider: LocalProvider, name: str, version: str | None = None) -> None:
            provider.tool(lambda: "done", name=name, version=version)

        plain, watched = LocalProvider(), LocalProvider()
        fastmcp_internals.watch_components(watched, lambda component: None)
        asked = [("a", None), ("a", VersionSpec(lt="2")), ("a", VersionSpec(eq="9")), ("b", None), ("c", None)]
        changes = [("a", "1", None), ("a", "10", None), ("b", None, None), ("c", "2", "b"), ("a", "9", "a")]
        for added, version, removed in changes:
            found = []
            for provider in (plain, watched):
                if removed is not None:
                    provider.remove_tool(removed)
                add(provider, added, version)
                tools = [await provider.get_tool(*each) for each in asked]
                found.append([tool and (tool.name, tool.version) for tool in tools])
            assert found[0] == found[1]
            assert any(found[0])

    def test_injected_tools_are_those_of_the_middleware_until_a_bound_refuses_them(self):
        server = create_mcp_server("s", environ={"MCP_DISABLED_TOOLS": "injected"})
        assert list(server.author_injected_tools()) == []
        assert server._injected_tools() == []
        assert server._get_injected_tool("injected") is None
