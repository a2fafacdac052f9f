"""The words panel: how a query is answered, with the parts of each score, the graph's statements, and neighbours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from starlette.requests import Request as HttpRequest

from agent_utilities.page.surface import request_of, rows_of
from agent_utilities.policy.reasons import status_text
from agent_utilities.query.feature import Query
from agent_utilities.query.graph.base import GraphError, Reads
from agent_utilities.query.graph.matching import match, match_literally, normalise
from agent_utilities.query.ranking.arrays import Scores
from agent_utilities.query.ranking.base import BY_WORDS, Ranking
from agent_utilities.query.resolution.answer import CallerScope
from agent_utilities.query.resolution.catalog_ranker import N_RANKED, CatalogIndex
from agent_utilities.query.resolution.prior import Prior, gains_of
from agent_utilities.query.resolution.resolver import Pipeline
from agent_utilities.runtime.waiting import in_daemon_thread, in_turns
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.panel import Panel, Reader, Table
from agent_utilities.seam.request import Request
from agent_utilities.selection.model import Resolution
from agent_utilities.usage.feature import Usage
from agent_utilities.usage.model import EVERYBODY, NOBODY

Edge = tuple[str, str, str, int]
"""A tool, its neighbour, the kind of edge, and how often it was used."""
_N_ROWS, _N_AROUND, _N_NAMES = 25, 8, 50
_RANK_S = 5.0
_EDGES = ("of", "tool", "edge", "times")


class _Recorded:
    """A graph that keeps its reads and their rows."""

    def __init__(self, graph: Reads) -> None:
        self._graph = graph
        self.ran: list[tuple[str, Mapping[str, Any], Sequence[Mapping[str, Any]]]] = []

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        rows = await self._graph.read(statement, parameters)
        self.ran.append((statement, parameters, rows))
        return rows


async def look(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return how a reader's query is answered, from the tools that they may use alone, and without side effects."""
    values: dict[str, Any] = {"words": request.query_params.get("q", ""), "status": "", "why_none": "", "tables": {}}
    values |= {"ranked": [], "part_names": [], "cut": None, "n_claimed": 0, "ran": [], "edges": [], "route": {}}
    began_s = time.perf_counter()
    made = await request_of(host, reader, request)
    values["ms"] = 1000 * (time.perf_counter() - began_s)
    query, feature = made.verdict.preferences.query, find(host, Query)
    if query is None or feature is None:
        return values
    resolution = made.verdict.preferences.resolution
    values["status"] = status_text(resolution.status, resolution.cause, resolution.n_left_out)
    rows = await rows_of(host, reader, made)
    servers = {row.name: row.server for row in rows if row.verdict != "denied"}
    features = {each.name: each for each in host.offered(Feature)}
    if (capabilities := features.get("capabilities")) is not None:
        summary = await capabilities.summary(made, "tool", await host.decide("tool", made.verdict))
        values["route"] = summary["capabilities"].get("route", {})
    pipeline, ranker = feature.resolver.pipeline, feature.resolver.ranker
    scope = await feature.introspection.scope(made.verdict.bounds_alone)
    if pipeline is None or scope is None:
        return {**values, "why_none": "queries are off, or graph and index are not made yet"}
    usage = find(host, Usage)
    of = usage.subject() if usage is not None else ""
    if ranker is None or ranker.index is None:
        values["why_none"] = "there is no ranker, or its index is not made yet"
    else:
        teaching = feature.resolver.teaching if _may_learn(reader, of) else None
        prior = teaching.prior(of) if teaching is not None else None
        values |= await _ranks(ranker.learned(of, ranker.index), prior, made, query, scope, servers)
    best = [each["name"] for each in values["ranked"][:_N_AROUND]] or list(resolution.names[:_N_AROUND])
    around = await _graph(pipeline, host.name, query, best, servers, reader, of, by_terms=ranker is None)
    values["tables"] |= {"edges": Table(_EDGES, around.get("edges", []))}
    return {**values, **around}


async def _ranks(
    index: CatalogIndex, prior: Prior | None, made: Request, query: str, scope: CallerScope, servers: Mapping[str, str]
) -> dict[str, Any]:
    parts: dict[str, Scores] = {}
    resolution: Resolution = made.verdict.preferences.resolution
    by = index.lexical if BY_WORDS in resolution.cause else index.best  # vectors may have come too late for the answer
    limit = N_RANKED + (made.verdict.preferences.most_shown or 0)
    rank = partial(by.rank, query, permitted=index.permitted(scope), limit=limit, parts=parts)
    try:
        async with asyncio.timeout(_RANK_S):
            ranking: Ranking = await in_daemon_thread(rank)
    except TimeoutError:
        return {"why_none": f"ranking took more than {_RANK_S:g} s"}
    gains = gains_of(resolution, prior, scope.names()) if prior is not None and resolution.answered else {}
    places = {name: place for place, name in enumerate(resolution.names, 1)}
    names = [index.documents[place].name for place in ranking.indexes]
    ranked: list[dict[str, Any]] = [
        {
            "name": name,
            "server": servers.get(name, ""),
            "score": ranking.scores[i],
            "parts": {part: values[i] for part, values in ranking.parts.items()},
            "gain": gains.get(name, 0.0),
            "words": list(ranking.matched[i]),
            "is_claimed": i < ranking.n_claimed,
            "shown": places.get(name, 0),
        }
        for i, name in enumerate(names)
        if i < _N_ROWS or name in places
    ]
    return {"ranked": ranked, "cut": ranking.cut, "n_claimed": ranking.n_claimed, **_ranks_table(ranked, ranking)}


def _ranks_table(ranked: Sequence[Mapping[str, Any]], ranking: Ranking) -> dict[str, Any]:
    shown = [part for part, values in ranking.parts.items() if any(round(value, 4) for value in values)]
    columns = ("name", "server", "score", *shown, "usage", "words", "claimed", "shown")
    before, after = itemgetter("name", "server", "score"), itemgetter("gain", "words", "is_claimed", "shown")
    cells = [(*before(each), *(each["parts"][part] for part in shown), *after(each)) for each in ranked]
    return {"part_names": shown, "tables": {"ranks": Table(columns, cells)}}


# -- the graph -----------------------------------------------------------------------------------------------------


async def _graph(
    pipeline: Pipeline,
    server: str,
    query: str,
    best: Sequence[str],
    servers: Mapping[str, str],
    reader: Reader,
    scope: str,
    *,
    by_terms: bool,
) -> dict[str, Any]:
    """Return the statements that a query runs on the graph with their rows, and the neighbours of the best tools."""
    recorded = _Recorded(pipeline.keeper.graph)
    text = normalise(query)

    async def ask() -> list[Edge]:
        await (match if by_terms else match_literally)(recorded, server, text)
        matches = await match_literally(recorded, server, text, best, scope)
        return [(each.of, each.name, each.kind, each.n) async for each in in_turns(matches.neighbours)]

    edges = await pipeline.keeper.ask(ask)
    if isinstance(edges, GraphError):
        return {"why_none": f"the graph is not asked: {edges.cause}"}
    known = [edge for edge in edges if _may_learn(reader, scope) and edge[0] in servers and edge[1] in servers]
    distinct = _once(sorted(known, key=lambda edge: (-edge[3], edge)))
    ran = [
        {
            "statement": statement.strip(),
            "parameters": "\n".join(f"${name} = {value!r}" for name, value in parameters.items()),
            "names": (names := _names(rows, servers, reader))[:_N_NAMES],
            "n": len(names),
        }
        for statement, parameters, rows in (recorded.ran if reader.operates else recorded.ran[:1])
    ]
    return {"ran": ran, "edges": distinct}


def _once(edges: Sequence[Edge]) -> list[Edge]:
    """Return edges without those that repeat an earlier one the other way round."""
    kept: dict[tuple[frozenset[str] | tuple[str, str], str], tuple[str, str, str, int]] = {}
    for of, name, kind, n in edges:
        kept.setdefault((frozenset((of, name)) if kind == "used_with" else (of, name), kind), (of, name, kind, n))
    return list(kept.values())


def _may_learn(reader: Reader, scope: str) -> bool:
    """Whether a reader may see what a scope's calls teach: those of everybody would tell of others' calls."""
    return reader.operates or scope not in (EVERYBODY, NOBODY)


def _names(rows: Sequence[Mapping[str, Any]], servers: Mapping[str, str], reader: Reader) -> tuple[str, ...]:
    names = dict.fromkeys(name for row in rows for name in row["names"])
    return tuple(sorted(name for name in names if reader.operates or name in servers))


PANEL = Panel("words", "Words", look)
