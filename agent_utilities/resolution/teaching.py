"""Brings what usage teaches to those who answer: past requests to the ranker, edges to the graph, uses to the prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent_utilities.graph.edges import ToolEdge
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.resolution.learning import EVERYBODY, Learning, UsageSource
from agent_utilities.resolution.neighbours import tool_edges
from agent_utilities.resolution.prior import Prior
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.usage.learned import NOTHING_LEARNED, Learned


class Teaching:
    """What one server learns of its usage.

    Args:
        source: of what is known.
        ranker: is taught past requests; None where nothing ranks.
        on_edges: called when other edges are known than before.
        gap_s: seconds between two readings of the log at least.
    """

    def __init__(
        self, source: UsageSource, ranker: CatalogRanker | None, on_edges: Callable[[], None], gap_s: float
    ) -> None:
        self._ranker = ranker
        self._on_edges = on_edges
        self.learning = Learning(source, self._on_learned, gap_s=gap_s)

    def prior(self, scope: str) -> Prior | None:
        """Return how much tools were used in a scope; None where nothing was learned."""
        learned = self.learning.of(scope)
        if self._ranker is not None and learned.past_requests and not self._ranker.learned_version(scope):
            self._teach(self._ranker, scope, learned)  # it was given up for others
        return self.learning.prior(scope)

    async def edges(self) -> Sequence[ToolEdge]:
        """Return which tools go together in every scope that is known."""
        known = self.learning.known
        return await in_daemon_thread(lambda: [edge for scope in known for edge in tool_edges(known[scope], scope)])

    async def settle(self) -> None:
        """Wait until the ranker knows all that was logged by now; only while server and ranker run."""
        self.learning.news()
        await self.learning.settled.wait()
        if self._ranker is not None:
            await self._ranker.wait_until_learned()

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells: what is known of everybody's usage, and whether that is all logged here."""
        known = self.learning.known
        learned = known.get(EVERYBODY, NOTHING_LEARNED)
        n_requests = sum(map(len, learned.past_requests.values()))
        is_settled = self.learning.settled.is_set() and (self._ranker is None or self._ranker.has_learned)
        return {"scopes": len(known), "tools": len(learned.uses), "requests": n_requests, "settled": is_settled}

    def _on_learned(self, scope: str, learned: Learned) -> None:
        if self._ranker is not None:
            self._teach(self._ranker, scope, learned)
        self._on_edges()

    @staticmethod
    def _teach(ranker: CatalogRanker, scope: str, learned: Learned) -> None:
        ranker.learn(scope, learned.version, learned.past_requests)
