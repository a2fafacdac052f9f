"""Turns of a session: words that come with a list, or with a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from mcp_types import PaginatedRequestParams

from agent_utilities import AgentServer, create_mcp_server, selection_meta
from agent_utilities.seam.events import Event
from agent_utilities.search.active_set import SearchEvent
from tests.parts import query_of

pytestmark = pytest.mark.anyio
TOPICS = ("invoice", "branch", "photo", "metric")
ACTIONS = ("create", "read", "export")


def shop(**environ: str) -> AgentServer:
    """A server of twelve tools on four topics, all of them deferred."""
    given = {
        "MCP_GRAPH": "embedded",
        "MCP_RANKER": "lexical",
        "MCP_TOOL_SEARCH": "on",
        "MCP_GRAPH_DEADLINE_MS": "30000",
    }
    server = create_mcp_server("shop", environ={**given, **environ})
    for topic in TOPICS:
        for action in ACTIONS:
            server.tool(lambda: "done", name=f"{action}_{topic}", description=f"{action.title()} one {topic}.")
    return server


class Heard(MessageHandler):
    """Takes notices of changed lists, for a test to wait on."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[None] = asyncio.Queue()

    async def on_tool_list_changed(self, message: object) -> None:
        self.notices.put_nowait(None)


async def listed(client: Client[Any], **asked: Any) -> list[str]:
    """Return what is listed besides the entry tools."""
    params = PaginatedRequestParams.model_validate({"_meta": selection_meta(**asked)})
    result = await client.session.list_tools(params=params)
    names = [tool.name for tool in result.tools]
    assert names[:2] == ["tool_search", "call_tool"]
    return names[2:]


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


async def test_words_that_come_with_a_call_open_a_turn_and_the_client_is_told_once(tmp_path):
    heard = Heard()
    server = shop(MCP_GRAPH_FOLDER=str(tmp_path))
    async with Client(server, mode="legacy", message_handler=heard) as client:
        assert await listed(client) == []
        await client.call_tool("tool_search", {"query": "select:read_metric"})
        await asyncio.wait_for(heard.notices.get(), 60)
        await client.call_tool("read_metric", meta=selection_meta(query="export a photo"))
        await asyncio.wait_for(heard.notices.get(), 60)
        first, *others = await listed(client)
        assert first == "read_metric"
        assert "export_photo" in others
        assert heard.notices.empty()


async def test_the_same_words_with_each_call_are_one_turn(tmp_path):
    server = shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_SEARCH_TURNS="2")
    async with Client(server, mode="legacy") as client:
        before = await listed(client, query="export a photo")
        for _ in range(3):
            await client.call_tool("read_photo", meta=selection_meta(query="export a photo"))
        assert await listed(client, query="export a photo") == [*before, *({"read_photo"} - set(before))]
        assert "create_invoice" not in before
        assert "create_invoice" in await listed(client, query="create an invoice")


async def test_the_words_of_a_call_change_nothing_once_the_set_is_frozen(tmp_path):
    server = shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_SEARCH_TURNS="1")
    async with Client(server, mode="legacy") as client:
        before = await listed(client, query="export a photo")
        assert "export_photo" in before
        await client.call_tool("export_photo", meta=selection_meta(query="create an invoice"))
        assert await listed(client, query="create an invoice") == before


async def test_a_request_of_the_newer_era_knows_of_none_before_it(tmp_path):
    async with Client(shop(MCP_GRAPH_FOLDER=str(tmp_path))) as client:
        assert "export_photo" in await listed(client, query="export a photo")
        await client.call_tool("tool_search", {"query": "select:read_metric"})
        await client.call_tool("create_invoice", meta=selection_meta(query="create an invoice"))
        assert await listed(client) == []


async def together(server: AgentServer, *queries: str) -> tuple[list[str], list[SearchEvent]]:
    """List with each query at once, in one session; return what is listed after it, and the turns that were told."""
    query = query_of(server)
    answer, events, all_ask = query.resolution_of, Events(), asyncio.Event()
    asked: list[Any] = []

    async def once_all_ask(*question: Any) -> Any:
        asked.append(question)
        if len(asked) == len(queries):
            all_ask.set()
        await all_ask.wait()
        return await answer(*question)

    async with Client(server, mode="legacy") as client:
        await client.call_tool("tool_search", {"query": "photo"})  # waits for the index
        loaded = await listed(client)
        server.features.observe(events)
        query.resolution_of = once_all_ask  # type: ignore[method-assign]
        await asyncio.gather(*(listed(client, query=words) for words in queries))
        return [name for name in await listed(client) if name not in loaded], events.turns


class Events:
    """Keeps the turns that were told."""

    def __init__(self) -> None:
        self.turns: list[SearchEvent] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, SearchEvent) and event.name == "window_step":
            self.turns.append(event)


async def test_of_two_turns_at_once_the_second_attaches_as_a_later_one_does(tmp_path):
    server = shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_INITIAL_K="3", MCP_SEARCH_K="1")
    attached, _ = await together(server, "invoice", "metric")
    assert len(attached) == 4


async def test_two_lists_at_once_with_the_same_words_are_told_as_one_turn(tmp_path):
    _, turns = await together(shop(MCP_GRAPH_FOLDER=str(tmp_path)), "invoice", "invoice")
    assert [turn.counts["turn"] for turn in turns] == [1]
