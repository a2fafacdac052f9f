"""A catalog as an evaluation ranks it: by words, and by as much of what usage teaches as is asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from agent_utilities.cli.evaluation.data import Request, Tool
from agent_utilities.cli.evaluation.measures import RankedRequest
from agent_utilities.cli.evaluation.next_tool import N_FOUND, Search
from agent_utilities.cli.evaluation.parts import Part
from agent_utilities.ranking.base import Index, LearningIndex, Ranker, Ranking
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.resolution.prior import NO_PRIOR, Prior, with_prior
from agent_utilities.selection.resolution import RankedTool, Resolution
from agent_utilities.usage.learned import Learned

N_RANKED = 25


class EvaluatedCatalog:
    """Tools, ranked with as much of what was learned as is asked for.

    Args:
        tools: the catalog.
        ranker: makes its indexes: one with past requests, one without, each when it is first needed.
        learned: of a usage log, by ids of the tools.
    """

    def __init__(self, tools: Sequence[Tool], ranker: Ranker, learned: Learned) -> None:
        self.tools = tools
        self.ids = frozenset(tool.id for tool in tools)
        self.learned = learned
        self._ranker = ranker
        self._indexes: dict[bool, Index] = {}
        self._found: dict[tuple[Index, str], Resolution] = {}

    def index(self, parts: frozenset[Part]) -> Index:
        """Return the index with or without past requests."""
        with_requests = "past_requests" in parts and bool(self.learned.past_requests)
        if with_requests not in self._indexes:
            self._indexes[with_requests] = self._taught(self.index(frozenset())) if with_requests else self._made()
        return self._indexes[with_requests]

    def _taught(self, index: Index) -> Index:
        places = {tool.id: place for place, tool in enumerate(self.tools)}
        known = self.learned.past_requests
        answered = {places[tool_id]: list(requests) for tool_id, requests in known.items() if tool_id in places}
        return index.learn(PastRequests.of(answered)) if isinstance(index, LearningIndex) else index

    def _made(self) -> Index:
        notes = Console(stderr=True)
        with notes.status(f"indexing {len(self.tools)} tools"):
            index = self._ranker.index([tool.document for tool in self.tools])
        if index.cause:
            notes.print(f"[yellow]{index.cause}[/]", highlight=False)
        return index

    def rank(self, requests: Sequence[Request], parts: frozenset[Part]) -> list[RankedRequest]:
        """Rank requests as a server would answer them, one after the other."""
        index = self.index(parts)
        prior = Prior(self.learned.uses) if "recency" in parts else NO_PRIOR
        ranked = []
        for request in requests:
            started = time.perf_counter()
            ranking = index.rank(request.query, limit=N_RANKED)
            tools = self._moved(self._tools(ranking), ranking.n_claimed, prior)
            ms = 1000 * (time.perf_counter() - started)
            ids, scores = tuple(tool.name for tool in tools), tuple(tool.score or 0.0 for tool in tools)
            ranked.append(RankedRequest(request, ids, scores, ranking.abstained, ms, n_claimed=ranking.n_claimed))
        return ranked

    def _moved(self, tools: list[RankedTool], n_claimed: int, prior: Prior) -> list[RankedTool]:
        """Return ranked tools moved by a prior: those that are claimed among themselves, and so the others."""
        if not prior.uses:
            return tools
        moved: list[RankedTool] = []
        for part in (tools[:n_claimed], tools[n_claimed:]):
            moved += with_prior(Resolution("ranked", tuple(part)), prior, self.ids, len(part)).tools
        return moved

    def _tools(self, ranking: Ranking) -> list[RankedTool]:
        places = zip(ranking.indexes, ranking.scores, strict=True)
        return [RankedTool(self.tools[place].id, score) for place, score in places]

    def search(self, parts: frozenset[Part]) -> Search:
        """Return what finds tools as `tool_search` does, before it is cut to what is asked for."""
        return partial(self._search, self.index(parts))

    def _search(self, index: Index, query: str) -> Resolution:
        found = self._found.get((index, query))
        if found is None:
            tools = self._tools(index.rank(query, limit=N_RANKED + N_FOUND))
            self._found[index, query] = found = Resolution("ranked" if tools else "no_match", tuple(tools))
        return found
