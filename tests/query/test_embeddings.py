"""A server whose embeddings come from an endpoint: what callers are shown while it works, and while it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import create_mcp_server
from agent_utilities.query.resolution.catalog_ranker import BY_WORDS
from tests.every import every
from tests.query.graph.wrapped import until
from tests.query.ranking.catalogs import TOOLS
from tests.query.ranking.endpoint_server import Server, serving

pytestmark = pytest.mark.anyio
UNSHARED = "who is hammering us"
"""A request that shares no word with the tool it means; the endpoint's model knows that it means the clients."""


@pytest.fixture
def model() -> Iterator[Server]:
    with serving() as server:
        yield server


@asynccontextmanager
async def served(folder: Path, url: str, cause: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server that embeds by an endpoint, from when `/ready` tells this cause of the ranker."""
    environ = {
        "MCP_GRAPH_FOLDER": str(folder),
        "MCP_RANKER": "embedding",
        "MCP_EMBEDDINGS": f"{url}#concepts",
        "MCP_GRAPH_DEADLINE_MS": "5000",
    }
    server = create_mcp_server("embedded", environ=environ)
    for tool in TOOLS:
        server.tool(lambda: "done", name=tool.name, description=tool.description)
    app = server.http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=30) as client,
    ):
        await answer(client, "wake up")

        async def is_ready() -> bool:
            ranker = (await client.get("/ready")).json()["ranker"]
            return ranker["status"] == "ready" and ranker.get("cause") == cause

        await until(is_ready, "indexed", seconds=20)
        yield client


async def answer(client: httpx2.AsyncClient, query: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/tools", params={"q": query})).json()["selection"]
    return found


async def test_a_request_is_answered_by_its_meaning(model: Server, tmp_path: Path) -> None:
    async with served(tmp_path, model.url, None) as client:
        found = await answer(client, UNSHARED)
        assert (found["ranked"][0], "cause" in found) == ("top_clients", False)


@every("fault", ["broken", "limited", "dimension", "text", "shape", "few"])
async def test_an_endpoint_that_fails_leaves_the_words_and_says_so(model: Server, tmp_path: Path, fault: str) -> None:
    model.fault = ""
    async with served(tmp_path, model.url, None) as client:
        model.fault = fault
        found = await answer(client, "newest commits")
        assert (found["ranked"], found["cause"]) == (["git_log"], BY_WORDS)


async def test_an_endpoint_that_hangs_leaves_the_words_within_the_deadline(model: Server, tmp_path: Path) -> None:
    async with served(tmp_path, model.url, None) as client:
        model.fault = "slow"
        found = await answer(client, "newest commits")
        assert (found["status"], found["ranked"], found["cause"]) == ("fresh", ["git_log"], BY_WORDS)


async def test_an_endpoint_that_is_down_at_the_start_leaves_the_words(tmp_path: Path) -> None:
    async with served(tmp_path, "http://127.0.0.1:9/v1", BY_WORDS) as client:
        found = await answer(client, "newest commits")
        assert (found["ranked"], found["cause"]) == (["git_log"], BY_WORDS)


async def test_vectors_are_kept_for_the_next_start(model: Server, tmp_path: Path) -> None:
    async with served(tmp_path, model.url, None):
        pass
    n_asked = model.n_asked
    async with served(tmp_path, model.url, None) as client:
        assert model.n_asked - n_asked <= 1, "for the words that woke it up"
        assert (await answer(client, UNSHARED))["ranked"][0] == "top_clients"


async def test_a_damaged_store_of_vectors_is_made_anew(model: Server, tmp_path: Path) -> None:
    (tmp_path / "vectors.db").write_bytes(b"no database" * 1000)
    async with served(tmp_path, model.url, None) as client:
        assert (await answer(client, UNSHARED))["ranked"][0] == "top_clients"
