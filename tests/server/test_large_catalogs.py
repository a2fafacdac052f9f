"""A catalog of 500 tools in a prompt: what a list takes while they are deferred, and after three searches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.tools.base import Tool, ToolResult

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.catalog.context import n_tokens

MOST_LISTED = 1_500
PLACES = (
    "ledger", "invoice", "warehouse", "shipment", "customer", "campaign", "newsletter", "ticket", "sprint", "pipeline",
    "deployment", "cluster", "dashboard", "alert", "incident", "contract", "payroll", "vacancy", "lesson", "exam",
    "patient", "prescription", "flight", "booking", "recipe",
)  # fmt: skip
DEEDS = (
    "create", "read", "update", "delete", "list", "search", "archive", "restore", "copy", "export", "import", "share",
    "approve", "reject", "assign", "comment_on", "watch", "lock", "merge", "summarise",
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {
        "identifier": {"type": "string", "description": "Which one, as a list or a search gave it"},
        "fields": {"type": "object", "description": "What it holds, by field", "additionalProperties": True},
        "dry_run": {"type": "boolean", "description": "Say what would be done, and do nothing"},
    },
    "required": ["identifier"],
}


class Business(Tool):
    """A tool of a business."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call."""
        return ToolResult(content=self.name)


@pytest.fixture
def server() -> AgentServer:
    mcp = create_mcp_server("business", environ={"MCP_TOOL_SEARCH": "on", "MCP_GRAPH": "off"})
    for place in PLACES:
        for deed in DEEDS:
            does = f"{deed.replace('_', ' ').capitalize()} a {place} of the business, and tell what became of it."
            mcp.add_tool(Business(name=f"{place}_{deed}", description=does, parameters=SCHEMA, tags={place}))
    return mcp


@pytest.fixture
async def client(server: AgentServer) -> AsyncIterator[Client[Any]]:
    async with Client(server, mode="legacy") as connected:
        yield connected


@pytest.mark.anyio
class TestOf500Tools:
    async def test_the_list_is_small_at_the_start(
        self, client: Client[Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        listed, tokens = await _listed(client)
        with capsys.disabled():
            print(f"\n{len(PLACES) * len(DEEDS)} tools deferred: {len(listed)} listed, {tokens} tokens")
        assert listed == ["tool_search", "call_tool"]
        assert tokens <= MOST_LISTED

    async def test_it_is_small_after_three_searches(self, client: Client[Any]) -> None:
        for words in ("approve an invoice", "restore the cluster", "assign a ticket to somebody"):
            await client.call_tool("tool_search", {"query": words})
        listed, tokens = await _listed(client)
        assert {"invoice_approve", "cluster_restore", "ticket_assign"} <= set(listed)
        assert tokens <= 3 * MOST_LISTED


async def _listed(client: Client[Any]) -> tuple[list[str], int]:
    """Return the names of the listed tools, and what the list takes."""
    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in await client.list_tools()]
    return [tool["name"] for tool in tools], sum(map(n_tokens, tools))
