"""The tools that a router is given: in whatever form, read once, and kept from what a host does to its own."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest
from fastmcp import Client

from agent_utilities import ToolRouter
from agent_utilities.errors import InputError
from agent_utilities.search.router_tools import RoutedTools
from tests.search.catalogs import catalog, server, tool

pytestmark = pytest.mark.anyio


class TestForms:
    async def test_the_sdks_tools_fastmcps_tools_and_mappings_are_read_alike(self) -> None:
        mcp = server()
        async with Client(mcp) as client:
            listed = await client.list_tools()
        definitions = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in listed]
        of_sdk, of_fastmcp = RoutedTools(listed), RoutedTools(await mcp.list_tools())
        assert isinstance(listed[0], mcp_types.Tool)
        assert list(of_sdk.definitions.values()) == list(of_fastmcp.definitions.values()) == definitions
        assert RoutedTools(definitions).documents == of_sdk.documents

    def test_a_name_given_twice_is_the_first_tool_of_it(self) -> None:
        known = RoutedTools([tool("a", "first"), tool("a", "second")])
        assert [definition["description"] for definition in known.definitions.values()] == ["first"]

    def test_a_tool_without_a_schema_takes_nothing(self) -> None:
        assert ToolRouter([{"name": "a"}], tool_search="off").tools("openai")[0]["function"] == {
            "name": "a",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        }

    def test_what_its_owner_changes_later_the_router_does_not_see(self) -> None:
        given = catalog()
        known = RoutedTools(given)
        given[0]["inputSchema"]["properties"].clear()
        assert known.definitions["invoice_show"]["inputSchema"]["properties"]

    def test_what_is_no_tool_is_refused(self) -> None:
        for given in [{"description": "nameless"}, {"name": ""}, {"name": 5}, "song", None, 5]:
            with pytest.raises(InputError, match="not a tool with a name"):
                ToolRouter([given])

    def test_what_is_neither_tools_nor_a_client_is_refused(self) -> None:
        for given in [5, None, "song", b"song"]:
            with pytest.raises(InputError, match=r"neither tools nor a client.*fastmcp\.Client"):
                ToolRouter(given)

    async def test_no_tools_at_all_are_no_trouble(self) -> None:
        router = ToolRouter([])
        assert router.tools() == []
        assert (await router.turn("the song")).added == ()
        assert (await router.search("song")).names == ()


class TestServers:
    def test_a_gateways_tools_are_of_the_upstream_whose_tag_they_begin_with(self) -> None:
        def tagged(name: str, *tags: str) -> dict[str, Any]:
            return tool(name, _meta={"fastmcp": {"tags": list(tags)}})

        known = RoutedTools([tagged("git_log", "read", "Git"), tagged("git_hub_pr", "git", "git_hub")], "gateway")
        assert known.servers == ("git", "git_hub")

    def test_where_one_tool_begins_with_none_all_are_of_the_server_that_lists_them(self) -> None:
        tagged = tool("git_log", _meta={"fastmcp": {"tags": ["git"]}})
        assert RoutedTools([tagged, tool("gitk", _meta={"fastmcp": {"tags": ["git"]}})], "own").servers == (
            "own",
            "own",
        )

    def test_tags_that_are_none_are_none(self) -> None:
        for meta in [None, 5, {"fastmcp": 5}, {"fastmcp": {"tags": 5}}, {"fastmcp": {"tags": [5]}}]:
            assert RoutedTools([tool("git_log", _meta=meta)]).entries[0].tags == frozenset()
