"""What usage teaches, read behind everything, and brought to ranker, graph and prior; no request waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from cachetools import LRUCache

from agent_utilities.graph.sync import ToolEdge
from agent_utilities.resolution.learned_indexes import LearnedIndexes
from agent_utilities.resolution.prior import NO_PRIOR, Prior, tool_edges
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.usage.model import EVERYBODY, NOBODY, NOTHING_LEARNED, Learned, UsageSource

logger = logging.getLogger("agent_utilities.usage")

_N_SCOPES = 64
_OTHERS_S = 60.0
_REST = 20.0
"""How many times as long as a reading took nothing is read: a log of 200,000 calls takes a second of a processor."""

_Known = tuple[Learned, Prior]
"""What is known of a scope, in two forms."""
_UNREAD: _Known = (NOTHING_LEARNED, NO_PRIOR)


class Teaching:
    """What one server learns of its usage: in each scope when it is first asked for, and when the log has grown.

    Args:
        source: reads the log.
        indexes: learn past requests; None where nothing ranks.
        on_edges: called when other edges may be known than before.
        gap_s: seconds between two readings of the log at least.
    """

    def __init__(
        self, source: UsageSource, indexes: LearnedIndexes | None, on_edges: Callable[[], None], gap_s: float
    ) -> None:
        self._read, self._indexes, self._on_edges, self._gap_s = source.read, indexes, on_edges, gap_s
        self._known: LRUCache[str, _Known] = LRUCache(_N_SCOPES)
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()
        self._has_failed = False
        self.n_readings = 0
        """How often the log was read."""
        self.settled = asyncio.Event()
        """Set while everything that is asked for was read, and the log has not grown here since."""
        self.settled.set()
        if indexes is not None:
            indexes.source = self.of
        if source.is_shared:
            self.of(EVERYBODY)

    def of(self, scope: str) -> Learned:
        """Return what is known of a scope by now; nothing of one that is asked for for the first time."""
        return self._of(scope)[0]

    def prior(self, scope: str) -> Prior | None:
        """Return how much tools were used in a scope, as far as is known by now; None where nothing was learned."""
        learned, prior = self._of(scope)
        return None if learned is NOTHING_LEARNED else prior

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

    async def edges(self) -> Sequence[ToolEdge]:
        """Return which tools go together in every scope that is known."""
        known = {scope: learned for scope, (learned, _) in self._known.items()}
        return await in_daemon_thread(lambda: [edge for scope in known for edge in tool_edges(known[scope], scope)])

    async def run(self) -> None:
        """Read what is wanted until cancelled, a scope after the other."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OTHERS_S):
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
        return (learned, Prior(learned.uses)) if learned.version else _UNREAD

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
        if now[0].version != before[0].version:
            if self._indexes is not None:
                self._indexes.changed(scope)
            self._on_edges()

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells: what is known of everybody's usage, and whether that is all logged here."""
        learned = self._known.get(EVERYBODY, _UNREAD)[0]
        n_requests = sum(map(len, learned.past_requests.values()))
        is_settled = self.settled.is_set() and (self._indexes is None or self._indexes.idle.is_set())
        return {"scopes": len(self._known), "tools": len(learned.uses), "requests": n_requests, "settled": is_settled}
