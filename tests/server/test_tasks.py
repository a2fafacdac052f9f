"""A background task of a tool that its owner has put out of bounds since reads like a task that never was."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from agent_utilities import AgentServer, create_mcp_server
from tests.background_tasks import ask, tasks_extension
from tests.every import every

pytestmark = [pytest.mark.anyio, pytest.mark.tasks, pytest.mark.timeout(30)]
METHODS = ["tasks/get", "tasks/update", "tasks/cancel"]


def server(may_end: asyncio.Event) -> AgentServer:
    mcp = create_mcp_server("tasks", environ={"MCP_GRAPH": "off"})
    mcp.add_extension(tasks_extension())

    @mcp.tool(task=True)
    async def brew() -> str:
        await may_end.wait()
        return "brewed"

    return mcp


@every("is_done", [False, True])
async def test_it_does(is_done: bool) -> None:
    may_end = asyncio.Event()
    app = server(may_end).http_app(json_response=True, host_origin_protection=False)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
    ):
        _, made = await ask(web, "tools/call", {"name": "brew", "arguments": {}, "task": {"ttl": 60_000}})
        task = made["result"]["taskId"]
        if is_done:
            may_end.set()
        status = None
        while status != ("completed" if is_done else "working"):
            status = (await ask(web, "tasks/get", {"taskId": task}))[1]["result"]["status"]
        absent = "x" * len(task)
        for method in METHODS:
            more = {"inputResponses": {}} if method == "tasks/update" else {}
            for narrowed in ("/mcp?tools=none", "/mcp?disabled_tools=brew"):
                told = await ask(web, method, {"taskId": task, **more}, narrowed)
                code, unknown = await ask(web, method, {"taskId": absent, **more}, narrowed)
                unknown["error"]["message"] = unknown["error"]["message"].replace(absent, task)
                assert told == (code, unknown)
        assert (await ask(web, "tasks/get", {"taskId": task}))[1]["result"]["status"] == status
        may_end.set()
