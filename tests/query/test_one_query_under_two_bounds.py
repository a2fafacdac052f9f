"""Two callers who ask the same words under other bounds each get the answer for what they may use."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from agent_utilities import AgentServer, create_mcp_server

pytestmark = pytest.mark.anyio


def fly() -> str:
    return "done"


def kites(folder: Path) -> AgentServer:
    """A server whose tools all answer one query, with a deadline that a busy machine keeps."""
    environ = {"MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": "off", "MCP_GRAPH_DEADLINE_MS": "20000"}
    server = create_mcp_server("kites", environ=environ)
    for name in ("red_kite", "green_kite", "blue_kite"):
        server.tool(fly, name=name, tags={name.partition("_")[0]})
    server.tool(fly, name="balloon")
    return server


async def answers(folder: Path, *bounds: str) -> list[list[str]]:
    """Return what each caller's list shows, asked in order of one server."""
    app = kites(folder).http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=60) as client,
    ):
        found = [(await client.get(f"/tools?q=kite&{bound}")).json() for bound in bounds]
    assert {answer["selection"]["status"] for answer in found} == {"fresh"}
    return [[tool["name"] for tool in answer["tools"]] for answer in found]


async def test_the_second_of_wider_bounds_gets_more_than_the_first(tmp_path: Path) -> None:
    assert await answers(tmp_path, "disabled_tags=red,green", "disabled_tags=red") == [
        ["blue_kite"],
        ["green_kite", "blue_kite"],
    ]


async def test_the_second_of_other_bounds_gets_its_own(tmp_path: Path) -> None:
    assert await answers(tmp_path, "tags=red", "tags=green", "tags=red") == [["red_kite"], ["green_kite"], ["red_kite"]]


async def test_the_second_without_bounds_gets_everything_that_answers(tmp_path: Path) -> None:
    assert await answers(tmp_path, "tools=red_kite,balloon", "top_k=9") == [
        ["red_kite"],
        ["red_kite", "green_kite", "blue_kite"],
    ]
