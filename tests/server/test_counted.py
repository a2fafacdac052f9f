"""What the metrics say of a request that was served: its method, from a fixed set, and how it went."""

from __future__ import annotations

from typing import Any

import httpx2
import mcp_types
import pytest
from fastmcp.exceptions import ToolError

from tests.server.servers import log_server

pytestmark = pytest.mark.anyio
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


class Reindex(mcp_types.RequestParams):
    """What the author's own method takes."""


async def counted(*requests: tuple[str, dict[str, Any]]) -> tuple[list[int], str]:
    """Return the status of each request, made in one session, and what the metrics say afterwards."""
    server = log_server()

    @server.tool
    def fail() -> str:
        raise ToolError("no")

    async def reindex(context: Any, params: Reindex) -> mcp_types.EmptyResult:
        return mcp_types.EmptyResult()

    server._mcp_server.add_request_handler("acme/reindex", Reindex, reindex)
    app = server.http_app(host_origin_protection=False, json_response=True)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
    ):

        async def post(headers: dict[str, str], method: str, params: dict[str, Any]) -> httpx2.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await web.post("/mcp", json=body, headers=headers)

        opened = await post(HEADERS, "initialize", CLIENT)
        session = {**HEADERS, "mcp-session-id": opened.headers["mcp-session-id"]}
        statuses = [(await post(session, *request)).status_code for request in requests]
        return statuses, (await web.get("/metrics")).text


async def test_an_authors_own_method_is_served_and_counted_as_other() -> None:
    statuses, metrics = await counted(("acme/reindex", {}))
    assert statuses == [200]
    assert 'mcp_requests_total{method="other",outcome="ok"} 1.0' in metrics
    assert "acme/reindex" not in metrics


async def test_methods_that_are_made_up_grow_no_series() -> None:
    _, metrics = await counted(*((f"made/up{i}", {}) for i in range(5)))
    assert 'mcp_requests_total{method="other",outcome="error"} 5.0' in metrics
    assert "made/up" not in metrics


async def test_a_tool_that_fails_is_counted_as_an_error() -> None:
    _, metrics = await counted(("tools/call", {"name": "fail", "arguments": {}}))
    assert 'mcp_requests_total{method="tools/call",outcome="error"} 1.0' in metrics
    assert 'mcp_requests_total{method="tools/call",outcome="ok"}' not in metrics


async def test_a_tool_that_works_is_counted_as_ok() -> None:
    _, metrics = await counted(("tools/call", {"name": "tail_log", "arguments": {}}))
    assert 'mcp_requests_total{method="tools/call",outcome="ok"} 1.0' in metrics
