"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from agent_utilities.graph.base import GraphError, ToolGraph
from agent_utilities.graph.matching import Matches, match_literally, match_terms, names_of, normalise
from agent_utilities.resolution.answer import (
    GRAPH_SHARE,
    LEAST_RANKING_S,
    NO_TRAIL,
    RANKING_SHARE,
    UNRANKED,
    CallerScope,
    Limits,
    Memo,
    Question,
    Ranked,
    Trail,
    answer_without_graph,
    key_of,
    literal_answer,
    unavailable,
)
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.resolution.graph_keeper import GraphKeeper, Introspect
from agent_utilities.resolution.prior import shares_off_loop
from agent_utilities.runtime.waiting import Deadline, NotRunningError
from agent_utilities.selection.model import UNRESOLVED, Resolution


class DynamicToolOrchestrator:
    """Resolves queries on one server's tools, without an LLM (laws L5, L7).

    A query seen before is answered from memory. Another is asked of graph and ranker once, however many callers wait,
    and each caller waits no longer than the deadline. Tools that bear the query literally come first; then those that
    the ranker claims, or, while it can't rank, those that bear the query's words apart. The graph is opened, filled and
    refreshed by `run`, in the background; until it is filled, and whenever it fails, the ranker alone answers
    (`ranked`), and where it can't either the answer is `unavailable`, which shows everything permitted.

    Args:
        graph: the backend; opened and closed here.
        server: the server's name.
        introspect: returns its live tools; never a command that the graph holds.
        deadline_s: seconds that `resolve` waits at most where it is given no deadline.
        ranker: ranks the server's tools, or None.
        limits: how long background work may take.
        kept: what `GraphKeeper` is told besides: edges, age and clocks.
    """

    def __init__(
        self,
        graph: ToolGraph,
        server: str,
        introspect: Introspect,
        *,
        deadline_s: float,
        ranker: CatalogRanker | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        **kept: Any,
    ) -> None:
        self.graph, self._server = graph, server
        self._deadline_s = deadline_s
        self._ranker = ranker
        self.memo = Memo(limits.cache_bytes)
        """What was found; there is something to be found while this runs."""
        self.n_reads = 0
        """How many queries were asked of the graph; one whose words stand nowhere together may take two statements."""
        fallback = "every permitted tool is shown" if ranker is None else "the ranker alone answers"
        self.keeper = GraphKeeper(graph, server, introspect, limits, fallback, **kept)

    async def run(self) -> None:
        """Open the graph, fill it with the server's tools and keep it, until cancelled; then close within 2 s."""
        try:
            async with asyncio.TaskGroup() as group:
                self.memo.flights.group = group
                try:
                    await self.keeper.run()
                finally:
                    self.memo.flights.group = None
        finally:
            await self.keeper.close()

    async def filled(self, deadline: Deadline) -> None:
        """Wait for the first try to fill the graph, no longer than the deadline."""
        self.keeper.open_now()
        await deadline.wait(self.keeper.first_try_done)

    # -- answering ---------------------------------------------------------------------------------------------------

    async def resolve(
        self,
        query: str,
        scope: CallerScope | None = None,
        limit: int | None = None,
        deadline: Deadline | None = None,
        trail: Trail = NO_TRAIL,
    ) -> Resolution:
        """Return the answer to a query on the server's tools; never fails, never waits past the deadline."""
        if not (text := normalise(query)):
            return UNRESOLVED
        state, edition = self.keeper.state, self.keeper.edition(with_edges=bool(trail.near))
        version = self._ranker.version_for(trail.scope) if self._ranker is not None else ""
        question = Question(query, text, scope, limit, trail, edition, version)
        if state is None:
            self.keeper.open_now()
        until = deadline or Deadline.after(self._deadline_s)
        answer = await self._found(question.key("answer"), lambda: self._ask(question, until), until)
        if state is None:
            return answer
        # Whoever waited may find that a refresh is over by now, and starts no other.
        self.keeper.refresh_if_stale()
        is_stale = answer.status == "fresh" and self.keeper.is_stale(state)
        return replace(answer, status="stale") if is_stale else answer

    async def search(
        self, query: str, scope: CallerScope, limit: int, deadline: Deadline, usage_scope: str = ""
    ) -> Resolution:
        """Return the best tools in scope for a query, claimed or not; never fails, never waits past the deadline."""
        ranker = self._ranker
        if ranker is None or not ranker.version:
            return unavailable("no ranker" if ranker is None else "no index yet")
        version = ranker.version_for(usage_scope)
        question = Question(query, normalise(query), scope, limit, Trail(usage_scope), ranker_version=version)
        key = question.key("search")

        async def find() -> Resolution:
            answer = await ranker.search(question, deadline)
            return unavailable(UNRANKED) if answer is None else self._remember(key, answer)

        return await self._found(key, find, deadline)

    async def _found(
        self, key: bytes, find: Callable[[], Coroutine[Any, Any, Resolution]], deadline: Deadline
    ) -> Resolution:
        """Return an answer that is found once for all who ask the same; wait for it no longer than the deadline."""

        async def find_safely() -> Resolution:
            try:
                return await find()
            except Exception as failure:  # a flight that raised would end the whole task group
                return unavailable(self.keeper.failed(GraphError("failed", repr(failure))).cause)

        if self.memo.flights.group is None:
            return unavailable("being filled")
        try:
            return await self.memo.find(key, find_safely, deadline)
        except TimeoutError:
            return unavailable("too slow")
        except NotRunningError:
            return unavailable("failed")

    async def _ask(self, question: Question, deadline: Deadline) -> Resolution:
        """Ask graph and ranker, and remember the answer; without the graph, that of the ranker alone.

        Past the deadline nobody waits for it, but the graph's part of it is still remembered.
        """
        by_ranker: Resolution | None = self.memo.get(question.key("ranking"))
        ranked: Ranked | None = None
        if by_ranker is None:
            # At once: what the ranker finds does not depend on the graph, which may not be there.
            matches, ranked = await asyncio.gather(self._match(question, deadline), self._rank(question, deadline))
        elif not isinstance(matches := await self._match(question, deadline), GraphError):
            ranked = await self._rank(question, deadline)
        if isinstance(matches, GraphError):
            answer: Resolution | GraphError = matches
        else:
            answer = await self._combine(question, matches, ranked, deadline)
        if isinstance(answer, Resolution):
            return self._remember(question.key("answer"), answer)
        if by_ranker is None and ranked is not None:
            by_ranker = self._remember(question.key("ranking"), ranked(()))
        return unavailable(answer.cause) if by_ranker is None else answer_without_graph(by_ranker, answer.cause)

    async def _match(self, question: Question, deadline: Deadline) -> Matches | GraphError:
        """Return what matches in the graph, or why it can't be asked; in time for the ranker to answer without it."""
        if not question.edition:
            return GraphError(self.keeper.cause or "being filled", "not filled yet")
        trail = question.trail if self.keeper.knows_edges and question.trail.near else NO_TRAIL

        async def read() -> Matches:
            self.n_reads += 1
            return await match_literally(self.graph, self._server, question.text, trail.near, trail.scope)

        key = key_of("literal", question.text, question.edition, trail)
        until = deadline.share(GRAPH_SHARE) if question.ranker_version else deadline
        return await self._read(key, read, until)

    async def _read(
        self, key: bytes, read: Callable[[], Coroutine[Any, Any, Matches]], deadline: Deadline
    ) -> Matches | GraphError:
        """Return what matches, from memory where it was asked before; never fails, never waits past the deadline."""

        async def ask() -> Matches | GraphError:
            found = await self.keeper.ask(read)
            if isinstance(found, Matches):
                self.memo.keep(key, found)
            return found

        try:
            return await self.memo.find(key, ask, deadline)
        except TimeoutError:
            return GraphError("too slow", "no answer within the deadline")
        except NotRunningError:
            return GraphError("being filled", "not running")

    async def _rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        """Return what the ranker finds; None where there is none, or it can't rank."""
        if self._ranker is None or not question.ranker_version:
            return None
        return await self._ranker.rank(question, deadline.share(RANKING_SHARE, least_s=LEAST_RANKING_S))

    async def _combine(
        self, question: Question, matches: Matches, ranked: Ranked | None, deadline: Deadline
    ) -> Resolution | GraphError:
        """Return what literal matches and ranking come to; without a ranking, the query's terms are matched apart."""
        permitted = question.scope.names() if question.scope is not None else None
        neighbours: tuple[tuple[str, float], ...] = ()
        if matches.neighbour_rows:
            neighbours = await shares_off_loop(matches, question.trail.near, permitted)
        literal = names_of(matches, permitted)
        found_any = bool(literal)
        if ranked is not None:
            answer = ranked(literal)
            found_any = bool(answer.tools)
        else:
            if not literal:
                key = key_of("terms", question.text, question.edition)
                terms = await self._read(key, lambda: match_terms(self.graph, self._server, question.text), deadline)
                if isinstance(terms, GraphError):
                    return terms
                literal, found_any = names_of(terms, permitted), bool(terms.by_term)
            answer = literal_answer(literal, question.limit, UNRANKED if self._ranker is not None else "")
        if not found_any and (error := await self.keeper.ask(self.keeper.check_held)) is not None:
            return error
        return replace(answer, neighbours=neighbours)

    def _remember(self, key: bytes, answer: Resolution) -> Resolution:
        if not answer.is_temporary:
            self.memo.keep(key, answer)
        return answer
