"""Routers on a real `fastmcp.Client`: connecting, listing anew, calling, and what dies."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError

from agent_utilities import ToolRouter
from agent_utilities.errors import InputError
from agent_utilities.search.router_tools import ToolArgumentsError
from tests.search.catalogs import add, catalog, names, of_topic, server, tool

pytestmark = pytest.mark.anyio
ENTRY = ["tool_search", "call_tool"]


class TestConnecting:
    async def test_the_router_connects_a_client_that_is_not(self) -> None:
        client = Client(server())
        async with ToolRouter(client) as router:
            assert client.is_connected()
            assert (await router.turn("the photo")).added == tuple(of_topic("photo"))
        assert not client.is_connected()

    async def test_a_client_that_is_connected_stays_so(self) -> None:
        async with Client(server()) as client:
            async with ToolRouter(client):
                pass
            assert client.is_connected()

    async def test_a_connected_client_needs_no_block(self) -> None:
        async with Client(server()) as client:
            router = ToolRouter(client)
            assert (await router.turn("the photo")).added == tuple(of_topic("photo"))

    async def test_before_tools_were_listed_that_is_said_with_what_would_do(self) -> None:
        with pytest.raises(InputError, match=r"not listed yet.*await router\.refresh\(\)"):
            ToolRouter(Client(server())).tools()

    async def test_a_child_takes_over_the_connection(self) -> None:
        client = Client(server())
        async with ToolRouter(client) as router, router.child():
            pass
        assert not client.is_connected()

    async def test_a_listing_that_fails_gives_the_client_back(self) -> None:
        mcp = FastMCP[Any]("failing")

        async def failing(*_: Any) -> Any:
            raise RuntimeError("no list")

        mcp.list_tools = failing  # type: ignore[method-assign]
        client = Client(mcp)
        with pytest.raises(Exception, match=r"no list|[Ii]nternal"):
            async with ToolRouter(client):
                raise AssertionError("entered")
        assert not client.is_connected()

    async def test_tools_of_a_client_are_of_its_server(self) -> None:
        async with ToolRouter(Client(server("office"))) as router:
            assert (await router.search("select:song_show", server="Office")).names == ("song_show",)
            assert (await router.search("select:song_show", server="song")).names == ("song_show",)
            with pytest.raises(InputError, match="no such server: 'gateway'"):
                await router.search("select:song_show", server="gateway")


class TestChanges:
    async def test_what_came_is_listed_after_a_refresh(self) -> None:
        mcp = server()
        async with ToolRouter(Client(mcp)) as router:
            add(mcp, "crane_lift", "Lifts a load with the crane.")
            assert not router.knows("crane_lift")
            await router.refresh()
            assert router.knows("crane_lift")
            assert (await router.search("crane")).names[0] == "crane_lift"

    async def test_a_client_that_hears_of_it_lists_anew_before_the_next_search(self) -> None:
        heard = asyncio.Event()

        async def hear(message: Any) -> None:
            await router.heard(message)
            if message.method == "notifications/tools/list_changed":
                heard.set()

        mcp = server()

        @mcp.tool
        async def grow(context: Context) -> str:
            add(mcp, "crane_lift", "Lifts a load with the crane.")
            await context.send_notification(mcp_types.ToolListChangedNotification())
            return "grown"

        router = ToolRouter(Client(mcp, mode="legacy", message_handler=hear))
        async with router:
            await router.call("grow")
            await heard.wait()
            assert (await router.search("crane")).names[0] == "crane_lift"

    async def test_another_message_lists_nothing_anew(self) -> None:
        mcp = server()
        async with ToolRouter(Client(mcp)) as router:
            add(mcp, "crane_lift", "Lifts a load with the crane.")
            await router.heard(mcp_types.ResourceListChangedNotification())
            await router.heard(RuntimeError("lost"))
            await router.turn("the crane")
            assert not router.knows("crane_lift")

    async def test_what_is_gone_is_not_listed_and_active_again_when_it_comes_back(self) -> None:
        mcp = server()
        async with ToolRouter(Client(mcp)) as router:
            await router.search("select:song_show,photo_show")
            mcp.local_provider.remove_tool("song_show")
            await router.refresh()
            assert names(router.tools()) == [*ENTRY, "photo_show"]
            assert router.active.names == ("photo_show",)
            add(mcp, "song_show", "Shows a song.")
            await router.refresh()
            assert names(router.tools()) == [*ENTRY, "song_show", "photo_show"]

    async def test_a_listing_that_says_the_same_keeps_the_index(self) -> None:
        async with ToolRouter(Client(server())) as router:
            index = await router._shared.searchable()
            await router.refresh()
            assert await router._shared.searchable() is index


class TestCalls:
    async def test_a_result_is_the_tools_own_and_the_call_activates(self) -> None:
        async with ToolRouter(Client(server())) as router:
            result = await router.call("song_show", {"id": "7"})
            assert result.structured_content == {"result": "song_show of 7"}
            assert names(router.tools()) == [*ENTRY, "song_show"]

    async def test_an_error_is_the_tools_own(self) -> None:
        async with ToolRouter(Client(server())) as router:
            with pytest.raises(ToolError, match=r"^Error calling tool 'song_show': song_show knows no such id$"):
                await router.call("song_show", {"id": "missing"})
            with pytest.raises(ToolError, match=r"^Error calling tool 'song_show': song_show knows no such id$"):
                await router.handle("call_tool", {"name": "song_show", "arguments": {"id": "missing"}})

    async def test_what_the_client_takes_beside_arguments_is_passed_on(self) -> None:
        async with ToolRouter(Client(server())) as router:
            result = await router.call("song_show", {"id": "missing"}, raise_on_error=False)
            assert result.is_error

    async def test_a_name_that_is_not_known_is_called_as_it_is(self) -> None:
        async with ToolRouter(Client(server())) as router:
            with pytest.raises(ToolError, match="Unknown tool: 'nothing_such'"):
                await router.call("nothing_such")

    async def test_bad_arguments_of_a_tool_that_was_not_listed_come_back_with_its_schema(self) -> None:
        async with ToolRouter(Client(server())) as router:
            with pytest.raises(ToolArgumentsError, match=r'song_show takes: \{.*"required":\["id"\]'):
                await router.handle("song_show", {"song": "7"})

    async def test_those_of_a_tool_that_was_listed_are_told_by_the_tool_alone(self) -> None:
        async with ToolRouter(Client(server()), pins=["song_show"]) as router:
            with pytest.raises(ToolError) as raised:
                await router.handle("song_show", {"song": "7"})
            assert "takes:" not in str(raised.value)

    async def test_a_tool_is_called_under_the_name_that_a_provider_took(self) -> None:
        mcp = server()
        add(mcp, "song.sing/along", "Sings a song along.")
        async with ToolRouter(Client(mcp), pins=["song.*"]) as router:
            legal = names([each["function"] for each in router.tools("openai")])[2]
            assert legal != "song.sing/along"
            assert router.name_of(legal) == "song.sing/along"
            assert router.text_of(await router.handle(legal, {"id": "7"})) == "song.sing/along of 7"

    async def test_definitions_without_a_client_are_called_by_what_is_given_for_it(self) -> None:
        calls: list[tuple[str, dict[str, Any]]] = []

        async def call(name: str, arguments: dict[str, Any]) -> str:
            calls.append((name, arguments))
            return "called"

        router = ToolRouter(catalog(), call=call)
        assert await router.handle("call_tool", {"name": "song_show", "arguments": {"id": "7"}}) == "called"
        assert calls == [("song_show", {"id": "7"})]

    async def test_without_either_that_is_said(self) -> None:
        with pytest.raises(InputError, match=r"nothing to call tools with: 'song_show'.*or call="):
            await ToolRouter(catalog()).call("song_show")


class TestTrouble:
    async def test_a_listing_that_fails_later_changes_nothing(self) -> None:
        client = Failing(catalog())
        router = ToolRouter(client)
        await router.turn("the photo")
        before = router.tools()
        client.error = ConnectionError("gone")
        with pytest.raises(ConnectionError):
            await router.refresh()
        assert router.tools() == before
        client.error = None
        client.tools = [*catalog(), tool("crane_lift", "Lifts a load with the crane.")]
        await router.refresh()
        assert router.knows("crane_lift")

    async def test_a_search_goes_on_with_what_was_listed_and_lists_anew_when_that_works_again(self) -> None:
        client = Failing(catalog())
        router = ToolRouter(client)
        await router.refresh()
        client.error, client.tools = ConnectionError("gone"), catalog()[:7]
        await router.heard(Changed())
        assert set((await router.search("song")).names) == set(of_topic("song"))
        client.error = None
        assert (await router.search("song")).names == ()

    async def test_a_change_heard_while_tools_are_listed_is_not_lost(self) -> None:
        client = Failing(catalog()[:7])
        router = ToolRouter(client)

        async def change_meanwhile() -> None:
            client.during = None
            await router.heard(Changed())
            # The answer is under way already.
            client.tools, client.answer = catalog(), catalog()[:7]

        client.during = change_meanwhile
        await router.refresh()
        assert not router.knows("song_show")
        await router.turn("the song")
        assert router.knows("song_show")

    @pytest.mark.outside
    async def test_a_server_that_dies_under_a_call_leaves_the_set_whole(self, tmp_path: Path) -> None:
        (tmp_path / "dying.py").write_text(DYING)
        client = Client(StdioTransport(sys.executable, [str(tmp_path / "dying.py")], keep_alive=False))
        async with ToolRouter(client) as router:
            await router.search("select:tool_1")
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a client says of a server that died
                await router.call("die")
            assert names(router.tools()) == [*ENTRY, "tool_1", "die"]
            with pytest.raises(Exception):  # noqa: B017, PT011
                await router.refresh()
            await router.heard(Changed())
            assert (await router.search("select:tool_2")).activated == ("tool_2",)
            assert (await router.turn("tool number 3")).n_turns == 1


class Changed:
    """What a client hears when its server's tools change."""

    method = "notifications/tools/list_changed"


class Failing:
    """Has tools, and fails to list them as it is told to."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        self.tools, self.error = tools, None
        self.during: Any = None
        self.answer: list[dict[str, Any]] | None = None

    async def list_tools(self) -> list[dict[str, Any]]:
        if self.error is not None:
            raise self.error
        if self.during is not None:
            await self.during()
        answer, self.answer = self.answer, None
        return self.tools if answer is None else answer

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        raise self.error or LookupError(name)


DYING = """
import os
from fastmcp import FastMCP

mcp = FastMCP("dying")
for n in range(60):
    mcp.tool(lambda: "done", name=f"tool_{n}", description=f"Does number {n}.")

@mcp.tool
def die() -> None:
    os._exit(3)

mcp.run(show_banner=False)
"""
