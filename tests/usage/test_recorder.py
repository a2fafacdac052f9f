"""What is recorded of requests: calls of what their callers may use, without arguments, results and denied names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import PaginatedRequestParams

from agent_utilities import AgentServer, selection_headers, selection_meta
from agent_utilities.usage import feature as recorder_module
from agent_utilities.usage.feature import Usage
from agent_utilities.usage.log import UsageLog
from agent_utilities.usage.model import Call, Event, Listed, Search
from tests.every import every
from tests.parts import usage_of
from tests.server.servers import log_server, over_http

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def recorded(
    server: AgentServer, headers: dict[str, str] | None = None, *, mode: str = "auto", keeps_words: bool = True
) -> AsyncIterator[tuple[Client[Any], list[Event]]]:
    """A client of a server, and what is recorded of what it asks."""
    events: list[Event] = []
    app, client = over_http(server, headers=headers, mode=mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Usage, "mode", "words" if keeps_words else "counts")
        patch.setattr(UsageLog, "record", lambda _, event: events.append(event))
        async with app.router.lifespan_context(app), client:
            yield client, events


async def list_tools(client: Client[Any], **selection: Any) -> None:
    """List tools with a selection of the request's own."""
    meta = {"_meta": selection_meta(**selection)}
    await client.session.list_tools(params=PaginatedRequestParams.model_validate(meta))


def calls(events: list[Event]) -> list[Call]:
    return [event for event in events if isinstance(event, Call)]


async def test_a_call_is_recorded_without_its_arguments_and_result() -> None:
    async with recorded(log_server()) as (client, events):
        await client.call_tool("tail_log", {"path": "/home/anna/private.log"})
    (call,) = calls(events)
    assert (call.server, call.tool, call.upstream, call.ok) == ("logs", "tail_log", "", True)
    assert "private" not in repr(events)


async def test_a_call_that_fails_is_recorded_as_such() -> None:
    server = log_server()

    @server.tool
    def broken() -> str:
        raise ValueError("sk-secret")

    async with recorded(server) as (client, events):
        await client.call_tool("broken", raise_on_error=False)
    assert [(call.tool, call.ok) for call in calls(events)] == [("broken", False)]
    assert "sk-secret" not in repr(events)


@every("name", ["delete_log", "sk-live-51H8xXyZ", "tool_search"])
async def test_a_name_that_the_caller_may_not_use_or_that_is_none_is_not_recorded(name: str) -> None:
    async with recorded(log_server(), selection_headers(disabled_tools=["delete_log"])) as (client, events):
        await client.call_tool(name, raise_on_error=False)
    assert calls(events) == []


async def test_calls_of_one_session_share_a_name_that_is_not_the_protocols() -> None:
    async with recorded(log_server(), mode="legacy") as (client, events):
        await client.call_tool("tail_log")
        await client.call_tool("rotate_log")
        session_id = client.transport.get_session_id()
    names = {call.session for call in calls(events)}
    assert len(names) == 1
    assert session_id is not None
    assert names.isdisjoint({"", session_id})


async def test_two_sessions_have_two_names() -> None:
    server, names = log_server(), set()
    for _ in range(2):
        async with recorded(server, mode="legacy") as (client, events):
            await client.call_tool("tail_log")
        names |= {call.session for call in calls(events)}
    assert len(names) == 2


async def test_a_request_that_stands_alone_is_of_no_session() -> None:
    async with recorded(log_server()) as (client, events):
        await client.call_tool("tail_log")
    assert [(call.session, call.turn) for call in calls(events)] == [("", 0)]


async def test_a_call_has_the_words_that_came_with_it() -> None:
    async with recorded(log_server(), selection_headers(query="what went wrong")) as (client, events):
        await client.call_tool("tail_log")
    assert [call.request for call in calls(events)] == ["what went wrong"]


async def test_a_call_of_a_session_has_the_words_of_its_turn() -> None:
    async with recorded(log_server(), mode="legacy") as (client, events):
        for query, tool in (("what went wrong", "tail_log"), ("make room", "rotate_log"), ("", "tail_log")):
            if query:
                await list_tools(client, query=query)
            await client.call_tool(tool)
    assert [(call.turn, call.request) for call in calls(events)] == [
        (1, "what went wrong"),
        (2, "make room"),
        (2, "make room"),
    ]


async def test_a_call_of_a_tool_that_a_search_found_has_the_searchs_words() -> None:
    server = log_server(environ={"MCP_TOOL_SEARCH": "on"})
    async with recorded(server, mode="legacy") as (client, events):
        await client.call_tool("tool_search", {"query": "rotate"})
        await client.call_tool("rotate_log")
        await client.call_tool("tail_log")
    assert [(call.tool, call.request) for call in calls(events)] == [("rotate_log", "rotate"), ("tail_log", "")]


async def test_a_search_is_recorded_with_how_many_it_found() -> None:
    async with recorded(log_server(environ={"MCP_TOOL_SEARCH": "on"}), mode="legacy") as (client, events):
        await client.call_tool("tool_search", {"query": "rotate"})
        await client.call_tool("tool_search", {"query": "quarkxyz"})
    found = [(event.request, event.n_found) for event in events if isinstance(event, Search)]
    assert found == [("rotate", 1), ("quarkxyz", 0)]


async def test_tools_asked_for_by_name_are_no_search() -> None:
    async with recorded(log_server(environ={"MCP_TOOL_SEARCH": "on"}), mode="legacy") as (client, events):
        await client.call_tool("tool_search", {"query": "select:rotate_log"})
    assert [event for event in events if isinstance(event, Search)] == []


async def test_no_words_are_recorded_where_only_counts_are_kept() -> None:
    headers = selection_headers(query="what went wrong")
    async with recorded(log_server(), headers, keeps_words=False) as (client, events):
        await client.call_tool("tail_log")
    assert [call.request for call in calls(events)] == [""]


async def test_words_that_the_operator_gave_once_for_all_are_nobodys() -> None:
    async with recorded(log_server(environ={"MCP_QUERY": "logs"})) as (client, events):
        await client.call_tool("tail_log")
    assert [call.request for call in calls(events)] == [""]


async def test_lists_are_counted_by_tool_with_what_each_costs() -> None:
    server = log_server()
    async with recorded(server, selection_headers(tools=["tail_log"])) as (client, events):
        await client.list_tools_mcp()
        await client.list_tools_mcp()
        await usage_of(server).record_lists()
        await usage_of(server).record_lists()
    (listed,) = [event for event in events if isinstance(event, Listed)]
    assert (listed.tool, listed.n_lists) == ("tail_log", 2)
    assert 10 < listed.n_tokens < 100


async def test_no_more_different_lists_are_counted_at_once_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_N_DECISIONS", 64)
    server = log_server()
    async with recorded(server, selection_headers(tools=["tail_log"])) as (client, events):
        for number in range(70):
            await list_tools(client, query=f"words {number}")
        await usage_of(server).record_lists()
    assert [event.n_lists for event in events if isinstance(event, Listed)] == [64]


async def test_a_lists_words_are_recorded_once_a_turn_with_how_many_tools_answer() -> None:
    environ = {"MCP_GRAPH": "embedded", "MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": "60000"}
    async with recorded(log_server(environ=environ), mode="legacy") as (client, events):
        for query in ("tail", "tail", "quarkxyz"):
            await list_tools(client, query=query)
    found = [(event.request, event.n_found) for event in events if isinstance(event, Search)]
    assert found == [("tail", 1), ("quarkxyz", 0)]
