"""`DynamicToolOrchestrator`: answers queries from a cache, and keeps the graph out of everybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Literal, TypeVar

from agent_utilities.query.graph.base import GraphError, ToolGraph
from agent_utilities.query.graph.matching import Matches, match_literally, match_terms, names_of, normalise
from agent_utilities.query.resolution.answer import (
    GRAPH_SHARE,
    LEAST_RANKING_S,
    NO_TRAIL,
    RANKING_SHARE,
    UNRANKED,
    CallerScope,
    Limits,
    Question,
    Ranked,
    Trail,
)
from agent_utilities.query.resolution.catalog_ranker import CatalogRanker, combined_answer
from agent_utilities.query.resolution.graph_keeper import GraphKeeper, Introspect
from agent_utilities.query.resolution.prior import Prior, shares_off_loop, with_prior
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import Deadline, NotRunningError, SingleFlight
from agent_utilities.selection.model import UNRESOLVED, Resolution

_T = TypeVar("_T")


def key_of(*parts: object) -> bytes:
    """Return what something remembered is found by: equal for equal parts, and of no length that a caller chooses."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=20).digest()


def _key(question: Question, kind: Literal["answer", "ranking", "search", "words"]) -> bytes:
    """Return what an answer, a ranking without the graph, or a search is found by: equal for who asks the same.

    Capitals and quotes tell names from words in a search.
    """
    version = f"{question.edition}/{question.ranker_version}" if kind == "answer" else question.ranker_version
    scope_digest = question.scope.digest if question.scope is not None else ""
    text = question.query if kind == "search" else question.text
    return key_of(kind, text, version, scope_digest, question.limit, question.trail)


class Memo:
    """What was found for queries: found once for all who ask the same, and remembered as long as there is room.

    Who finds something keeps it, where it is worth that: what comes after its deadline serves the next who asks.
    """

    def __init__(self, max_bytes: int) -> None:
        self._kept: BoundedCache[bytes, Any] = BoundedCache(max_bytes, _weigh)
        self.get, self.keep = self._kept.get, self._kept.keep
        self.flights: SingleFlight[bytes, Any] = SingleFlight()

    async def find(self, key: bytes, find: Callable[[], Coroutine[Any, Any, _T]], deadline: Deadline | None) -> _T:
        """Return what is remembered, or what is found now.

        Raises:
            TimeoutError: the deadline passed; it is sought on.
            NotRunningError: nothing runs, or it is being stopped.
        """
        found: _T | None = self._kept.get(key)
        return found if found is not None else await self.flights.join(key, find, deadline)


def _weigh(key: bytes, found: Any) -> int:
    """Return about how many bytes something takes with its key; names in matches are shared with other matches."""
    n_bytes = 800
    match found:
        case Resolution():
            n_bytes += 250 * len(found.tools) + 150 * len(found.neighbours)
        case Matches():
            n_bytes += 8 * found.n_names + 60 * found.n_neighbours
    return n_bytes


class DynamicToolOrchestrator:
    """Resolves queries on one server's tools, without an LLM (laws L5, L7).

    A query seen before is answered from memory. Another is asked of graph and ranker once, however many callers wait,
    and each caller waits for them no longer than the deadline; past it words alone answer (`ranked`). Tools that bear
    the query literally come first; then those that the ranker claims, or, while it can't rank, those that bear the
    query's words apart. The graph is opened, filled and refreshed by `run`, in the background; until it is filled, and
    whenever it fails, the ranker alone answers (`ranked`), and where it can't either the answer is `unavailable`, which
    shows everything permitted.

    Args:
        introspect: returns the server's live tools; never a command that the graph holds.
        deadline_s: seconds that `resolve` waits at most where it is given no deadline.
        prior: returns how much tools were used in a usage scope, where that is known; None where nothing is learned.
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
        prior: Callable[[str], Prior | None] | None = None,
        **kept: Any,
    ) -> None:
        self.graph, self._server = graph, server
        self._deadline_s = deadline_s
        self._ranker, self._prior = ranker, prior
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
        """Return the answer to a query on the server's tools; never fails, waits past the deadline for words alone."""
        if not (text := normalise(query)):
            return UNRESOLVED
        state, edition = self.keeper.state, self.keeper.edition(with_edges=bool(trail.near))
        version = self._ranker.version_for(trail.scope) if self._ranker is not None else ""
        question = Question(query, text, scope, limit, trail, edition, version)
        if state is None:
            self.keeper.open_now()
        until = deadline or Deadline.after(self._deadline_s)
        prior = self._prior(trail.scope) if self._prior is not None and scope is not None else None
        answer = await self._found(_key(question, "answer"), lambda: self._ask(question, until), until)
        if answer.status == "unavailable" and version:
            answer = await self._by_words(question, answer.cause)
        if state is not None:
            # Whoever waited may find that a refresh is over by now, and starts no other.
            self.keeper.refresh_if_stale()
            if answer.status == "fresh" and self.keeper.is_stale(state):
                answer = replace(answer, status="stale")
        return answer if prior is None or scope is None else with_prior(answer, prior, scope.names(), limit)

    async def search(
        self, query: str, scope: CallerScope, limit: int, deadline: Deadline, usage_scope: str = ""
    ) -> Resolution:
        """Return the best tools in scope for a query, claimed or not; never fails, never waits past the deadline."""
        ranker = self._ranker
        if ranker is None or not ranker.version:
            return Resolution("unavailable", cause="no ranker" if ranker is None else "no index yet")
        version = ranker.version_for(usage_scope)
        question = Question(query, normalise(query), scope, limit, Trail(usage_scope), ranker_version=version)
        key = _key(question, "search")

        async def find() -> Resolution:
            answer = await ranker.search(question, deadline)
            return Resolution("unavailable", cause=UNRANKED) if answer is None else self._remember(key, answer)

        prior = self._prior(usage_scope) if self._prior is not None else None
        found = await self._found(key, find, deadline)
        # Who searches by words is given nothing that they do not find: there is no room to fill.
        return found if prior is None else with_prior(found, prior, scope.names(), len(found.tools))

    async def _found(
        self, key: bytes, find: Callable[[], Coroutine[Any, Any, Resolution]], deadline: Deadline | None
    ) -> Resolution:
        """Return an answer that is found once for all who ask the same; wait for it no longer than a deadline."""

        async def find_safely() -> Resolution:
            try:
                return await find()
            except Exception as failure:  # a flight that raised would end the whole task group
                return Resolution("unavailable", cause=self.keeper.failed(GraphError("failed", repr(failure))).cause)

        if self.memo.flights.group is None:
            return Resolution("unavailable", cause="being filled")
        try:
            return await self.memo.find(key, find_safely, deadline)
        except TimeoutError:
            return Resolution("unavailable", cause="too slow")
        except NotRunningError:
            return Resolution("unavailable", cause="failed")

    async def _by_words(self, question: Question, cause: str) -> Resolution:
        """Return the answer by words alone, however late it is, where a better one did not come in time."""

        async def find() -> Resolution:
            ranked = None if self._ranker is None else await self._ranker.rank(question, None)
            return Resolution("unavailable", cause=cause) if ranked is None else ranked(())

        answer = await self._found(_key(question, "words"), find, None)
        if answer.status == "unavailable":
            return answer
        causes = ", ".join(filter(None, (cause, answer.cause)))
        return replace(answer, status="ranked" if answer.tools else "no_match", cause=causes)

    async def _ask(self, question: Question, deadline: Deadline) -> Resolution:
        """Ask graph and ranker, and remember the answer; without the graph, that of the ranker alone.

        Past the deadline nobody waits for it, but the graph's part of it is still remembered.
        """
        by_ranker: Resolution | None = self.memo.get(_key(question, "ranking"))
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
            return self._remember(_key(question, "answer"), answer)
        if by_ranker is None and ranked is not None:
            by_ranker = self._remember(_key(question, "ranking"), ranked(()))
        if by_ranker is None:
            return Resolution("unavailable", cause=answer.cause)
        causes = ", ".join(filter(None, (f"graph {answer.cause}", by_ranker.cause)))
        return replace(by_ranker, status="ranked" if by_ranker.tools else "no_match", cause=causes)

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
            cause = UNRANKED if self._ranker is not None else ""
            answer = replace(combined_answer(question, literal), cause=cause, is_temporary=bool(cause))
        if not found_any and (error := await self.keeper.ask(self.keeper.check_held)) is not None:
            return error
        return replace(answer, neighbours=neighbours)

    def _remember(self, key: bytes, answer: Resolution) -> Resolution:
        if not answer.is_temporary:
            self.memo.keep(key, answer)
        return answer
