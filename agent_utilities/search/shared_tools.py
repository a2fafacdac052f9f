"""The tools that a router and its children share: passed in or listed by a client, and indexed for ranking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from agent_utilities.errors import InputError
from agent_utilities.policy.curation import Preferences
from agent_utilities.query.ranking.base import BY_WORDS, Index, Ranker, Ranking
from agent_utilities.query.ranking.open import open_ranker
from agent_utilities.runtime.waiting import in_daemon_thread, start_in_daemon_thread
from agent_utilities.search.router_tools import RoutedTools

logger = logging.getLogger("agent_utilities.router")


def open_better(ranker: str | Ranker) -> Ranker | None:
    """Return what ranks by more than words; None where words alone rank. No model is loaded yet."""
    if not isinstance(ranker, str):
        if not hasattr(ranker, "index"):
            hint = "give lexical, hybrid, embedding, a provider of embeddings, or what has a method index"
            raise InputError("not a ranker", ranker, "ToolRouter: ranker", hint)
        return ranker
    if ranker == "lexical":
        return None
    return open_ranker(ranker) if ranker in ("hybrid", "embedding") else open_ranker("hybrid", ranker)


class SharedTools:
    """Lists tools and indexes them; each listing replaces the last whole, so that a failed one changes nothing.

    Args:
        tools_or_client: tool definitions, or what has `list_tools` and `call_tool`, such as a `fastmcp.Client`.
        ranker: what ranks by more than words, or None.
    """

    def __init__(
        self, tools_or_client: Any, preferences: Preferences, host_tools: frozenset[str], ranker: Ranker | None
    ) -> None:
        self._routed = partial(RoutedTools, preferences=preferences, host_tools=host_tools)
        self.client: Any = None
        self._listed: RoutedTools | None = None
        if hasattr(tools_or_client, "list_tools") and hasattr(tools_or_client, "call_tool"):
            self.client = tools_or_client
        elif isinstance(tools_or_client, Iterable) and not isinstance(tools_or_client, (str, bytes)):
            self._listed = self._routed(tools_or_client)
        else:
            hint = "give tool definitions or a fastmcp.Client"
            raise InputError("neither tools nor a client", tools_or_client, "ToolRouter: tools_or_client", hint)
        self._lexical, self._better = open_ranker("lexical"), ranker
        # A router may outlive an event loop, to which a lock belongs.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self.is_stale = False
        """Whether the client heard that its tools changed: they are listed before they are searched the next time."""

    @property
    def listed(self) -> RoutedTools:
        """The tools as they were last listed; `InputError` where they have not been listed yet."""
        if self._listed is None:
            hint = "enter the router with async with, or await router.refresh() before"
            raise InputError("not listed yet", self.client, "ToolRouter: client", hint)
        return self._listed

    async def refresh(self) -> None:
        """List the tools anew where there is a client; where that raises, nothing changes."""
        async with self._one_at_a_time():
            await self._list()

    async def searchable(self) -> RoutedTools:
        """Return the tools with their indexes, after they were listed where that is due.

        A failed listing is logged where there was one before, which stays in use.
        """
        async with self._one_at_a_time():
            if self._listed is None or self.is_stale:
                try:
                    await self._list()
                except Exception:
                    if self._listed is None:
                        raise
                    logger.warning("can't list the tools that changed; those listed before are used", exc_info=True)
            tools = self.listed
            if tools.by_words is None:
                await in_daemon_thread(lambda: tools.about_deferred)  # it is remembered, and takes long for many tools
                tools.by_words = await in_daemon_thread(lambda: self._lexical.index(tools.documents))
                if self._better is not None:
                    tools.better = start_in_daemon_thread(partial(self._better.index, tools.documents))
            return tools

    def _one_at_a_time(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _list(self) -> None:
        if self.client is None:
            return
        # What is heard of while they are listed may not be in the list.
        self.is_stale = False
        try:
            tools = await self.client.list_tools()
            info = getattr(self.client, "server_info", None)
            listed = self._routed(tools, getattr(info, "name", None) or "")
        except BaseException:
            self.is_stale = True
            raise
        if self._listed is None or self._listed.definitions != listed.definitions:
            self._listed = listed


async def rank(tools: RoutedTools, query: str, permitted: Sequence[int] | None, limit: int) -> tuple[Ranking, str]:
    """Return a ranking of tools that are searchable, and why it is less than it could be; empty where it isn't."""

    async def rank_by(index: Index | None) -> Ranking:
        assert index is not None
        return await in_daemon_thread(partial(index.rank, query, permitted=permitted, limit=limit))

    if tools.better is not None and tools.better.done():
        try:
            ranking = await rank_by(tools.better.result())
            return ranking, BY_WORDS if ranking.cause else ""
        except Exception:
            logger.exception("can't rank by more than words")
    return await rank_by(tools.by_words), "" if tools.better is None else BY_WORDS
