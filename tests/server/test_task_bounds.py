"""What a background task of a tool's does is within the bounds of the request that started it (law L1)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from fastmcp import Client

from agent_utilities.selection.channels import META_KEY
from tests.background_tasks import META, ask, tasks_extension
from tests.every import every
from tests.server.servers import log_server
from tests.server.test_calls_within import outcome

pytestmark = [pytest.mark.anyio, pytest.mark.tasks, pytest.mark.timeout(60)]


@every(
    ("url", "headers", "meta"),
    [
        ("/mcp?disabled_tags=write", {}, {}),
        ("/mcp", {"x-mcp-disabled-tags": "write"}, {}),
        ("/mcp", {}, {META_KEY: {"disabled_tags": "write"}}),
        ("/mcp/x/read,do", {}, {}),
    ],
)
async def test_a_background_task_is_within_the_bounds_of_the_request_that_started_it(
    url: str, headers: dict[str, str], meta: dict[str, Any]
) -> None:
    mcp = log_server()
    mcp.add_extension(tasks_extension())
    may_begin = asyncio.Event()

    @mcp.tool(name="do", tags={"read"}, task=True)
    async def do() -> list[str]:
        await may_begin.wait()
        async with Client(mcp) as client:
            return [await outcome(client.call_tool(name)) for name in ("tail_log", "delete_log", "no_such")]

    app = mcp.http_app(json_response=True, host_origin_protection=False)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
    ):
        called = {"name": "do", "arguments": {}, "task": {"ttl": 60_000}, "_meta": {**META, **meta}}
        routing = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
        routing |= {"mcp-method": "tools/call", "mcp-name": "do"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
        made = await web.post(url, json=body, headers={**routing, **headers})
        may_begin.set()
        told: dict[str, Any] = {}
        while told.get("status") not in ("completed", "failed"):
            told = (await ask(web, "tasks/get", {"taskId": made.json()["result"]["taskId"]}))[1]["result"]
    text = told["result"]["structuredContent"]["result"]
    assert "tail of app.log" in text[0]
    assert text[1:] == ["! Unknown tool: 'delete_log'", "! Unknown tool: 'no_such'"]
