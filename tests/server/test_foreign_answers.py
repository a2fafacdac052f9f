"""An author's middleware that answers by itself, such as a cache of his own, answers past nobody's bound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.tools.base import Tool, ToolResult
from mcp.shared.exceptions import MCPError

from agent_utilities import AgentServer, create_mcp_server, selection_headers
from tests.every import every
from tests.server.servers import log_server, over_http

pytestmark = pytest.mark.anyio
KEY = "agent-utilities/selection"


class Renamed(ResponseCachingMiddleware):
    """FastMCP's cache under another name."""


class Remembering(Middleware):
    """Answers a message with what the first one like it was answered."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}

    async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        key = f"{context.method} {getattr(context.message, 'name', None) or getattr(context.message, 'uri', None)}"
        if key not in self._answers:
            self._answers[key] = await call_next(context)
        return self._answers[key]


class Function:
    """The same with none of FastMCP's classes."""

    def __init__(self) -> None:
        self._middleware = Remembering()

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        return await self._middleware.on_message(context, call_next)

    async def check_resource_access(self, context: MiddlewareContext[Any]) -> None:
        """FastMCP asks every middleware."""


async def answers(server: AgentServer, **caller: Any) -> dict[str, Any]:
    """Return what a caller is listed, and what he is answered of each kind of component that writes."""
    app, client = over_http(server, headers=selection_headers(**caller))
    told: dict[str, Any] = {}

    async def ask(what: str, answer: Awaitable[Any], text: Callable[[Any], str]) -> None:
        try:
            told[what] = text(await answer)
        except (MCPError, ToolError) as error:
            told[what] = str(error)

    async with app.router.lifespan_context(app), client:
        tools = await client.session.list_tools()
        told["tools"] = [tool.name for tool in tools.tools], tools.meta[KEY]["permitted"], tools.meta[KEY]["visible"]
        told["prompts"] = [prompt.name for prompt in await client.list_prompts()]
        told["resources"] = [str(resource.uri) for resource in await client.list_resources()]
        told["templates"] = [template.uri_template for template in await client.list_resource_templates()]
        await ask("call", client.call_tool("delete_log"), lambda answer: answer.content[0].text)
        await ask("get", client.get_prompt("cleanup"), lambda answer: answer.messages[0].content.text)
        await ask("read", client.read_resource("log://keys"), lambda answer: answer[0].text)
    return told


@every("middleware", [ResponseCachingMiddleware, Renamed, Remembering, Function])
@every("caller", [{"disabled_tags": ["write"]}, {"tools": ["tail_log"]}, {"top_k": 1}])
async def test_who_selects_is_answered_as_without_it(middleware: type[Middleware], caller: dict[str, Any]) -> None:
    server = log_server(middleware=[middleware()])
    everything = await answers(server)
    assert (len(everything["tools"][0]), everything["call"], everything["read"]) == (4, "deleted", "secret")
    assert await answers(server, **caller) == await answers(log_server(), **caller)


class Adding(Middleware):
    """Has a tool that no provider has."""

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        return [Tool.from_function(lambda: "", name="extra"), *await call_next(context)]

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        if context.message.name == "extra":
            return ToolResult(content="added")
        return await call_next(context)


@every(
    ("caller", "is_there"),
    [
        ({}, True),
        ({"disabled_tools": ["tail_log"]}, True),
        ({"disabled_tools": ["extra"]}, False),
        ({"tags": ["read"]}, False),
    ],
)
async def test_a_tool_that_middleware_alone_has_is_bounded_by_its_name(caller: dict[str, Any], is_there: bool) -> None:
    app, client = over_http(log_server(middleware=[Adding()]), headers=selection_headers(**caller))
    async with app.router.lifespan_context(app), client:
        assert ("extra" in [tool.name for tool in await client.list_tools()]) is is_there
        answer = await client.call_tool("extra", raise_on_error=False)
        assert answer.content[0].text == ("added" if is_there else "Unknown tool: 'extra'")


async def test_a_mounted_servers_cache_answers_past_no_bound_of_its_operator() -> None:
    cache = Remembering()
    child = log_server(middleware=[cache], environ={"MCP_DISABLED_TAGS": "delete"})
    cache._answers["tools/call delete_log"] = ToolResult(content="deleted")
    outer = FastMCP("outer")
    outer.mount(child)
    parent = create_mcp_server("parent", environ={"MCP_GRAPH": "off"})
    parent.mount(outer)
    async with Client(parent) as client:
        answer = await client.call_tool("delete_log", raise_on_error=False)
        assert answer.content[0].text == "Unknown tool: 'delete_log'"
