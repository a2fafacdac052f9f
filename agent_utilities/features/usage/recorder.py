"""Records calls, lists and searches as events of the usage log; nothing is written on a request's way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cachetools import LRUCache

from agent_utilities.catalog.model import Catalog
from agent_utilities.mcp.request import ToolCalled
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.usage.model import Call, Event, Listed, Search
from agent_utilities.visibility.decision import Decision

if TYPE_CHECKING:
    from agent_utilities.features.usage.feature import Usage

_N_TOKENS = 20_000
_N_DECISIONS = 1_000
"""The most lists, each another, that are counted before what they hold is recorded."""


class Recorder:
    """Makes events of what it is told.

    Args:
        usage: tells where a tool comes from, what it takes in a prompt, and whom a call counts for.
        record: takes an event.
        keeps_words: whether the words that led to a call are kept.
    """

    def __init__(self, usage: Usage, record: Callable[[Event], None], *, keeps_words: bool) -> None:
        self._usage, self._record, self._keeps_words = usage, record, keeps_words
        self._server = usage.host.name
        self._tokens: LRUCache[bytes, int] = LRUCache(_N_TOKENS)
        self._lists: dict[int, tuple[Decision, int]] = {}
        """Decisions that lists were made by, and how many, by the decision's identity."""

    def called(self, call: ToolCalled, session: str, n_turns: int, words: str) -> None:
        """Record a call of a tool that its caller may use; a name of anything else is nobody's to keep."""
        if call.name not in call.decision.permitted_names:
            return
        upstream, version = self._usage.source_of(call.decision.catalog, call.name)
        words = words if self._keeps_words else ""
        made = (_now_ms(), self._server, call.name, upstream, version, session, n_turns)
        self._record(Call(*made, call.ok, 1000 * call.seconds, call.revision, self._usage.subject(), words))

    def sought(self, words: str, n_found: int, session: str) -> None:
        """Record a search, and whether it found anything."""
        words = words if self._keeps_words else ""
        self._record(Search(_now_ms(), self._server, n_found, session, self._usage.subject(), words))

    def listed(self, decision: Decision) -> None:
        """Count a list; the tools in it are recorded by `record_lists`, since there may be thousands."""
        _, n = self._lists.get(id(decision), (decision, 0))
        if n or len(self._lists) < _N_DECISIONS:
            self._lists[id(decision)] = decision, n + 1

    async def record_lists(self) -> None:
        """Record how often each tool was listed since the last time, in turns with the event loop (law L7)."""
        lists, self._lists = self._lists, {}
        shown: dict[str, tuple[Catalog, int, int]] = {}
        for decision, n in lists.values():
            catalog = decision.catalog
            async for i in in_turns(decision.visible):
                name = catalog.entries[i].name
                shown[name] = catalog, i, n + (shown[name][2] if name in shown else 0)
        now_ms = _now_ms()
        async for name, (catalog, i, n_lists) in in_turns(shown.items()):
            upstream, _ = self._usage.source_of(catalog, name)
            self._record(Listed(now_ms, self._server, name, upstream, n_lists, self._n_tokens(catalog, i)))

    def _n_tokens(self, catalog: Catalog, i: int) -> int:
        stamp = catalog.entries[i].stamp
        n_tokens = self._tokens.get(stamp)
        if n_tokens is None:
            n_tokens = self._tokens[stamp] = self._usage.tokens_of(catalog, i)
        return n_tokens


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
