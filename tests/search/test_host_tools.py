"""A host's own tools: never the router's, whatever they are called; and the entry tools beside them."""

from __future__ import annotations

import pytest

from agent_utilities import ToolRouter
from agent_utilities.errors import InputError
from agent_utilities.policy.entry_names import ALIASES
from tests.every import every
from tests.search.catalogs import catalog, names

pytestmark = pytest.mark.anyio


class TestNames:
    def test_entry_tools_tools_and_aliases_are_known(self) -> None:
        router = ToolRouter(catalog())
        assert all(map(router.knows, ("tool_search", "call_tool", "song_show", *ALIASES)))
        assert not router.knows("read_file")

    def test_an_entry_tool_takes_another_name_than_a_hosts_own(self) -> None:
        for name in ["tool_search", "call_tool"]:
            router = ToolRouter(catalog(), host_tools=[name, f"mcp_{name}"])
            assert names(router.tools())[("tool_search", "call_tool").index(name)] == f"mcp_mcp_{name}"
            assert (router.knows(name), router.knows(f"mcp_mcp_{name}")) == (False, True)

    def test_an_alias_that_a_host_has_itself_is_none(self) -> None:
        for alias in ALIASES:
            assert not ToolRouter(catalog(), host_tools=[alias]).knows(alias)

    def test_what_a_model_is_told_of_the_entry_tools_names_them_as_they_are(self) -> None:
        search, call = ToolRouter(catalog(), host_tools=["tool_search", "call_tool"]).tools()
        assert "through mcp_call_tool" in search["description"]
        assert "find them with mcp_tool_search" in search["description"]
        assert "mcp_tool_search gives names" in call["description"]

    async def test_their_text_is_the_same_whatever_is_active(self) -> None:
        router = ToolRouter(catalog())
        before = router.tools()
        await router.turn("the photo")
        await router.search("song")
        assert router.tools()[:2] == before

    @every("format", ["mcp", "openai", "anthropic"])
    async def test_a_servers_tool_with_the_name_of_a_hosts_own_is_listed_and_called_under_another(
        self, format: str
    ) -> None:
        called = []

        async def call(name: str, arguments: object) -> str:
            called.append(name)
            return "called"

        router = ToolRouter(catalog(), pins=["song_show"], host_tools=["song_show"], call=call)
        listed = router.tools(format)[2]  # type: ignore[arg-type]
        name = listed.get("name") or listed["function"]["name"]
        assert name != "song_show"
        assert not router.knows("song_show")
        await router.handle(name, {"id": "7"})
        await router.handle("call_tool", {"name": "song_show", "arguments": {"id": "7"}})
        assert called == ["song_show", "song_show"]

    async def test_a_name_that_is_not_the_routers_is_not_handled(self) -> None:
        with pytest.raises(InputError, match=r"not a tool of this router: 'read_file'.*router\.knows"):
            await ToolRouter(catalog()).handle("read_file")


class TestEntryToolsHandled:
    async def test_a_search_by_any_of_its_names(self) -> None:
        for name in ["tool_search", *ALIASES]:
            result = await ToolRouter(catalog()).handle(name, {"query": "select:song_show"})
            assert result.names == ("song_show",)

    async def test_names_may_come_as_a_list(self) -> None:
        result = await ToolRouter(catalog()).handle("mcp_load", {"names": ["song_show", "photo_show"]})
        assert result.activated == ("song_show", "photo_show")

    async def test_a_search_takes_its_bounds(self) -> None:
        router = ToolRouter(catalog())
        result = await router.handle("tool_search", {"query": "rename", "max_results": "2", "server": "song"})
        assert result.names == ("song_rename",)

    async def test_a_call_that_cannot_be_meant_is_refused(self) -> None:
        for arguments, said in [
            ({}, "no tool's name"),
            ({"name": "song_show", "arguments": 5}, "not an object: '5'"),
            ({"name": "song_show", "arguments": "{nothing"}, "not an object"),
            ({"name": "song_show", "args": {"id": "7"}}, "no such argument: 'args'.*in `arguments`"),
            ({"name": "song_show", "id": "7"}, "no such argument: 'id'.*in `arguments`"),
            ({"name": "song_shwo"}, "unknown tool: 'song_shwo'.*did you mean song_show"),
            ({"name": "zzzz"}, "unknown tool: 'zzzz'.*find one with tool_search"),
            ({"name": "call_tool"}, "unknown tool: 'call_tool'"),
        ]:
            with pytest.raises(InputError, match=said):
                await ToolRouter(catalog(), call=None).handle("call_tool", arguments)

    @every("arguments", [{"id": "7"}, '{"id": "7"}'])
    async def test_arguments_may_come_as_text(self, arguments: object) -> None:
        async def call(name: str, arguments: dict[str, str]) -> str:
            return f"{name} of {arguments['id']}"

        router = ToolRouter(catalog(), call=call)
        assert await router.handle("call_tool", {"name": "song_show", "arguments": arguments}) == "song_show of 7"
        assert router.active.loaded == ("song_show",)

    async def test_a_search_may_be_called_through_call_tool(self) -> None:
        router = ToolRouter(catalog())
        result = await router.handle("call_tool", {"name": "ToolSearch", "arguments": {"query": "select:song_show"}})
        assert result.names == ("song_show",)
