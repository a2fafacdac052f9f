"""A gateway's first lists ever: for some seconds after the start they wait for servers that were never seen.

Many hosts list once and never again. A server that fails, or comes late, is remembered and not waited for at later
starts: it comes as every other change does, by `list_changed`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from agent_utilities.features.upstreams.provider import UpstreamProvider
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.upstream.snapshot_store import SnapshotStore
from agent_utilities.upstream.supervision.supervisor import Upstream

logger = logging.getLogger("agent_utilities.gateway")


def is_unseen(upstream: Upstream) -> bool:
    """Whether it is not known what an upstream lists."""
    return upstream.config.enabled and upstream.snapshot is None


class FirstLists:
    """Waits for upstreams that were never seen, all at once, until they have listed or failed, or the time is over.

    Args:
        upstreams: the gateway's.
        provider: lists what they have.
        store: remembers which came late.
    """

    def __init__(self, upstreams: Iterable[Upstream], provider: UpstreamProvider, store: SnapshotStore) -> None:
        self._upstreams, self._provider, self._store = upstreams, provider, store
        self._late = {each.config.digest for each in upstreams if is_unseen(each) and store.is_late(each.config)}
        self._ends_s = 0.0
        self._started: asyncio.Event | None = None
        self.are_told = asyncio.Event()
        """Set once each has come, or is remembered as one that did not."""

    @property
    def are_open(self) -> bool:
        """Whether any list may wait still."""
        return self._started is not None and asyncio.get_running_loop().time() < self._ends_s

    async def run(self, started: asyncio.Event, ends_s: float) -> None:
        """Have lists wait from now on, tell how far the upstreams are, and remember those that fail or come late.

        Args:
            started: set once the upstreams are supervised.
            ends_s: the event loop's time from which nothing waits.
        """
        self._started, self._ends_s = started, ends_s
        if not self.are_open or not (waited_for := self._unseen()):
            return
        limit_s = ends_s - asyncio.get_running_loop().time()
        names = ", ".join(each.config.name for each in waited_for)
        logger.info("first lists wait for what was never seen, %.1f s at most: %s", limit_s, names)
        await started.wait()
        await asyncio.gather(*map(self._follow, waited_for))
        self.are_told.set()

    async def _follow(self, upstream: Upstream) -> None:
        """Say that an upstream has come; remember it where it fails, or not in time."""
        await self._tried([upstream])
        name, snapshot = upstream.config.name, upstream.snapshot
        if snapshot is not None:
            logger.info("first lists: %s has come, %d tools", name, len(snapshot.tools))
            return
        if upstream not in self._upstreams:  # it was configured away, or anew, meanwhile
            return
        logger.warning(
            "first lists do without %s from now on: it is listed when it comes, and not waited for again", name
        )
        await in_daemon_thread(partial(self._store.note_late, upstream.config))

    def _unseen(self) -> Sequence[Upstream]:
        return [each for each in self._upstreams if is_unseen(each) and each.config.digest not in self._late]

    async def wait(self, is_wanted: Callable[[Upstream], bool]) -> None:
        """Return once the upstreams that are wanted and were never seen have listed or failed, or the time is over.

        Args:
            is_wanted: whether what an upstream has matters to the request, and its caller may learn of it (law L1).
        """
        wanted = [each for each in self._unseen() if is_wanted(each)]
        if wanted and self._started is not None and self.are_open:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._ends_s):
                    await self._started.wait()
                    await self._tried(wanted)
                    await self._provider.taken()

    async def _tried(self, upstreams: Sequence[Upstream]) -> None:
        """Return once each of some upstreams has listed or failed, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ends_s):
                await asyncio.gather(*(each.was_tried.wait() for each in upstreams))
