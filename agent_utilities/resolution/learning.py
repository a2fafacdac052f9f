"""What usage teaches, read behind everything, and brought to ranker, graph and prior; no request waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from cachetools import LRUCache

from agent_utilities.graph.sync import ToolEdge
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.resolution.prior import NO_PRIOR, Prior, tool_edges
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.usage.model import EVERYBODY, NOBODY, NOTHING_LEARNED, Learned, UsageSource

logger = logging.getLogger("agent_utilities.usage")

_N_SCOPES = 64
_OTHERS_S = 60.0
_REST = 20.0
"""How many times as long as a reading took nothing is read: a log of 200,000 calls takes a second of a processor."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a scope: the same in two forms.

    Args:
        learned: all of it.
        prior: how much tools were used.
        is_read: whether the log was read for it since the scope was first asked for, or asked for again.
    """

    learned: Learned = NOTHING_LEARNED
    prior: Prior = NO_PRIOR
    is_read: bool = True


_UNREAD = _Known(is_read=False)


class Learning:
    """Keeps what was learned in each scope: read when it is first asked for, and again when the log has grown.

    Args:
        source: of what is known.
        on_learned: called with a scope and what is known of it now, whenever that is news.
        gap_s: seconds between two readings at least; more after one that took long.
        others_s: seconds after which it is read again though nothing was logged here: other processes log too, and
            what was used long ago counts less.
    """

    def __init__(
        self,
        source: UsageSource,
        on_learned: Callable[[str, Learned], None],
        *,
        gap_s: float,
        others_s: float = _OTHERS_S,
    ) -> None:
        self._read, self._on_learned = source.read, on_learned
        self._gap_s, self._others_s = gap_s, others_s
        self._known: LRUCache[str, _Known] = LRUCache(_N_SCOPES)
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()
        self._has_failed = False
        self.n_readings = 0
        """How often the log was read."""
        self.settled = asyncio.Event()
        """Set while everything that is asked for was read, and the log has not grown here since."""
        self.settled.set()
        if source.is_shared:
            self.of(EVERYBODY)

    def of(self, scope: str) -> Learned:
        """Return what is known of a scope by now; nothing of one that is asked for for the first time."""
        return self._of(scope).learned

    def prior(self, scope: str) -> Prior | None:
        """Return how much tools were used in a scope, as far as is known by now; None where nothing was learned."""
        known = self._of(scope)
        return None if known.learned is NOTHING_LEARNED else known.prior

    def _of(self, scope: str) -> _Known:
        if scope == NOBODY:
            return _UNREAD
        known = self._known.get(scope)
        if known is None:
            self._known[scope] = known = _UNREAD
            self._want(scope)
        return known

    def news(self) -> None:
        """Have every scope that is known read again: the log has grown."""
        for scope in self._known:
            self._want(scope)

    def _want(self, scope: str) -> None:
        self._wanted.add(scope)
        self.settled.clear()
        self._wake.set()

    async def run(self) -> None:
        """Read what is wanted until cancelled, a scope after the other."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._others_s):
                    await self._wake.wait()
            self._wake.clear()
            wanted, self._wanted = self._wanted or set(self._known), set()
            started_s = time.monotonic()
            for scope in sorted(wanted):
                await self._learn(scope)
            if not self._wanted:
                self.settled.set()
            await asyncio.sleep(max(self._gap_s, _REST * (time.monotonic() - started_s)))

    def _read_with_prior(self, scope: str) -> _Known:
        learned = self._read(scope)
        return _Known(learned, Prior(learned.uses)) if learned.version else _Known()

    async def _learn(self, scope: str) -> None:
        try:
            now = await in_daemon_thread(partial(self._read_with_prior, scope))
        except Exception as error:
            if not self._has_failed:
                logger.warning("can't read the usage log (%s); what was learned before is used on", error)
            self._has_failed = True
            return
        self._has_failed = False
        self.n_readings += 1
        before = self._known.get(scope)
        if before is None:
            return  # others have asked since, and it was given up
        self._known[scope] = now
        # Who is told may know it from before it was given up, and the log have been forgotten since.
        if not before.is_read or now.learned.version != before.learned.version:
            self._on_learned(scope, now.learned)

    @property
    def known(self) -> dict[str, Learned]:
        """What is known, by scope."""
        return {scope: known.learned for scope, known in self._known.items()}


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
