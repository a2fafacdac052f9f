"""What is listed can be called, and what is denied is unknown: tools, prompts, resources and templates."""

from __future__ import annotations

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.transforms import Namespace
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import VersionSpec
from mcp_types import PromptReference, ResourceTemplateReference

from agent_utilities import create_mcp_server
from tests.every import every
from tests.server.servers import log_server, tool_names

pytestmark = pytest.mark.anyio
READ_ONLY = {"MCP_DISABLED_TAGS": "write,delete"}


async def answer(client: Client, tool: str) -> str:
    return (await client.call_tool(tool, raise_on_error=False)).content[0].text


class TestKinds:
    async def test_denied_components_of_every_kind_are_not_listed(self):
        async with Client(log_server(environ=READ_ONLY)) as client:
            assert await tool_names(client) == ["tail_log", "search_logs"]
            assert [p.name for p in await client.list_prompts()] == ["triage"]
            assert [str(r.uri) for r in await client.list_resources()] == ["log://status"]
            assert [t.uri_template for t in await client.list_resource_templates()] == ["log://{name}"]

    async def test_a_denied_tool_answers_like_an_unknown_one(self):
        async with Client(log_server(environ=READ_ONLY)) as client:
            assert await answer(client, "delete_log") == "Unknown tool: 'delete_log'"
            assert await answer(client, "absent_log") == "Unknown tool: 'absent_log'"

    async def test_a_denied_prompt_answers_like_an_unknown_one(self):
        async with Client(log_server(environ=READ_ONLY)) as client:
            for name in ("cleanup", "missing"):
                with pytest.raises(Exception, match=f"Unknown prompt: '{name}'"):
                    await client.get_prompt(name)

    async def test_a_denied_resource_is_not_served_by_a_template_that_matches_it(self):
        async with Client(log_server(environ=READ_ONLY)) as client:
            with pytest.raises(Exception, match="Resource not found: 'log://keys'"):
                await client.read_resource("log://keys")
            assert (await client.read_resource("log://other"))[0].text == "by name: other"

    async def test_an_allow_list_covers_every_kind(self):
        async with Client(log_server(environ={"MCP_ENABLED_COMPONENTS": "tail_log,triage,log://status"})) as client:
            assert await tool_names(client) == ["tail_log"]
            assert [p.name for p in await client.list_prompts()] == ["triage"]
            assert [str(r.uri) for r in await client.list_resources()] == ["log://status"]
            assert await client.list_resource_templates() == []


class TestVersions:
    @staticmethod
    def server(**environ: str):
        mcp = create_mcp_server("versions", environ=environ)

        @mcp.tool(name="save", version="1", tags={"read"})
        def first() -> str:
            return "one"

        @mcp.tool(name="save", version="2", tags={"write"})
        def second() -> str:
            return "two"

        return mcp

    async def test_the_highest_permitted_version_is_listed_and_called(self):
        async with Client(self.server(MCP_DISABLED_TAGS="write")) as client:
            (listed,) = await client.list_tools()
            assert listed.meta["fastmcp"]["version"] == "1"
            assert await answer(client, "save") == "one"

    async def test_a_denied_version_can_not_be_asked_for(self):
        async with Client(self.server(MCP_DISABLED_TAGS="write")) as client:
            result = await client.call_tool("save", version="2", raise_on_error=False)
            assert result.content[0].text == "Unknown tool: 'save'"

    async def test_below_a_denied_version_none_is_served_that_was_not_asked_for(self):
        server = self.server(MCP_DISABLED_TAGS="write")
        assert (await server.get_tool("save", version=VersionSpec(gte="1"))).version == "1"
        assert await server.get_tool("save", version=VersionSpec(gte="2")) is None

    async def test_without_a_bound_the_highest_version_answers(self):
        async with Client(self.server()) as client:
            assert await answer(client, "save") == "two"


class TestComposition:
    async def test_mounted_tools_are_judged_by_their_namespaced_names(self):
        parent = create_mcp_server("parent", environ={"MCP_ENABLED_TOOLS": "ops_tail_log"})
        parent.mount(log_server(), namespace="ops")
        async with Client(parent) as client:
            assert await tool_names(client) == ["ops_tail_log"]
            assert await answer(client, "ops_tail_log") == "tail of app.log"
            assert await answer(client, "ops_delete_log") == "Unknown tool: 'ops_delete_log'"

    async def test_a_mounted_server_is_judged_the_same_without_a_request(self):
        parent = create_mcp_server("parent", environ={"MCP_ENABLED_TOOLS": "ops_tail_log"})
        parent.mount(log_server(environ={"MCP_ENABLED_TOOLS": "tail_log"}), namespace="ops")
        assert [tool.name for tool in await parent.list_tools()] == ["ops_tail_log"]
        assert await parent.get_tool("ops_tail_log") is not None
        assert await parent.get_tool("ops_delete_log") is None

    async def test_a_plain_server_mounted_is_under_the_verdict_too(self):
        plain = FastMCP("plain")
        plain.tool(lambda: "ran", name="run", tags={"write"})
        parent = create_mcp_server("parent", environ=READ_ONLY)
        parent.mount(plain)
        async with Client(parent) as client:
            assert await answer(client, "run") == "Unknown tool: 'run'"

    async def test_transforms_added_later_rename_before_the_verdict(self):
        server = log_server(environ={"MCP_ENABLED_TOOLS": "ops_tail_log"})
        server.add_transform(Namespace("ops"))
        async with Client(server) as client:
            assert await tool_names(client) == ["ops_tail_log"]

    async def test_injected_tools_are_under_the_verdict(self):
        def sneak() -> str:
            return "ran"

        injected = ToolInjectionMiddleware([Tool.from_function(sneak, tags={"write"})])
        server = log_server(environ=READ_ONLY, middleware=[injected])
        async with Client(server) as client:
            assert await tool_names(client) == ["tail_log", "search_logs"]
            assert await answer(client, "sneak") == "Unknown tool: 'sneak'"

    async def test_a_tool_can_not_call_a_denied_one_for_its_caller(self):
        server = log_server(environ=READ_ONLY)

        @server.tool(tags={"read"})
        async def helper() -> str:
            return str(await server.call_tool("delete_log"))

        async with Client(server) as client:
            assert "Unknown tool: 'delete_log'" in await answer(client, "helper")

    async def test_a_session_can_not_enable_what_is_denied(self):
        server = log_server(environ={"MCP_DISABLED_TAGS": "delete"})

        @server.tool
        async def unlock(ctx: Context) -> str:
            await ctx.enable_components(tags={"delete"})
            return "unlocked"

        async with Client(server, mode="legacy") as client:
            assert await answer(client, "unlock") == "unlocked"
            assert "delete_log" not in await tool_names(client)
            assert await answer(client, "delete_log") == "Unknown tool: 'delete_log'"

    async def test_what_the_author_disables_stays_disabled(self):
        server = log_server()
        server.disable(tags={"write"})
        async with Client(server) as client:
            assert await tool_names(client) == ["tail_log", "search_logs"]

    async def test_tags_changed_in_place_are_judged_as_they_are_now(self):
        server = log_server(environ=READ_ONLY)
        async with Client(server) as client:
            assert "tail_log" in await tool_names(client)
            (await server.local_provider.get_tool("tail_log")).tags.add("write")
            assert "tail_log" not in await tool_names(client)
            assert await answer(client, "tail_log") == "Unknown tool: 'tail_log'"


class TestCompletion:
    @staticmethod
    def server(**environ: str):
        server = log_server(environ=environ)

        @server.completion
        def complete(ref, argument, context):
            return [f"{argument.value}-done"]

        return server

    @every(("prompt", "values"), [("triage", ["x-done"]), ("cleanup", []), ("missing", [])])
    async def test_completes_only_what_is_permitted(self, prompt, values):
        async with Client(self.server(**READ_ONLY)) as client:
            found = await client.complete(PromptReference(type="ref/prompt", name=prompt), {"name": "a", "value": "x"})
            assert found.values == values

    @every(("uri", "values"), [("log://{name}", ["x-done"]), ("log://keys", []), ("other://{name}", [])])
    async def test_completes_only_permitted_resources(self, uri, values):
        async with Client(self.server(**READ_ONLY)) as client:
            reference = ResourceTemplateReference(type="ref/resource", uri=uri)
            found = await client.complete(reference, {"name": "a", "value": "x"})
            assert found.values == values


class TestWithoutARequest:
    async def test_the_operators_bounds_hold_alone(self):
        server = log_server(environ=READ_ONLY)
        assert [tool.name for tool in await server.list_tools()] == ["tail_log", "search_logs"]
        with pytest.raises(NotFoundError):
            await server.call_tool("delete_log")
