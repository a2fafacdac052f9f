"""A query that comes too late for graph and vectors is answered by words: everything is left for what fits nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import create_mcp_server
from agent_utilities.query.resolution.answer import CallerScope, Limits
from agent_utilities.query.resolution.catalog_ranker import CatalogRanker
from agent_utilities.runtime.waiting import Deadline
from tests.parts import query_of
from tests.query.graph.proxies import silent
from tests.query.graph.records import record
from tests.query.graph.wrapped import Live, Unopened, patient, running, until
from tests.query.ranking.catalogs import TOOLS
from tests.query.resolution.test_catalog_ranker import offered

pytestmark = pytest.mark.anyio
N_TOOLS, N_CALLERS = 400, 64


@pytest.fixture
def hanging_neo4j() -> Iterator[dict[str, str]]:
    with silent() as port:
        yield {"MCP_GRAPH": "neo4j", "NEO4J_URI": f"bolt://127.0.0.1:{port}"}


@asynccontextmanager
async def served(folder: Path, **environ: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server of many tools that ranks, whose queries have a millisecond."""
    environ = {"MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": "1"} | environ
    server = create_mcp_server("many", environ=environ)
    for i in range(N_TOOLS):
        server.tool(lambda: "done", name=f"tool_{i}", description=f"Does thing number{i} for a user")
    app = server.http_app()
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1:8001", timeout=60)
    async with app.router.lifespan_context(app), client:
        await client.get("/tools", params={"q": "wake up"})
        await until(lambda: (ranker := query_of(server).resolver.ranker) is not None and ranker.version, "indexed")
        yield client


async def asked(client: httpx2.AsyncClient, query: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/tools", params={"q": query})).json()
    return found


def names(found: dict[str, Any]) -> set[str]:
    return {tool["name"] for tool in found["tools"]}


class TestOfAServer:
    async def test_however_many_ask_at_once_each_is_shown_what_their_words_fit(self, tmp_path: Path) -> None:
        async with served(tmp_path) as client:
            found = await asyncio.gather(*(asked(client, f"thing number{i}") for i in range(N_CALLERS)))
        assert [f"tool_{i}" in names(each) for i, each in enumerate(found)] == [True] * N_CALLERS
        assert max(len(each["tools"]) for each in found) <= 15

    async def test_while_the_event_loop_is_busy(self, tmp_path: Path) -> None:
        async def busy() -> None:
            while True:
                threading.Event().wait(0.02)  # holds the loop, as somebody's long list does
                await asyncio.sleep(0)

        async with served(tmp_path, MCP_GRAPH_DEADLINE_MS="10") as client:
            hog = asyncio.create_task(busy())
            found = [await asked(client, f"thing number{i}") for i in range(8)]
            hog.cancel()
        assert [(f"tool_{i}" in names(each), len(each["tools"]) <= 15) for i, each in enumerate(found)] == (
            [(True, True)] * 8
        )

    @pytest.mark.outside
    async def test_with_a_neo4j_that_never_answers(self, tmp_path: Path, hanging_neo4j: dict[str, str]) -> None:
        async with served(tmp_path, **hanging_neo4j, MCP_GRAPH_DEADLINE_MS="50") as client:
            found = await asyncio.gather(*(asked(client, f"thing number{i}") for i in range(N_CALLERS)))
        assert {each["selection"]["status"] for each in found} == {"ranked"}
        assert [f"tool_{i}" in names(each) for i, each in enumerate(found)] == [True] * N_CALLERS

    async def test_it_is_told_that_the_answer_came_too_late(self, tmp_path: Path) -> None:
        async with served(tmp_path) as client:
            selection = (await asked(client, "thing number7"))["selection"]
        assert (selection["status"], selection["ranked"][0]) == ("ranked", "tool_7")
        assert "too slow" in selection["cause"]

    async def test_what_fits_nothing_shows_everything(self, tmp_path: Path) -> None:
        async with served(tmp_path) as client:
            found = await asked(client, "zebra")
        assert (found["selection"]["status"], len(found["tools"])) == ("no_match", N_TOOLS)


class TestOfARanker:
    async def test_words_are_ranked_though_the_threads_of_vectors_are_taken(self) -> None:
        let_go = threading.Event()
        async with offered(CatalogRanker()) as ranker:
            for _ in range(4):
                ranker._threads.submit(let_go.wait, 60)
            pipeline = patient(Unopened(), Live([record("git_log", "history")]), ranker=ranker, limits=Limits())
            async with running(pipeline, wait=False):
                await until(lambda: pipeline.memo.flights.group, "running")
                scope = CallerScope("all", lambda: frozenset(tool.name for tool in TOOLS))
                late = Deadline.after(-1)
                assert (await pipeline.resolve("newest commits", scope, 5, late)).names == ("git_log",)
            let_go.set()
