"""One server in a process of its own, asked queries: obeys the orders of `worker.py` and some more.

Like that script it serves contenders in whatever environment it is started in, so what it needs of this project it
imports where only this project's server gets to.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

# Last, so that each environment's own agent_utilities is found before the one beside this folder.
sys.path.append(str(Path(__file__).parents[1]))

from fastmcp import FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

from benchmarks.host_internals import low_level, put, search
from benchmarks.resolution_lag import TICK_S, Lag
from benchmarks.worker import Worker

if TYPE_CHECKING:
    from agent_utilities import AgentServer
    from agent_utilities.query.resolution.resolver import Pipeline, Resolver

SERVER = "resolution-benchmark"
VERBS = tuple("list read create update search export archive compare restore watch count label".split())
NOUNS = (
    "invoice webhook tenant vault ledger sensor ticket route snapshot queue badge contract dashboard parcel voucher "
    "playlist mailbox cluster secret release branch patient recipe auction flight shelf payroll survey beacon hangar "
    "gateway refund turbine orchard pipeline policy quota replica schema tunnel usage visa warehouse zone asset "
    "bundle channel domain export folder".split()
)
EVERYWHERE = "newest entries first, together with whoever touched them last and the date of that"
TOP_K = 15
"""What a queried list shows where nobody says otherwise."""
_PAUSE_S = 6.0
"""Longer than a graph that failed is left alone, so that one kind of query does not spoil the next."""


def nouns(i: int) -> tuple[str, str, str]:
    """Return the three nouns that the i-th tool speaks of."""
    n = len(NOUNS)
    return NOUNS[i % n], NOUNS[(i // n + 7 * i + 11) % n], NOUNS[(i // n + 13 * i + 29) % n]


def tool_name(i: int) -> str:
    """Return the name of the i-th tool."""
    return f"{VERBS[i % len(VERBS)]}_{nouns(i)[0]}_{i:05}"


def add_tools(server: Any, n_tools: int) -> None:
    """Add tools of many trades: about 160 characters of description, three parameters, two tags, a hint.

    They are put past FastMCP's `add_tool`, which would take a minute for 10,000.
    """

    async def work(
        path: Annotated[str, Field(description="Where the records are, from the root of the workspace.")],
        limit: Annotated[int, Field(description="The most records to return.", ge=1, le=1000)] = 20,
        recursive: bool = False,
    ) -> str:
        return path

    pattern = Tool.from_function(work)
    for i in range(n_tools):
        put(server, changed(pattern, i))


def described(i: int) -> str:
    """Return the description of the i-th tool."""
    first, second, third = nouns(i)
    verb = VERBS[i % len(VERBS)].capitalize()
    return f"{verb} every {first} of account {i:05} by {second} and {third}, {EVERYWHERE}."


def changed(pattern: Tool, i: int, edition: int = 0) -> Tool:
    """Return the i-th tool; a further edition differs in its description only."""
    kind = "read" if i % 2 == 0 else "write"
    return pattern.model_copy(
        update={
            "name": tool_name(i),
            "description": described(i) + (f" Edition {edition}." if edition else ""),
            "tags": {kind, f"trade_{nouns(i)[0]}"},
            "annotations": ToolAnnotations(read_only_hint=kind == "read"),
        }
    )


def resolver_of(server: AgentServer) -> Resolver:
    """Return what resolves a server's queries."""
    from agent_utilities.query.feature import Query
    from agent_utilities.seam.host import find

    query = find(server, Query)
    assert query is not None
    return query.resolver


def pipeline_of(server: AgentServer) -> Pipeline:
    """Return what answers a server's queries, once its graph was opened."""
    pipeline = resolver_of(server).pipeline
    assert pipeline is not None
    return pipeline


class ResolvingWorker(Worker):
    """Holds one server with a graph, or one of those it is compared with."""

    async def build(self, n_tools: int) -> dict[str, Any]:
        """Make the server and start its lifespan; return the loop's lag while its graph is opened and filled."""
        self._server = self._made()
        add_tools(self._server, n_tools)
        if self._contender == "ours":  # as the command line does before it serves
            from agent_utilities.server.stopping import calm_collector

            calm_collector()
        lag, started = Lag(), time.perf_counter()
        host = low_level(self._server)
        async with lag.watched():
            self._state = await self._stack.enter_async_context(host.lifespan(host))
            if self._contender == "ours":
                await self._filled()
        return {"fill_s": time.perf_counter() - started, "lag": lag.as_dict()}

    def _made(self) -> Any:
        if self._contender == "bm25":
            self._search = BM25SearchTransform()
            return FastMCP(SERVER, transforms=[self._search])
        if self._contender == "released-graph":
            importlib.import_module("agent_utilities.knowledge_graph.core.engine").IntelligenceGraphEngine()
        if self._contender == "ours":
            from agent_utilities import create_mcp_server

            return create_mcp_server(SERVER)
        factory = importlib.import_module("agent_utilities.mcp.server_factory").create_mcp_server
        _, server, middleware = factory(SERVER, command_args=[])
        for each in middleware:
            if type(each).__name__ != "RateLimitingMiddleware":
                server.add_middleware(each)
        return server

    async def _filled(self) -> None:
        resolver = resolver_of(self._server)
        while True:
            await resolver.wait_for_tools()  # opens what is not open yet
            health = resolver.health()
            if health["graph"]["status"] == health["ranker"]["status"] == "ready":
                return
            if health["graph"]["status"] == "unavailable":
                raise RuntimeError(f"the graph is unavailable: {health['graph']['cause']}")
            await asyncio.sleep(0.005)

    async def resolve(self, queries: list[str], n_warm: int) -> dict[str, Any]:
        """Resolve queries never asked before, each then some more times."""
        pipeline = pipeline_of(self._server)
        cold, warm, n_found = [], [], []
        for query in queries:
            started = time.perf_counter()
            answer = await pipeline.resolve(query, limit=TOP_K)
            cold.append((time.perf_counter() - started, 0.0))
            n_found.append(len(answer.names) if answer.status in ("fresh", "no_match") else -1)
            for _ in range(n_warm if n_found[-1] >= 0 else 0):
                wall, cpu = time.perf_counter(), self._clock.cpu_s()
                await pipeline.resolve(query, limit=TOP_K)
                warm.append((time.perf_counter() - wall, self._clock.cpu_s() - cpu))
        if n_found[-1] < 0:
            await asyncio.sleep(_PAUSE_S)
        return {"cold": cold, "warm": warm, "n_found": n_found}

    async def search(self, queries: list[str]) -> dict[str, Any]:
        """Search by BM25, without the server around it; the first search makes the index."""
        tools, timings = await self._server.local_provider.list_tools(), []
        for query in queries:
            wall, cpu = time.perf_counter(), self._clock.cpu_s()
            await search(self._search, tools, query)
            timings.append((time.perf_counter() - wall, self._clock.cpu_s() - cpu))
        return {"timings": timings}

    async def answers(self, queries: list[str]) -> dict[str, Any]:
        """Serve each query as a caller would ask it: a list with a header, or a call of the search tool."""
        timings, n_tools = [], []
        for query in queries:
            if self._contender == "bm25":
                params = {"name": "search_tools", "arguments": {"query": query}}
                answer = await self.ask("tools/call", params, {}, 1)
            else:
                answer = await self.ask("tools/list", {}, {"x-mcp-query": query}, 1)
            timings += answer["timings"]
            n_tools.append(answer["n_tools"])
        return {"timings": timings, "n_tools": n_tools}

    async def lists(self, lanes: dict[str, dict[str, str]], n_calls: int) -> dict[str, Any]:
        """Serve lists under several headers in turns, call by call."""
        timings: dict[str, list[Any]] = {lane: [] for lane in lanes}
        n_tools: dict[str, int] = {}
        order, shuffle = list(lanes), Random(0).shuffle
        for i in range(n_calls + 2):
            for lane in order:
                answer = await self.ask("tools/list", {}, lanes[lane], 1)
                n_tools[lane] = answer["n_tools"]
                timings[lane] += answer["timings"] if i > 1 else ()
            shuffle(order)
        return {"timings": timings, "n_tools": n_tools}

    async def decisions(self, lanes: dict[str, dict[str, str]], n_calls: int) -> dict[str, Any]:
        """Decide lists under several headers in turns, call by call: the verdict with its resolution, the decision."""
        from agent_utilities.selection.parse import read_request

        server: AgentServer = self._server
        callers = {
            lane: read_request(b"", tuple((key.encode(), value.encode()) for key, value in headers.items()))
            for lane, headers in lanes.items()
        }
        with server.surface.under_verdict(server.surface.unbounded()):
            tools = await server.list_tools(run_middleware=False)
        timings: dict[str, list[Any]] = {lane: [] for lane in lanes}
        n_tools: dict[str, int] = {}
        order, shuffle = list(lanes), Random(0).shuffle
        for i in range(n_calls + 2):
            for lane in order:
                wall, cpu = time.perf_counter(), self._clock.cpu_s()
                request = await server.request(callers[lane])
                decision = server.surface.decide("tool", tools, request.verdict)
                taken = time.perf_counter() - wall, self._clock.cpu_s() - cpu
                n_tools[lane] = len(decision.visible)
                timings[lane] += [taken] if i > 1 else ()
            shuffle(order)
        return {"timings": timings, "n_tools": n_tools}

    async def lag(self, load: str, queries: list[str]) -> dict[str, Any]:
        """Return the loop's lag under a load: `idle`, `cold` queries, a `stampede`, or a `refresh` of a tenth."""
        lag, n_unanswered = Lag(), 0
        gc.collect()
        if load == "refresh":
            await self._change_a_tenth()
        async with lag.watched():
            if load == "idle":
                await asyncio.sleep(2)
            for query in queries if load == "cold" else ():
                answer = await pipeline_of(self._server).resolve(query, limit=TOP_K)
                n_unanswered += answer.status == "unavailable"
                await asyncio.sleep(2 * TICK_S)
            if load == "refresh":
                await self._refreshed()
            if load == "stampede":
                n_unanswered = await self._stampede(queries)
        if n_unanswered:
            await asyncio.sleep(_PAUSE_S)
        return {**lag.as_dict(), "n_unanswered": n_unanswered, "n_queries": len(queries)}

    async def _stampede(self, queries: list[str]) -> int:
        """Let a thousand callers resolve at once, 20 in each turn of the loop; returns how many got no answer."""
        pipeline, asked = pipeline_of(self._server), []
        for i in range(1000):
            asked.append(asyncio.create_task(pipeline.resolve(queries[i % len(queries)], limit=TOP_K)))
            if i % 20 == 0:
                await asyncio.sleep(0)
        return sum(answer.status == "unavailable" for answer in await asyncio.gather(*asked))

    async def _change_a_tenth(self) -> None:
        self._edition = getattr(self, "_edition", 0) + 1
        pipeline = pipeline_of(self._server)
        self._n_refreshes = pipeline.keeper.n_refreshes
        pattern, *_ = tools = list(await self._server.local_provider.list_tools())
        for i in range(0, len(tools), 10):
            put(self._server, changed(pattern, i, self._edition))
        server: AgentServer = self._server
        server.changes.note({"tools"})

    async def _refreshed(self) -> None:
        pipeline = pipeline_of(self._server)
        while pipeline.keeper.n_refreshes == self._n_refreshes or not pipeline.keeper.is_idle:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    # Whatever a contender prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asyncio.run(ResolvingWorker(sys.argv[1], answers).run())
