"""A server whose HTTP keeps no session, asked by a client of the handshake era: each request stands alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from agent_utilities import create_mcp_server

pytestmark = pytest.mark.anyio
Ask = Callable[..., Awaitable[Any]]
OLDER = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


@asynccontextmanager
async def asking(tmp_path: Any) -> AsyncIterator[Ask]:
    """Give what asks a stateless server of three deferred tools, and returns the result."""
    server = create_mcp_server("shop", environ={"MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "on"})
    for name in ("create_photo", "read_photo", "export_photo"):
        server.tool(lambda: "done", name=name, description=name)
    app = server.http_app(stateless_http=True, json_response=True)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:

        async def ask(method: str, params: Mapping[str, Any], **headers: str) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            url = "http://127.0.0.1:8001/mcp"
            return (await client.post(url, headers={**OLDER, **headers}, json=body)).json()["result"]

        yield ask


async def test_a_search_does_not_say_that_it_activated_what_no_later_list_shows(tmp_path):
    async with asking(tmp_path) as ask:
        found = await ask("tools/call", {"name": "tool_search", "arguments": {"query": "select:read_photo"}})
        assert found["structuredContent"]["activated"] == []


async def test_the_active_value_of_a_search_lists_what_it_found_in_a_later_request(tmp_path):
    async with asking(tmp_path) as ask:
        found = await ask("tools/call", {"name": "tool_search", "arguments": {"query": "select:read_photo"}})
        listed = await ask("tools/list", {}, **{"x-mcp-active": found["structuredContent"]["active"]})
        assert [tool["name"] for tool in listed["tools"]] == ["tool_search", "call_tool", "read_photo"]
