"""A router and a session with a server: the same steps list the same tools, and find the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import PaginatedRequestParams, TextContent

from agent_utilities import ToolRouter, create_mcp_server, selection_meta
from agent_utilities.selection.channels import META_KEY
from tests.search.catalogs import TOPICS, VERBS, add, names

pytestmark = pytest.mark.anyio
Hosts = tuple[ToolRouter, "Session"]
SETTINGS: dict[str, Any] = {"max_active": 9, "pins": ["weather_show"]}


class Session:
    """A session of the handshake era with a server that defers its tools."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def listed(self, message: str | None = None) -> list[dict[str, Any]]:
        meta = {"_meta": selection_meta(query=message)} if message else {}
        result = await self._client.session.list_tools(params=PaginatedRequestParams.model_validate(meta))
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in result.tools
        ]

    async def cause(self, message: str) -> str:
        """Return what a list for a message says of why it is less than it could be."""
        asked = PaginatedRequestParams.model_validate({"_meta": selection_meta(query=message)})
        meta = (await self._client.session.list_tools(params=asked)).meta or {}
        return str(meta[META_KEY].get("cause", ""))

    async def undeferred(self) -> list[Any]:
        """Return all of the server's tools."""
        asked = PaginatedRequestParams.model_validate({"_meta": selection_meta(tool_search="off")})
        return list((await self._client.session.list_tools(params=asked)).tools)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._client.call_tool(name, arguments, raise_on_error=False)
        return "\n".join(block.text for block in result.content if isinstance(block, TextContent))

    async def whole(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._client.call_tool(name, arguments)
        assert result.structured_content is not None
        return result.structured_content


def office(tmp_path: Path) -> Any:
    """Return a server of 63 tools that defers them, with few places for what is loaded."""
    environ = {
        "MCP_TOOL_SEARCH": "on",
        "MCP_MAX_ACTIVE": "9",
        "MCP_PINNED_TOOLS": "weather_show",
        "MCP_RANKER": "lexical",
        "MCP_GRAPH_FOLDER": str(tmp_path),
        "MCP_GRAPH_DEADLINE_MS": "60000",
    }
    mcp = create_mcp_server("office", environ=environ)
    for noun, text in TOPICS.items():
        for verb in VERBS:
            add(mcp, f"{noun}_{verb}", f"{verb.title()}s {text}.", verb)
    return mcp


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncIterator[Hosts]:
    """A router on all of a server's tools, and a session with that server."""
    mcp = office(tmp_path)
    async with Client(mcp, mode="legacy") as client:
        session = Session(client)
        yield ToolRouter(await session.undeferred(), call=session.call, **SETTINGS), session


def shown(router: ToolRouter) -> list[dict[str, Any]]:
    return [{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in router.tools()]


async def test_before_anything_the_lists_are_the_same_to_the_word(hosts: Hosts) -> None:
    router, session = hosts
    assert shown(router) == await session.listed()


async def test_nine_turns_of_topic_drift(hosts: Hosts) -> None:
    router, session = hosts
    for noun in TOPICS:
        message = f"what about the {noun}?"
        await router.turn(message)
        assert names(router.tools()) == names(await session.listed(message))
    assert len(router.tools()) > 7 * 7
    assert (await router.turn("anything more")).frozen


async def test_a_message_that_attaches_nothing_has_the_same_cause(hosts: Hosts) -> None:
    router, session = hosts
    causes = [(await router.turn(said)).cause for said in ("what about the photo?", "thank you kindly")]
    assert causes == [await session.cause(said) for said in ("what about the photo?", "thank you kindly")]
    assert causes[1].startswith("nothing fits")


async def test_searches_with_evictions(hosts: Hosts) -> None:
    router, session = hosts
    evicted: list[str] = []
    for asked in (
        {"query": "a song"},
        {"query": "rename the photo", "max_results": 3},
        {"query": "select:ticket_show,song_shwo,weather_show"},
        {"query": "courier"},
        {"query": "rename", "server": "rename"},
        {"names": ["recipe_show"]},
    ):
        ours = json.loads(router.text_of(await router.handle("tool_search", asked)))
        evicted += ours.get("evicted", [])
        assert ours == json.loads(await session.call("tool_search", asked))
        assert names(router.tools()) == names(await session.listed())
    assert len(evicted) > 5


async def test_what_cannot_be_meant_is_refused_in_the_same_words(hosts: Hosts) -> None:
    for asked in [{}, {"query": " "}, {"query": "select:,"}, {"query": "a", "max_results": 26}, {"query": "a", "k": 3}]:
        router, session = hosts
        with pytest.raises(ValueError, match="tool_search") as refused:
            await router.handle("tool_search", asked)
        assert str(refused.value) == await session.call("tool_search", asked)


async def test_a_server_that_is_handed_the_routers_set_lists_the_same(hosts: Hosts, tmp_path: Path) -> None:
    router, _ = hosts
    await router.turn("what about the photo?")
    await router.search("select:song_show,ticket_show")
    router.touch("song_show")
    async with Client(office(tmp_path)) as client:
        assert client.protocol_version == "2026-07-28"
        meta = {"_meta": selection_meta(active=router.active_value)}
        listed = await client.session.list_tools(params=PaginatedRequestParams.model_validate(meta))
    assert names(router.tools()) == [tool.name for tool in listed.tools]
    assert "song_show" in names(router.tools())


async def test_a_router_that_is_handed_a_servers_set_lists_the_same(hosts: Hosts) -> None:
    _, session = hosts
    await session.listed("what about the photo?")
    result = await session.whole("tool_search", {"query": "a song", "max_results": 2})
    handed_over = ToolRouter(await session.undeferred(), active=result["active"], **SETTINGS)
    assert names(handed_over.tools()) == names(await session.listed())
    assert len(handed_over.active.loaded) == 2
