"""Records calls, lists and searches as events of the usage log; nothing is written on a request's way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from agent_utilities.catalog.model import Catalog
from agent_utilities.mcp.request import ToolCalled
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.usage.model import Call, Event, Listed, Search
from agent_utilities.visibility.decision import Decision

_N_SOURCES = 20_000
_N_TOKENS = 20_000
_N_DECISIONS = 64
"""The most lists, each another, that are counted before what they hold is recorded."""

ToolSource = tuple[str, str]
"""The upstream that a tool comes from, empty for a server's own, and its version, empty where it has none."""


@dataclass(slots=True)
class _Counted:
    """How often a list was made by a decision."""

    decision: Decision
    n: int = 1


class Recorder:
    """Makes events of what it is told.

    Args:
        server: the name that the log knows the server by.
        record: takes an event.
        source_of: tells where a tool of a catalog comes from.
        subject: returns whom a call counts for; empty where it counts for everybody.
        tokens_of: returns what the tool at a place of a catalog takes in a prompt; 0 where that is not known.
        keeps_words: whether the words that led to a call are kept.
    """

    def __init__(
        self,
        server: str,
        record: Callable[[Event], None],
        *,
        source_of: Callable[[Catalog, str], ToolSource],
        subject: Callable[[], str],
        tokens_of: Callable[[Catalog, int], int],
        keeps_words: bool,
    ) -> None:
        self._server = server
        self._record = record
        self._source_of, self._subject, self._tokens_of = source_of, subject, tokens_of
        self._keeps_words = keeps_words
        self._sources: dict[tuple[str, str], ToolSource] = {}
        self._tokens: LRUCache[bytes, int] = LRUCache(_N_TOKENS)
        self._lists: dict[int, _Counted] = {}
        self.is_full = asyncio.Event()
        """Set while no other list can be counted before those that were are recorded."""
        self.n_lists_lost = 0
        """How many lists were not counted, since too many different ones came at once."""

    def called(self, call: ToolCalled, session: str, n_turns: int, words: str) -> None:
        """Record a call of a tool that its caller may use; a name of anything else is nobody's to keep."""
        if call.name not in call.decision.permitted_names:
            return
        upstream, version = self._source(call.decision.catalog, call.name)
        words = words if self._keeps_words else ""
        made = (_now_ms(), self._server, call.name, upstream, version, session, n_turns)
        self._record(Call(*made, call.ok, 1000 * call.seconds, call.revision, self._subject(), words))

    def sought(self, words: str, n_found: int, session: str) -> None:
        """Record a search, and whether it found anything."""
        words = words if self._keeps_words else ""
        self._record(Search(_now_ms(), self._server, n_found, session, self._subject(), words))

    def listed(self, decision: Decision) -> None:
        """Count a list; the tools in it are recorded by `record_lists`, since there may be thousands."""
        counted = self._lists.get(id(decision))
        if counted is not None:
            counted.n += 1
        elif len(self._lists) < _N_DECISIONS:
            self._lists[id(decision)] = _Counted(decision)
        else:
            self.n_lists_lost += 1
        if len(self._lists) >= _N_DECISIONS:
            self.is_full.set()

    async def record_lists(self) -> None:
        """Record how often each tool was listed since the last time, in turns with the event loop (law L7)."""
        lists, self._lists = self._lists, {}
        self.is_full.clear()
        shown: dict[str, tuple[Catalog, int, int]] = {}
        for counted in lists.values():
            catalog = counted.decision.catalog
            async for i in in_turns(counted.decision.visible):
                name = catalog.entries[i].name
                shown[name] = catalog, i, counted.n + (shown[name][2] if name in shown else 0)
        now_ms = _now_ms()
        async for name, (catalog, i, n_lists) in in_turns(shown.items()):
            upstream, _ = self._source(catalog, name)
            self._record(Listed(now_ms, self._server, name, upstream, n_lists, self._n_tokens(catalog, i)))

    def _n_tokens(self, catalog: Catalog, i: int) -> int:
        stamp = catalog.entries[i].stamp
        n_tokens = self._tokens.get(stamp)
        if n_tokens is None:
            n_tokens = self._tokens[stamp] = self._tokens_of(catalog, i)
        return n_tokens

    def _source(self, catalog: Catalog, name: str) -> ToolSource:
        key = catalog.digest, name
        source = self._sources.get(key)
        if source is None:
            if len(self._sources) >= _N_SOURCES:
                self._sources.clear()  # asked for anew as they come: cheaper for each call than an order of use
            source = self._sources[key] = self._source_of(catalog, name)
        return source


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
