"""Many at once on a stale graph: one refresh, one read for each query, and a loop that keeps turning."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import ToolGraph
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.resolution.answer import Limits
from agent_utilities.query.resolution.resolver import Pipeline
from tests.parts import query_of
from tests.query.graph.agents import listing
from tests.query.graph.conftest import NEO4J_AT_NIGHT, Measured, NewGraph
from tests.query.graph.records import numbered
from tests.query.graph.wrapped import Held, Live, patient, running, until

pytestmark = pytest.mark.anyio

N_CALLERS, N_QUERIES = 1_000, 50
N_LISTING = 200
PER_TURN = 20
"""How many callers arrive in one turn of the loop: their own start must not count as its lag."""
DAY_S = 86_400
UNHURRIED = Limits(statement_s=120)
"""What a busy machine keeps, where fifty statements wait for eight places."""
_TICK_S = 0.001


class Lag:
    """How late the event loop is, measured every millisecond while a block runs."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        ticks: list[float] = [time.perf_counter()]

        async def tick() -> None:
            while True:
                await asyncio.sleep(_TICK_S)
                ticks.append(time.perf_counter())

        task = asyncio.create_task(tick())
        try:
            yield
        finally:
            task.cancel()
            ticks.append(time.perf_counter())
            self.seconds += [max(0.0, later - earlier - _TICK_S) for earlier, later in pairwise(ticks)]


def n_matches(graph: Held) -> int:
    """Return how often the graph was asked a query."""
    return sum(statement in (cypher.MATCH_TEXT, cypher.MATCH_TERMS) for statement, _ in graph.asked)


class TestResolves:
    async def stampede(self, graph: Held, queries: list[str]) -> tuple[Lag, Pipeline]:
        """Let a thousand resolve at once on a graph that is two days old."""
        now, lag = [time.time()], Lag()
        pipeline = patient(graph, Live(numbered(1_000)), now=lambda: now[0], deadline_s=120, limits=UNHURRIED)
        async with running(pipeline):
            now[0] += 2 * DAY_S
            graph.asked.clear()
            async with lag.measured():
                asked = []
                for i in range(N_CALLERS):
                    asked.append(asyncio.create_task(pipeline.resolve(queries[i % N_QUERIES])))
                    if i % PER_TURN == 0:
                        await asyncio.sleep(0)
                answers = await asyncio.gather(*asked)
            assert answers[0].status == "stale"
            # Callers come in turns, and the last may find the graph refreshed.
            assert {answer.status for answer in answers} <= {"stale", "fresh"}
            await until(lambda: pipeline.keeper.is_idle, "refreshed")
            assert pipeline.n_reads == N_QUERIES
            assert (await pipeline.resolve(queries[0])).status == "fresh"
        return lag, pipeline

    async def test_one_read_a_query(self, new_graph: NewGraph, measured: Measured, backend: str) -> None:
        graph = Held(new_graph())
        lag, _ = await self.stampede(graph, [f"tool_{i}" for i in range(N_QUERIES)])
        assert n_matches(graph) == N_QUERIES
        measured(f"loop lag, 1,000 resolves of 50 queries on {backend}", lag.seconds)

    async def test_one_refresh(self, tmp_path: Path) -> None:
        graph = Held(EmbeddedGraph(tmp_path / "g.lbdb"))
        _, pipeline = await self.stampede(graph, [f"tool_{i}" for i in range(N_QUERIES)])
        assert pipeline.keeper.n_refreshes == 2, "the first fill, and one"

    async def test_who_waited_while_it_was_refreshed_starts_no_other(self, new_graph: NewGraph) -> None:
        now, graph, live = [time.time()], Held(new_graph()), Live(numbered(3))
        pipeline = patient(graph, live, now=lambda: now[0], limits=UNHURRIED)
        async with running(pipeline):
            await pipeline.resolve("tool_1")
            now[0] += 2 * DAY_S
            graph.hold(reads=True)
            waiting = asyncio.create_task(pipeline.resolve("tool_2"))
            await graph.reached.wait()
            graph.hold()
            await pipeline.resolve("tool_1")
            await until(lambda: pipeline.keeper.is_idle, "refreshed")
            graph.release()
            await waiting
            await until(lambda: pipeline.keeper.is_idle, "refreshed")
            assert pipeline.keeper.n_refreshes == 2, "the first fill, and one"

    @NEO4J_AT_NIGHT
    async def test_queries_of_several_words_cost_no_more_than_two_reads(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph())
        await self.stampede(graph, [f"zz tool_{i}" for i in range(N_QUERIES)])
        assert n_matches(graph) <= 2 * N_QUERIES


def served(graph: ToolGraph, n_tools: int) -> AgentServer:
    """Return a server of the kind that an author makes, on a given graph."""
    mcp = create_mcp_server("s", environ={"MCP_GRAPH_DEADLINE_MS": "60000"}, graph=graph)
    query_of(mcp).resolver.limits = UNHURRIED
    for number in range(n_tools):
        mcp.tool(_tool(number), name=f"tool_{number}", description=f"does thing {number}", tags={f"group{number % 10}"})
    return mcp


def _tool(number: int) -> Callable[[], str]:
    def tool() -> str:
        return f"{number}"

    return tool


@asynccontextmanager
async def calling(server: AgentServer) -> AsyncIterator[Callable[[str], Any]]:
    """Run a server's ASGI application, and yield a function that lists its tools with a query."""
    app = server.http_app(host_origin_protection=False)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as web,
    ):

        async def ask(query: str) -> dict[str, Any]:
            return await listing(web, query)

        await until(lambda: query_of(server).resolver.health()["graph"]["status"] == "ready", "filled")
        yield ask


class TestLists:
    async def stampede(self, graph: Held, name: str, measured: Measured) -> int:
        """Let two hundred list at once on a graph that is two days old; returns how many refreshes there were."""
        server, lag, took_s = served(graph, 60), Lag(), []
        async with calling(server) as ask:
            pipeline = query_of(server).resolver.pipeline
            assert pipeline is not None
            await until(lambda: pipeline.keeper.is_idle, "idle")
            before = pipeline.keeper.n_refreshes
            graph.asked.clear()
            pipeline.keeper._now = lambda: time.time() + 2 * DAY_S

            async def one(number: int) -> None:
                started = time.perf_counter()
                query = f"tool_{number % N_QUERIES}"
                result = await ask(query)
                took_s.append(time.perf_counter() - started)
                assert query in {tool["name"] for tool in result["tools"]}
                assert len(result["tools"]) <= 11

            async with lag.measured():
                await asyncio.gather(*(one(number) for number in range(N_LISTING)))
            await until(lambda: pipeline.keeper.is_idle, "refreshed")
            assert n_matches(graph) == N_QUERIES
            measured(f"loop lag, 200 tools/list of 50 queries, callers in the same loop, {name}", lag.seconds)
            measured(f"answer, 200 tools/list of 50 queries, callers in the same loop, {name}", took_s)
            return pipeline.keeper.n_refreshes - before

    @NEO4J_AT_NIGHT
    async def test_one_read_a_query(self, new_graph: NewGraph, measured: Measured, backend: str) -> None:
        assert await self.stampede(Held(new_graph()), backend, measured) >= 1

    @pytest.mark.nightly
    async def test_one_refresh(self, new_graph: NewGraph, measured: Measured, backend: str) -> None:
        assert await self.stampede(Held(new_graph()), backend, measured) == 1


class TestChange:
    async def test_a_tool_added_while_it_runs_is_found(self, new_graph: NewGraph) -> None:
        server = served(new_graph(), 3)
        async with calling(server) as ask:
            assert (await ask("unicorn"))["_meta"]["agent-utilities/selection"]["status"] == "no_match"
            server.tool(_tool(9), name="unicorn_find", description="new", tags={"grown"})

            async def shows(*names: str) -> bool:
                return tuple(tool["name"] for tool in (await ask("unicorn"))["tools"]) == names

            await until(lambda: shows("unicorn_find"), "the tool is found")
            server.local_provider.remove_tool("unicorn_find")
            await until(lambda: shows("tool_0", "tool_1", "tool_2"), "it is found no more")
