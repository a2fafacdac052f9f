"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from agent_utilities.graph.base import GraphError, ToolGraph
from agent_utilities.graph.matching import (
    Matches,
    match_terms,
    match_with_neighbours,
    names_of,
    normalise,
)
from agent_utilities.resolution.answer import (
    GRAPH_SHARE,
    LEAST_RANKING_S,
    NO_TRAIL,
    RANKING_SHARE,
    UNRANKED,
    CallerScope,
    Key,
    Limits,
    Memo,
    Question,
    Ranked,
    Trail,
    answer_without_graph,
    literal_answer,
    unavailable,
)
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.resolution.graph_reader import GraphReader
from agent_utilities.resolution.prior import shares_off_loop
from agent_utilities.resolution.refresher import EdgeSource, Introspect, Refresher
from agent_utilities.runtime.waiting import Deadline, NotRunningError
from agent_utilities.selection.model import UNRESOLVED, Resolution

logger = logging.getLogger("agent_utilities.graph")


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
        ttl_hours: the age from which an answer is `stale`, and a refresh is started behind it.
        limits: how long background work may take.
        edges: what calls teach of tools that go together, asked at each fill and refresh; None where nothing does.
        now: UTC epoch seconds, for ages.
        clock: monotonic seconds, for pauses after failures.
    """

    def __init__(
        self,
        graph: ToolGraph,
        server: str,
        introspect: Introspect,
        *,
        deadline_s: float,
        ranker: CatalogRanker | None = None,
        ttl_hours: float = 24,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        edges: EdgeSource | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.graph, self._server = graph, server
        self._deadline_s, self._close_s = deadline_s, limits.close_s
        self._ranker = ranker
        self.memo = Memo(limits.cache_bytes)
        """What was found; there is something to be found while this runs."""
        self.n_reads = 0
        """How many queries were asked of the graph; one whose words stand nowhere together may take two statements."""
        fallback = "every permitted tool is shown" if ranker is None else "the ranker alone answers"
        self.reader = GraphReader(graph, self.memo, limits, clock, fallback)
        self.refresher = Refresher(graph, server, introspect, self.reader, limits, edges, now, ttl_hours)

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
        state, edition = self.refresher.state, self.refresher.edition(with_edges=bool(trail.near))
        version = self._ranker.version_for(trail.scope) if self._ranker is not None else ""
        question = Question(query, text, scope, limit, trail, edition, version)
        if state is None:
            self.refresher.open_now()
        answer = await self._found(question, deadline or Deadline.after(self._deadline_s))
        if state is None:
            return answer
        # Whoever waited may find that a refresh is over by now, and starts no other.
        self.refresher.refresh_if_stale()
        is_stale = answer.status == "fresh" and self.refresher.is_stale(state)
        return replace(answer, status="stale") if is_stale else answer

    async def _found(self, question: Question, deadline: Deadline) -> Resolution:
        """Return an answer that is found once for all who ask the same; wait for it no longer than the deadline."""
        if self.memo.flights.group is None:
            return unavailable("being filled")
        try:
            key = question.key("answer")
            return await self.memo.find(key, lambda: self._find(question, deadline), deadline)
        except TimeoutError:
            return unavailable("too slow")
        except NotRunningError:
            return unavailable("failed")

    async def _find(self, question: Question, deadline: Deadline) -> Resolution:
        """Find an answer; past the deadline nobody waits for it, but the graph's part of it is still remembered."""
        try:
            return await self._ask(question, deadline)
        except Exception as failure:  # a flight that raised would end the whole task group
            return unavailable(self.reader.failed(GraphError("failed", repr(failure))).cause)

    async def _ask(self, question: Question, deadline: Deadline) -> Resolution:
        """Ask graph and ranker, and remember the answer; without the graph, that of the ranker alone."""
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
            return GraphError(self.reader.cause or "being filled", "not filled yet")
        trail = question.trail if self.refresher.knows_edges and question.trail.near else NO_TRAIL

        async def read() -> Matches:
            self.n_reads += 1
            return await match_with_neighbours(self.graph, self._server, question.text, trail.near, trail.scope)

        key = Key("literal", question.text, question.edition, trail=trail)
        until = deadline.share(GRAPH_SHARE) if question.ranker_version else deadline
        return await self.reader.matches(key, read, until)

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
        neighbours = await shares_off_loop(matches, question.trail.near, permitted)
        literal = names_of(matches, permitted)
        found_any = bool(literal)
        if ranked is not None:
            answer = ranked(literal)
            found_any = bool(answer.tools)
        else:
            if not literal:
                key = Key("terms", question.text, question.edition)
                by_term = await self.reader.matches(
                    key, lambda: match_terms(self.graph, self._server, question.text), deadline
                )
                if isinstance(by_term, GraphError):
                    return by_term
                literal, found_any = names_of(by_term, permitted), bool(by_term.by_term)
            answer = literal_answer(literal, question.limit, UNRANKED if self._ranker is not None else "")
        if not found_any and (error := await self.reader.ask(self.refresher.check_held)) is not None:
            return error
        return replace(answer, neighbours=neighbours)

    def _remember(self, key: Key, answer: Resolution) -> Resolution:
        if not answer.is_temporary:
            self.memo.keep(key, answer)
        return answer

    # -- in the background -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Open the graph, fill it with the server's tools and keep it, until cancelled; then close within 2 s."""
        try:
            async with asyncio.TaskGroup() as group:
                self.memo.flights.group = group
                try:
                    await self.refresher.run()
                finally:
                    self.memo.flights.group = None
        finally:
            try:
                async with asyncio.timeout(self._close_s):
                    await self.graph.close()
            except Exception as error:  # a graph that hangs must not keep the server from stopping
                logger.warning("graph did not close cleanly: %r", error)

    async def filled(self, deadline: Deadline) -> None:
        """Wait for the first try to fill the graph, no longer than the deadline."""
        self.refresher.open_now()
        with suppress(TimeoutError):
            async with deadline.timeout():
                await self.refresher.first_try_done.wait()
