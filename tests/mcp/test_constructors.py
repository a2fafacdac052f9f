"""FastMCP's alternate constructors make servers whose surface is bounded like any other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_utilities import AgentServer
from tests.every import every
from tests.mcp.servers import tool_names

pytestmark = pytest.mark.anyio
_ANSWER = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}}
SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "orders", "version": "1"},
    "paths": {f"/{name}": {"get": {"operationId": name, "responses": _ANSWER}} for name in ("show", "wipe")},
}


async def _answer(request: Request) -> JSONResponse:
    return JSONResponse({"path": request.url.path})


class Api(Starlette):
    """What `from_fastapi` asks of a FastAPI application: a title, and its specification."""

    title = "orders"

    def openapi(self) -> dict[str, Any]:
        """Return the specification."""
        return SPEC


API = Api(routes=[Route("/show", _answer), Route("/wipe", _answer)])


def from_openapi(**options: Any) -> AgentServer:
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=API), base_url="http://orders")
    return AgentServer.from_openapi(SPEC, client=client, name="orders", **options)


def from_fastapi(**options: Any) -> AgentServer:
    return AgentServer.from_fastapi(API, **options)


def as_proxy(**options: Any) -> AgentServer:
    upstream = FastMCP("upstream")
    upstream.tool(lambda: {"path": "/show"}, name="show")
    upstream.tool(lambda: {"path": "/wipe"}, name="wipe")
    return AgentServer.as_proxy(upstream, "orders", **options)


@every("made", [from_openapi, from_fastapi, as_proxy])
async def test_its_operators_bounds_hold(made: Callable[..., AgentServer]) -> None:
    server = made(environ={"MCP_GRAPH": "off", "MCP_DISABLED_TOOLS": "wipe"})
    assert (type(server), server.name) == (AgentServer, "orders")
    async with Client(server) as client:
        assert await tool_names(client) == ["show"]
        assert (await client.call_tool("show")).structured_content == {"path": "/show"}
        refused = await client.call_tool("wipe", raise_on_error=False)
        assert refused.content[0].text == "Unknown tool: 'wipe'"
