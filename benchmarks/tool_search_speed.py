"""How long a search takes in process: of new words, of those asked before, of no tool's, and without a ranker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.graph.base import ToolRecord
from agent_utilities.query.ranking.base import plain_matches
from agent_utilities.query.resolution.answer import CallerScope, LiveTools
from agent_utilities.query.resolution.resolver import Resolver
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.server.stopping import calm_collector
from agent_utilities.settings import Settings, read_settings
from agent_utilities.testing import memory_graph
from benchmarks.ranking import REQUESTS, catalog

N_RESULTS = 10
FIRST, NEW, AGAIN, UNKNOWN, PLAIN = (
    "the first of a scope",
    "new words",
    "words asked before",
    "words of no tool",
    "new words, no ranker",
)
_N = 200
_DEADLINE_S = 60.0

Search = Callable[[str], Awaitable[int]]
"""Searches for some words, and returns how many tools it found."""


@dataclass
class Speed:
    """What searches of a catalog took.

    Args:
        n_tools: of the catalog; the caller may use nine tenths of them.
        wall_ms: of each search, by what it asked.
    """

    n_tools: int
    wall_ms: dict[str, list[float]] = field(default_factory=dict)


def measure_speed(n_tools: int) -> Speed:
    """Return how long searches by words take."""
    calm_collector()
    return asyncio.run(_measure(n_tools))


async def _measure(n_tools: int) -> Speed:
    documents = catalog(n_tools)
    permitted = frozenset(document.name for place, document in enumerate(documents) if place % 10)
    rows = [(each.name, each.title, each.description) for each in documents if each.name in permitted]
    speed = Speed(n_tools)
    async with _running(documents) as resolver:
        scope = CallerScope("nine tenths", lambda: permitted)
        await resolver.wait_to_search(Deadline.after(_DEADLINE_S))

        async def by_ranker(query: str) -> int:
            return len((await resolver.search(query, scope, N_RESULTS, Deadline.after(_DEADLINE_S))).tools)

        async def plainly(query: str) -> int:
            return len(plain_matches(query, rows, N_RESULTS))

        # Digits are no words, so that each of these is another query with the same work.
        new = [f"{REQUESTS[number % len(REQUESTS)]} {number}" for number in range(_N)]
        speed.wall_ms = {
            FIRST: await _times(by_ranker, new[:1]),
            NEW: await _times(by_ranker, new[1:]),
            AGAIN: await _times(by_ranker, new[1:]),
            UNKNOWN: await _times(by_ranker, [f"qqx{number}" for number in range(_N // 4)]),
            PLAIN: await _times(plainly, new[: _N // 4]),
        }
    return speed


async def _times(search: Search, queries: Sequence[str]) -> list[float]:
    times = []
    for query in queries:
        started = time.perf_counter()
        await search(query)
        times.append(1000 * (time.perf_counter() - started))
    return times


@asynccontextmanager
async def _running(documents: Sequence[ToolDocument]) -> AsyncIterator[Resolver]:
    """Run the resolver of a server that has some tools, with a graph in memory."""
    environ = {"MCP_RANKER": "lexical"}
    settings: Settings = read_settings(environ)
    records = [
        ToolRecord(each.name, each.title, each.description, each.tags, each.name, read_only=False) for each in documents
    ]

    async def introspect() -> LiveTools:
        return LiveTools("all", records, documents)

    resolver = Resolver(lambda: "benchmark", introspect, lambda: settings, lambda: environ, memory_graph())
    running = asyncio.create_task(resolver.run())
    await asyncio.sleep(0)
    try:
        yield resolver
    finally:
        running.cancel()
        await asyncio.wait([running])
