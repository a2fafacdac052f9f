"""The first turn of a session whose words come before anything can rank tools for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.selection.model import RankedTool, Resolution
from tests.parts import query_of
from tests.search.test_active_set import Heard, listed, shop

pytestmark = pytest.mark.anyio


class SlowlyRanked:
    """A server whose graph answers at once by its terms alone, and whose ranker when it is told to."""

    def __init__(self, server: AgentServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_ranked = asyncio.Event()
        monkeypatch.setattr(query_of(server), "resolution_of", self.resolution_of)
        monkeypatch.setattr(query_of(server), "wait_to_search", self.is_ranked.wait)

    async def resolution_of(self, verdict: Any, limit: int) -> Resolution:
        if self.is_ranked.is_set():
            return Resolution("fresh", (RankedTool("export_photo", 0.9), RankedTool("read_photo", 0.8)))
        return Resolution("fresh", (RankedTool("create_invoice"),), "not ranked", is_temporary=True)


async def test_is_made_beside_the_list_when_they_can_be_ranked_and_the_client_is_told(tmp_path, monkeypatch):
    heard, server = Heard(), shop(MCP_GRAPH_FOLDER=str(tmp_path))
    slowly = SlowlyRanked(server, monkeypatch)
    async with Client(server, mode="legacy", message_handler=heard) as client:
        assert await listed(client, query="export a photo") == ["create_invoice"]
        slowly.is_ranked.set()
        await asyncio.wait_for(heard.notices.get(), 60)
        assert await listed(client, query="export a photo") == ["create_invoice", "read_photo", "export_photo"]


async def test_what_was_shown_before_it_may_go_out_again(tmp_path, monkeypatch):
    server = shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_MAX_ACTIVE="1")
    slowly = SlowlyRanked(server, monkeypatch)
    async with Client(server, mode="legacy") as client:
        assert await listed(client, query="export a photo") == ["create_invoice"]
        slowly.is_ranked.set()
        await client.call_tool("read_metric")
        assert "create_invoice" not in await listed(client, query="export a photo")
