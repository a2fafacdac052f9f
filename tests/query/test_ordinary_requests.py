"""What ordinary users ask of the agents is shown the tool they want: by words, and by meaning too where that is there.

The requests were written before the agents' search hints were read; from those that words alone missed then (5 of 60)
the hints have since learnt.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities.query.ranking.open import has_minilm
from tests.every import every
from tests.query.graph.wrapped import until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
AGENTS = Path(__file__).parents[2] / "agents"
RANKERS = {
    "lexical": 0.95,
    "hybrid": 1.0,
}
"""Which share of the requests must be shown a wanted tool."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where all keep their vectors, many of which are the same."""
    return tmp_path_factory.mktemp("vectors")


@asynccontextmanager
async def served(agent: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client of an agent whose index is there."""
    app = runpy.run_path(str(AGENTS / f"{agent}-agent" / f"{agent}_agent" / "server.py"))["mcp"].http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=60) as client,
    ):
        await client.get("/tools", params={"q": "wake up"})

        async def is_indexed() -> bool:
            ranker = (await client.get("/ready")).json()["ranker"]
            return ranker["status"] == "ready" and "cause" not in ranker

        await until(is_indexed, "indexed", seconds=60)
        yield client


@every("ranker", RANKERS)
@every("agent", ["filesystem", "git", "logs"])
async def test_the_wanted_tool_is_shown(agent: str, ranker: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ranker == "hybrid" and not has_minilm():
        pytest.skip("the offline model is not installed")
    environ = {"MCP_RANKER": ranker, "MCP_GRAPH_FOLDER": str(folder), "MCP_GRAPH_DEADLINE_MS": "10000"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    asked = (AGENTS / f"{agent}-agent" / "tests" / "ordinary_requests.jsonl").read_text(encoding="utf-8")
    requests: list[dict[str, Any]] = [json.loads(line) for line in asked.splitlines()]
    missed = []
    async with served(agent) as client:
        for request in requests:
            tools = (await client.get("/tools", params={"q": request["query"]})).json()["tools"]
            shown = {tool["name"] for tool in tools}
            if not all(shown.intersection(group) for group in request["groups"]):
                missed.append((request["query"], shown))
    assert len(missed) <= (1 - RANKERS[ranker]) * len(requests) + 1e-9, missed
