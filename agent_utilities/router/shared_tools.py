"""The tools that a router and its children share: given, or listed by a client, and made ready to be ranked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import InputError
from agent_utilities.ranking.base import Index, Ranker, Ranking
from agent_utilities.ranking.open import open_ranker
from agent_utilities.router.tools import KnownTools, known_tools
from agent_utilities.runtime.waiting import in_daemon_thread, start_in_daemon_thread

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
        """Return a ranking, and why it is less than it could be; empty where it isn't."""
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


class SharedTools:
    """Lists tools and indexes them; what it holds is replaced whole, so that a listing that fails changes nothing.

    Args:
        tools_or_client: tool definitions, or what has `list_tools` and `call_tool`, such as a `fastmcp.Client`.
        ranker: what ranks by more than words, or None.

    Raises:
        InputError: it is neither, or one of the definitions is no tool.
    """

    def __init__(self, tools_or_client: Any, ranker: Ranker | None) -> None:
        self.client: Any = None
        self._known: KnownTools | None = None
        if hasattr(tools_or_client, "list_tools") and hasattr(tools_or_client, "call_tool"):
            self.client = tools_or_client
        elif isinstance(tools_or_client, Iterable) and not isinstance(tools_or_client, (str, bytes)):
            self._known = known_tools(tools_or_client)
        else:
            hint = "give tool definitions or a fastmcp.Client"
            raise InputError("neither tools nor a client", tools_or_client, "ToolRouter: tools_or_client", hint)
        self._lexical, self._better = open_ranker("lexical"), ranker
        self._index: tuple[KnownTools, ToolIndex] | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._n_changes_heard = 0
        self._n_changes_listed = 0

    @property
    def is_stale(self) -> bool:
        """Whether the client heard that its tools changed, and they were not listed since."""
        return self._n_changes_heard != self._n_changes_listed

    @property
    def known(self) -> KnownTools:
        """The tools as they were last listed.

        Raises:
            InputError: they have not been listed yet.
        """
        if self._known is None:
            hint = "enter the router with async with, or await router.refresh() before"
            raise InputError("not listed yet", self.client, "ToolRouter: client", hint)
        return self._known

    def changed(self) -> None:
        """Take note that the client's tools changed: they are listed before they are searched the next time."""
        self._n_changes_heard += 1

    async def refresh(self) -> KnownTools:
        """Return the tools, listed anew where there is a client; what it raises is passed on, and changes nothing."""
        async with self._one_at_a_time():
            return await self._list()

    async def searchable(self) -> tuple[KnownTools, ToolIndex]:
        """Return the tools with their index, after they were listed where that is due.

        A listing that fails where there was one before is logged, and the one before is used on.
        """
        async with self._one_at_a_time():
            if self._known is None:
                await self._list()
            elif self.is_stale:
                try:
                    await self._list()
                except Exception:
                    logger.warning("can't list the tools that changed; those listed before are used", exc_info=True)
            known = self.known
            if self._index is None or self._index[0] is not known:
                self._index = known, await ToolIndex.made(known.documents, self._lexical, self._better)
            return self._index

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return the lock of whoever lists or indexes; an event loop has its own, and a router may outlive one."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _list(self) -> KnownTools:
        if self.client is None:
            return self.known
        # One that comes while they are listed may not be in the list.
        n_heard = self._n_changes_heard
        tools = await self.client.list_tools()
        info = getattr(self.client, "server_info", None)
        listed = known_tools(tools, getattr(info, "name", None) or "")
        if self._known is None or dict(self._known.definitions) != dict(listed.definitions):
            self._known = listed
        self._n_changes_listed = n_heard
        return self._known
