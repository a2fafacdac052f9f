"""However a tool is kept from a caller, tool search answers as if it never was, to the byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.exceptions import NotFoundError
from fastmcp.server.middleware import AuthMiddleware, CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.seam.verdict import verdict_in_force
from tests.search.conversation import transcript
from tests.wire.search_server import DENIED, LEAKED, PERMITTED, add_tools, search_server

pytestmark = pytest.mark.anyio
DEFERRED = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "on"}


def refused_by_own_check(*, with_denied: bool) -> AgentServer:
    mcp = search_server(with_denied=False, environ=DEFERRED)
    for name, description in DENIED.items() if with_denied else ():

        @mcp.tool(name=name, description=description, tags={"vault", "note"}, auth=lambda _: False)
        def refused(text: str = "", number: int = 0) -> str:
            return LEAKED

    return mcp


def denied_where_it_is_mounted(*, with_denied: bool) -> AgentServer:
    mcp = create_mcp_server("searched", environ=DEFERRED)
    inner = create_mcp_server("inner", environ={"MCP_GRAPH": "off", "MCP_DISABLED_TAGS": "vault"})
    add_tools(inner, with_denied=with_denied)
    mcp.mount(inner)
    return mcp


def disabled_by_its_author(*, with_denied: bool) -> AgentServer:
    mcp = search_server(with_denied=with_denied, environ=DEFERRED)
    mcp.disable(names=set(DENIED))
    return mcp


def denied_in_a_higher_version(*, with_denied: bool) -> AgentServer:
    mcp = create_mcp_server("searched", environ={**DEFERRED, "MCP_DISABLED_TAGS": "vault"})
    for name, description in PERMITTED.items():

        @mcp.tool(name=name, description=description, tags={"note"}, version="1")
        def first(text: str = "", number: int = 0) -> str:
            return "first"

        if with_denied:

            @mcp.tool(name=name, description=f"{LEAKED} quicksilver vault. {description}", tags={"vault"}, version="2")
            def second(text: str = "", number: int = 0, vault: str = "") -> str:
                return LEAKED

    return mcp


class Hiding(Middleware):
    """An author's middleware that keeps some tools for himself."""

    async def on_list_tools(
        self,
        context: MiddlewareContext[mcp_types.ListToolsRequest],
        call_next: CallNext[mcp_types.ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        return [tool for tool in await call_next(context) if tool.name not in DENIED]

    async def on_call_tool(
        self, context: MiddlewareContext[mcp_types.CallToolRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        if context.message.name in DENIED:
            raise NotFoundError(f"Unknown tool: {context.message.name!r}")
        return await call_next(context)


def hidden_by_middleware(*, with_denied: bool) -> AgentServer:
    return search_server(with_denied=with_denied, environ=DEFERRED, middleware=[Hiding()])


def is_no_vault(context: Any) -> bool:
    return context.component.name not in DENIED


def refused_by_auth_middleware(*, with_denied: bool) -> AgentServer:
    return search_server(with_denied=with_denied, environ=DEFERRED, middleware=[AuthMiddleware(auth=is_no_vault)])


def blotted(answer: str) -> str:
    """Return an answer without the counts of a list: those of what bounds permit, whatever middleware leaves of it."""
    counts = r'\\?"(revision|permitted|visible|deferred|ttlMs)\\?":("[0-9a-f]*"|[0-9]+)'
    return re.sub(counts, "", answer) if '"permitted":' in answer else answer


Making = Callable[..., AgentServer]


class TestSearch:
    async def test_no_answer_moves_because_a_tool_is_there_that_is_not_for_the_caller(self) -> None:
        for server in (
            refused_by_own_check,
            denied_where_it_is_mounted,
            disabled_by_its_author,
            denied_in_a_higher_version,
        ):
            seen = await transcript(server(with_denied=True))
            expected = await transcript(server(with_denied=False))
            assert [pair for pair in zip(seen, expected, strict=True) if pair[0] != pair[1]][:1] == []

    async def test_what_middleware_hides_and_refuses_is_in_no_text_score_eviction_or_active_value(self) -> None:
        seen = await transcript(hidden_by_middleware(with_denied=True))
        expected = await transcript(hidden_by_middleware(with_denied=False))
        pairs = [(blotted(one), blotted(other)) for (_, one), (_, other) in zip(seen, expected, strict=True)]
        assert [pair for pair in pairs if pair[0] != pair[1]][:1] == []

    async def test_what_auth_middleware_keeps_from_a_caller_is_in_no_answer(self) -> None:
        seen = await transcript(refused_by_auth_middleware(with_denied=True))
        told = [asked for asked, answer in seen if "quicksilver" in answer and "quicksilver" not in asked]
        assert told == []


class HidingLate(Hiding):
    """Hides tools, of a server that has one more by the time that a list is made."""

    def __init__(self) -> None:
        self.server: AgentServer | None = None

    async def on_list_tools(self, context: Any, call_next: Any) -> Sequence[Tool]:
        if self.server is not None and (verdict := verdict_in_force()) is not None and verdict.shapes_lists:
            self.server.tool(lambda: "new", name="came_meanwhile", description="Came meanwhile.")
        return await super().on_list_tools(context, call_next)


async def descriptions_in_a_change(*, with_denied: bool) -> list[str | None]:
    late = HidingLate()
    server = search_server(with_denied=with_denied, environ=DEFERRED, middleware=[late])
    async with Client(server, mode="legacy") as client:
        await client.list_tools()
        late.server = server
        return [tool.description for tool in await client.list_tools()]


async def test_a_tool_that_comes_while_a_list_is_made_brings_no_hidden_one_to_light():
    assert await descriptions_in_a_change(with_denied=True) == await descriptions_in_a_change(with_denied=False)
