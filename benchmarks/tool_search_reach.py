"""One search a request, by a real client: is the wanted tool in its result, what does it cost, and how long is it?"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from fastmcp import Client, FastMCP

from agent_utilities import AgentServer
from agent_utilities.catalog.context import n_tokens
from agent_utilities.query.ranking.open import open_ranker
from agent_utilities.search.search_result import MAX_QUERY_BYTES
from agent_utilities.server.stopping import calm_collector
from benchmarks.contenders import ContenderError
from benchmarks.served_quality import VECTORS
from benchmarks.tool_search_data import DevelopmentSet, fastmcp_of, gateway_of
from tests.parts import query_of

ERAS = {"2026-07-28": "auto", "handshake": "legacy"}
"""The protocol eras, as a client is asked for them."""
EVAL_KS = (5, 10)
N_SEARCHES, N_SESSIONS = 3, 20
"""Searches after which a session's list is counted, and how many sessions of each set."""
_READY_S = 900.0
_BYTES_PER_TOKEN = 3.8


@dataclass(frozen=True, slots=True)
class Searcher:
    """Who is searched, and how.

    Args:
        lane: its name in tables.
        ranker: of the gateway; empty for FastMCP's own search.
        max_results: how many tools FastMCP's gives.
    """

    lane: str
    ranker: str = ""
    max_results: int = 5

    @property
    def is_ours(self) -> bool:
        """Whether it is the gateway."""
        return bool(self.ranker)

    @contextmanager
    def serve(self, sample: DevelopmentSet) -> Iterator[FastMCP[Any]]:
        """Give a server of a set's tools."""
        if not self.is_ours:
            yield fastmcp_of(sample, max_results=self.max_results)
            return
        with gateway_of(sample, MCP_TOOL_SEARCH="on", MCP_RANKER=self.ranker) as gateway:
            yield gateway


def searchers(rankers: Sequence[str]) -> list[Searcher]:
    """Return all that are compared."""
    ours = [Searcher(f"ours, {ranker}", ranker) for ranker in rankers]
    return [*ours, Searcher("FastMCP, 5"), Searcher("FastMCP, 10", max_results=10)]


@dataclass(frozen=True, slots=True)
class Found:
    """What one search gave.

    Args:
        full: ids of the tools that came with their definitions.
        more: ids of those that were only named.
        n_tokens: of the result's text.
        wall_ms: from the call to its parsed result.
    """

    full: frozenset[str]
    more: frozenset[str]
    n_tokens: float
    wall_ms: float


@dataclass(frozen=True)
class Reach:
    """What one searcher reached on one set; shares from 0 to 1.

    Args:
        name: of the set.
        lane: of the searcher.
        era: of the protocol.
        full: of the tools wanted, those that came with their definitions; the mean over requests, as in `eval`.
        found: the same of those that came at all.
        evaluated: `eval`'s R@5 and R@10 with the same ranker; empty for FastMCP's search.
        list_tokens: of what is listed before the search.
        listed_after: tokens of what is listed after three searches, the mean over twenty sessions.
        tokens: of the list and the result, the mean over requests.
        all_tokens: of a list of all tools.
        wall_ms: of each search.
    """

    name: str
    lane: str
    era: str
    full: float
    found: float
    evaluated: Sequence[float]
    list_tokens: int
    listed_after: float
    tokens: float
    all_tokens: int
    wall_ms: Sequence[float] = field(repr=False)

    @property
    def saved(self) -> float:
        """The share of a full list's tokens that a request is spared."""
        return 1 - self.tokens / self.all_tokens


def measure_reach(sample: DevelopmentSet, searcher: Searcher, era: str) -> Reach:
    """Return what a searcher reaches; each request is searched for once, with its own words."""

    async def measure(server: FastMCP[Any]) -> tuple[int, list[Found], float]:
        return *await _search_all(sample, server, era), await _listed_after(sample, server, era)

    with searcher.serve(sample) as server:
        list_tokens, found, listed_after = asyncio.run(measure(server))  # a server keeps to one event loop
    return Reach(
        name=sample.name,
        lane=searcher.lane,
        era=era,
        full=_recall(sample, [each.full for each in found]),
        found=_recall(sample, [each.full | each.more for each in found]),
        evaluated=_evaluated(sample, searcher.ranker) if searcher.is_ours else (),
        list_tokens=list_tokens,
        listed_after=listed_after,
        tokens=list_tokens + fmean(each.n_tokens for each in found),
        all_tokens=sample.n_tokens,
        wall_ms=[each.wall_ms for each in found],
    )


async def _search_all(sample: DevelopmentSet, server: FastMCP[Any], era: str) -> tuple[int, list[Found]]:
    """Return the tokens of the list before any search, and what the search for each request gave."""
    calm_collector()
    async with Client(server, mode=ERAS[era]) as client:
        tokens = await _n_listed(client)
        if isinstance(server, AgentServer):
            await _until_indexed(server, client)
        tool = _search_tool(server)
        await client.call_tool(tool, {"query": "warm up"})
        return tokens, [await _search(sample, client, tool, request.query) for request in sample.requests]


async def _listed_after(sample: DevelopmentSet, server: FastMCP[Any], era: str) -> float:
    """Return the tokens listed after three requests were searched for, the mean over sessions."""
    queries, n_listed = [request.query for request in sample.requests], []
    async with Client(server, mode=ERAS[era]) as waiting:  # in a session of its own: what it finds is listed too
        if isinstance(server, AgentServer):
            await _until_indexed(server, waiting)
        for start in range(0, min(len(queries) - N_SEARCHES + 1, N_SEARCHES * N_SESSIONS), N_SEARCHES):
            async with Client(server, mode=ERAS[era]) as client:
                for query in queries[start : start + N_SEARCHES]:
                    await _search(sample, client, _search_tool(server), query)
                n_listed.append(await _n_listed(client))
    return fmean(n_listed)


async def _n_listed(client: Client[Any]) -> int:
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in await client.list_tools()]
    return sum(map(n_tokens, listed))


def _search_tool(server: FastMCP[Any]) -> str:
    return "tool_search" if isinstance(server, AgentServer) else "search_tools"


async def _until_indexed(server: AgentServer, client: Client[Any]) -> None:
    """Wait until the index is as good as it gets.

    Raises:
        ContenderError: it doesn't become so.
    """
    until = time.monotonic() + _READY_S
    while time.monotonic() < until:
        await client.call_tool("tool_search", {"query": "wake up"})
        ranker = query_of(server).resolver.health()["ranker"]
        if ranker["status"] == "ready" and "cause" not in ranker:
            return
        await asyncio.sleep(0.2)
    raise ContenderError(f"no index within {_READY_S} s: {ranker}")


async def _search(sample: DevelopmentSet, client: Client[Any], tool: str, query: str) -> Found:
    # One of the requests is an image in base64.
    asked = query.encode()[:MAX_QUERY_BYTES].decode(errors="ignore")
    started = time.perf_counter()
    result = await client.call_tool(tool, {"query": asked})
    wall_ms = 1000 * (time.perf_counter() - started)
    text = "".join(str(getattr(block, "text", "")) for block in result.content)
    answer = json.loads(text) if text else []
    tools, more = (answer, ()) if isinstance(answer, list) else (answer["tools"], answer.get("more", ()))
    return Found(_ids(sample, tools), _ids(sample, more), text_tokens(text), wall_ms)


def text_tokens(text: str) -> float:
    """Return about how many tokens a text takes in a prompt."""
    return len(text.encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN


def _ids(sample: DevelopmentSet, tools: Sequence[dict[str, Any]]) -> frozenset[str]:
    return frozenset(sample.ids[tool["name"]] for tool in tools)


def _recall(sample: DevelopmentSet, found: Sequence[frozenset[str]]) -> float:
    shares = [
        fmean(bool(group & ids) for group in request.groups)
        for request, ids in zip(sample.requests, found, strict=True)
    ]
    return fmean(shares)


def _evaluated(sample: DevelopmentSet, ranker: str) -> list[float]:
    """Return the share of the tools wanted that `eval` has among its first 5 and 10."""
    VECTORS.parent.mkdir(parents=True, exist_ok=True)
    index = open_ranker(ranker, "minilm", VECTORS).index([tool.document for tool in sample.tools])
    ranked = [[sample.tools[place].id for place in index.rank(request.query).indexes] for request in sample.requests]
    return [_recall(sample, [frozenset(ids[:k]) for ids in ranked]) for k in EVAL_KS]
