"""Queries while the graph is not there: the ranker answers, within the caller's scope, from the live tools."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer
from agent_utilities.testing import FailingGraph
from tests.every import every
from tests.query.graph.wrapped import until
from tests.query.test_resolver import answer, fly, guarded, names

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def just_started(server: AgentServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server that has just started; nobody has waited for anything."""
    app = server.http_app(host_origin_protection=False)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as client,
    ):
        yield client


def told(found: dict[str, Any]) -> tuple[str, str | None]:
    return found["selection"]["status"], found["selection"].get("cause")


async def test_the_first_query_after_the_start_is_answered(tmp_path: Path) -> None:
    async with just_started(guarded(tmp_path, graph=FailingGraph("unreachable"))) as client:
        found = await answer(client, "a kite by the sea", "user")
        assert names(found) == ["shared_kite"]
        assert told(found) == ("ranked", "graph unreachable")
        ready = (await client.get("/ready", headers={"authorization": "Bearer user"})).json()
        assert (ready["graph"]["status"], ready["graph"]["cause"]) == ("unavailable", "unreachable")
        assert ready["ranker"]["status"] == "ready"


async def test_where_there_is_no_engine_queries_are_answered_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ladybug", None)  # as where no wheel of it can be had
    async with just_started(guarded(tmp_path)) as client:
        found = await answer(client, "a kite by the sea", "user")
    assert names(found) == ["shared_kite"]
    assert told(found)[0] == "ranked"


@every("query", ["rocket", "launch_rocket", "orbit", "fly", "rocket balloon", "fly to the orbit"])
async def test_tools_of_others_read_like_tools_that_are_not_there(tmp_path: Path, query: str) -> None:
    async with just_started(guarded(tmp_path, graph=FailingGraph("unreachable"))) as client:
        assert "launch_rocket" in names(await answer(client, query, "admin"))
        found = await answer(client, query, "user")
    without = guarded(tmp_path, graph=FailingGraph("unreachable"))
    without.local_provider.remove_tool("launch_rocket")
    async with just_started(without) as client:
        expected = await answer(client, query, "user")
    assert found["tools"] == expected["tools"]
    assert {**found["selection"], "revision": ""} == {**expected["selection"], "revision": ""}


async def test_tools_that_come_while_it_is_down_are_found_and_once_it_is_back_it_has_them(tmp_path: Path) -> None:
    graph = FailingGraph("unreachable")
    server = guarded(tmp_path, graph=graph)
    async with just_started(server) as client:
        assert told(await answer(client, "kite", "user"))[0] == "ranked"
        server.tool(fly, name="dig_tunnel", description="Dig a tunnel under the river.")

        async def is_found() -> bool:
            return names(await answer(client, "under the river", "user")) == ["dig_tunnel"]

        await until(is_found, "indexed")
        graph.cause = None

        async def is_back() -> bool:
            return told(await answer(client, "tunnel under the river", "user")) == ("fresh", None)

        await until(is_back, "filled")
