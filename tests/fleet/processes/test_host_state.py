"""What FastMCP draws or keeps in each process is the same at all replicas."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import httpx2
import mcp_types
import pytest
from fastmcp import Context

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.gateway.upstreams.sealed_store import new_key
from tests.fleet.processes.replicas import Shared
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
ELICITS = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


def asking(environ: dict[str, str]) -> AgentServer:
    """Return a server with a tool that asks its caller, and remembers across rounds what it was called with."""
    mcp = create_mcp_server("asking", environ={"MCP_GRAPH": "off", **environ})
    ask = mcp_types.ElicitRequest(
        params=mcp_types.ElicitRequestFormParams(
            message="Sure?", requested_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}}
        )
    )

    @mcp.tool
    def remove(name: str, ctx: Context) -> str | mcp_types.InputRequiredResult:
        if ctx.request_state is None:
            return mcp_types.InputRequiredResult(input_requests={"ok": ask}, request_state=f"asked for {name}")
        return f"{ctx.request_state}, and removed"

    return mcp


async def called(web: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    params = {"name": "remove", "arguments": {"name": "report"}, **more}
    body, headers = modern_request("tools/call", params)
    body["params"]["_meta"].update(ELICITS)
    answer = await web.post("/mcp", json=body, headers=dict(headers))
    return dict(answer.json())


async def rounds(*environs: dict[str, str]) -> dict[str, Any]:
    """Return what a replica answers to the second round of a call whose first was answered by another."""
    async with AsyncExitStack() as opened:
        here, there = [await opened.enter_async_context(web_of(asking(each))) for each in environs]
        asked = (await called(here))["result"]
        assert asked["resultType"] == "input_required"
        answers = {"ok": {"action": "accept", "content": {"ok": True}}}
        return await called(there, requestState=asked["requestState"], inputResponses=answers)


class TestARequestOfSeveralRounds:
    async def test_is_answered_by_another_replica(self, shared: Shared) -> None:
        answer = await rounds(shared.environ, shared.environ)
        assert answer["result"]["content"][0]["text"] == "asked for report, and removed"

    async def test_is_refused_by_who_has_another_key(self, shared: Shared) -> None:
        answer = await rounds(shared.environ, {**shared.environ, "MCP_SECRET_KEY": new_key()})
        assert answer["error"]["code"] == -32602
