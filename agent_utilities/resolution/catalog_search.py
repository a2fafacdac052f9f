"""Finding tools by words: the best that a caller may use, whether or not a ranker would say that they answer."""

from __future__ import annotations

from dataclasses import dataclass
from sys import getsizeof

from agent_utilities.resolution.answer import UNRANKED, Question, unavailable
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.runtime.bounded_cache import BoundedCache
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.runtime.single_flight import NotRunningError, SingleFlight
from agent_utilities.selection.resolution import Resolution


@dataclass(frozen=True, slots=True)
class SearchKey:
    """What the answer to one search depends on; equal for callers who may be given the same.

    Args:
        query: the words as they came: capitals and quotes tell names from words.
        scope_digest: of the tools that the caller may use.
        index_version: what is searched, and whose past requests count.
        limit: the most to name.
    """

    query: str
    scope_digest: str
    index_version: str
    limit: int

    def weigh(self, answer: Resolution) -> int:
        """Return about how many bytes an answer takes, with what it is an answer to."""
        return 800 + getsizeof(self.query) + getsizeof(self.scope_digest) + 250 * len(answer.tools)


class CatalogSearch:
    """Searches a server's tools; what was found is remembered while the index is the same.

    A list shows what answers a query, and everything where nothing does; whoever searches wants the best there is.

    Args:
        ranker: holds the index; lists read the same one.
        cache_bytes: what the answers remembered may take together.
    """

    def __init__(self, ranker: CatalogRanker, cache_bytes: int) -> None:
        self._ranker = ranker
        self._answers: BoundedCache[SearchKey, Resolution] = BoundedCache(cache_bytes, SearchKey.weigh)
        self.flights: SingleFlight[SearchKey, Resolution] = SingleFlight()
        """What is being searched, once for all who wait for the same."""

    async def find(self, question: Question, limit: int, deadline: Deadline) -> Resolution:
        """Return the best tools in scope, best first; never fails, never waits past the deadline.

        Args:
            question: what is asked.
            limit: the most to name.
            deadline: until when to wait.
        """
        if not self._ranker.version:
            return unavailable("no index yet")
        scope_digest = question.scope.digest if question.scope is not None else ""
        key = SearchKey(question.query, scope_digest, self._ranker.version_for(question.trail.scope), limit)
        if (answer := self._answers.get(key)) is not None:
            return answer
        try:
            return await self.flights.join(key, lambda: self._search(key, question, deadline), deadline)
        except TimeoutError:
            return unavailable("too slow")
        except NotRunningError:
            return unavailable("failed")

    async def _search(self, key: SearchKey, question: Question, deadline: Deadline) -> Resolution:
        answer = await self._ranker.search(question, key.limit, deadline)
        if answer is None:
            return unavailable(UNRANKED)
        if not answer.is_temporary:
            self._answers.keep(key, answer)
        return answer
