"""A router's tools made ready to be ranked, off the event loop; by words at once, by more as soon as that is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Index, Ranker, Ranking
from agent_utilities.runtime.threads import in_daemon_thread, start_in_daemon_thread

logger = logging.getLogger("agent_utilities.router")

BY_WORDS = "ranked by words alone"
"""What is told where vectors were wanted and aren't there; the reason is in the log."""


class ToolIndex:
    """One catalog's index.

    Args:
        lexical: ranks by words.
        better: ranks by more than that, as soon as it is made; None where no more is wanted.
    """

    def __init__(self, lexical: Index, better: Future[Index] | None = None) -> None:
        self._lexical = lexical
        self._better = better

    @classmethod
    async def made(cls, documents: Sequence[ToolDocument], lexical: Ranker, better: Ranker | None) -> ToolIndex:
        """Return an index of documents once words rank them; what `better` makes of them is made behind."""
        by_words = await in_daemon_thread(partial(lexical.index, documents))
        if better is None:
            return cls(by_words)
        future = start_in_daemon_thread(partial(better.index, documents))
        future.add_done_callback(_log_failure)
        return cls(by_words, future)

    async def complete(self) -> None:
        """Wait until the index is as good as it gets."""
        if self._better is not None:
            await asyncio.wait([asyncio.wrap_future(self._better)])

    async def rank(self, query: str, permitted: Sequence[int] | None, limit: int) -> tuple[Ranking, str]:
        """Return a ranking, and why it is less than it could be; empty where it isn't.

        Args:
            query: the words.
            permitted: places in the catalog that may be ranked; None permits all.
            limit: the most to rank.
        """
        if self._better is not None and self._better.done() and self._better.exception() is None:
            try:
                ranking = await self._ranked(self._better.result(), query, permitted, limit)
            except Exception:
                logger.exception("can't rank by more than words")
            else:
                return ranking, BY_WORDS if ranking.cause else ""
        ranking = await self._ranked(self._lexical, query, permitted, limit)
        return ranking, BY_WORDS if self._better is not None else ""

    async def _ranked(self, index: Index, query: str, permitted: Sequence[int] | None, limit: int) -> Ranking:
        return await in_daemon_thread(partial(index.rank, query, permitted=permitted, limit=limit))


def _log_failure(made: Future[Index]) -> None:
    if (error := made.exception()) is not None:
        logger.warning("can't index the tools by more than words: %s", error)
    elif made.result().cause:
        logger.warning("tools are ranked by words alone: %s", made.result().cause)
