"""Preferences: what only narrows what is shown. No bound ever reads them (law L5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from sys import getsizeof

from agent_utilities.activation.active import NOTHING_ACTIVE, Active
from agent_utilities.activation.deferral import NO_DEFERRAL, OFF, Deferral, Threshold
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NO_NAMES, NameSet
from agent_utilities.selection.resolution import UNRESOLVED, Resolution

QUERY_TOP_K = 15
"""The most tools that a query shows where nobody says how many."""


@dataclass(frozen=True)
class Preferences:
    """What a list should show of what is permitted; `Preferences()` shows all of it.

    Args:
        query: the user's words, or None where nothing is asked.
        resolution: the answer to them.
        top_k: the most tools that answer the query, or without one the most tools; None where nobody says.
        pins: tools that are always visible where they are permitted.
        active: deferred tools that were made visible.
        deferral: when only pins and active tools are shown, and what answers the query; the rest stays callable.
        n_attached: where tools are deferred, the most to show of those that answer the query and are not active yet.
        called_for: the capability that the words call for; its tools are shown beside what answers them.
    """

    query: str | None = None
    resolution: Resolution = UNRESOLVED
    top_k: int | None = None
    pins: NameSet = NO_NAMES
    active: Active = NOTHING_ACTIVE
    deferral: Deferral = NO_DEFERRAL
    n_attached: int = 0
    called_for: str | None = None

    @cached_property
    def _hash(self) -> int:
        asked = (self.query, self.resolution, self.top_k)
        return hash((asked, self.pins, self.active, self.deferral, self.n_attached, self.called_for))

    def __hash__(self) -> int:
        """Return a hash that is made once: every list looks its decision up by it."""
        return self._hash

    @property
    def n_bytes(self) -> int:
        """About how many bytes it takes."""
        n_names = len(self.active.names) + len(self.active.loaded)
        return 300 + 2 * getsizeof(self.query or "") + 250 * len(self.resolution.tools) + 80 * n_names

    @property
    def most_shown(self) -> int | None:
        """The most tools to show for the query, 15 where nobody says; None for all."""
        return QUERY_TOP_K if self.top_k is None and self.query is not None else self.top_k

    @cached_property
    def unanswered(self) -> Preferences:
        """The same without the query's words and the answer to them: equal for every query."""
        if self.query is None and self.resolution == UNRESOLVED and not self.n_attached and self.called_for is None:
            return self
        query = None if self.query is None else ""
        return replace(self, query=query, resolution=UNRESOLVED, n_attached=0, called_for=None)

    @cached_property
    def undeferred(self) -> Preferences:
        """The same where nothing is deferred."""
        if self.deferral == NO_DEFERRAL:
            return self
        return replace(self, active=NOTHING_ACTIVE, deferral=NO_DEFERRAL, n_attached=0)


NO_PREFERENCES = Preferences()
"""Shows everything permitted."""


def preferences_of(
    effective: Effective,
    resolution: Resolution = UNRESOLVED,
    pins: NameSet = NO_NAMES,
    *,
    by_default: Threshold = OFF,
    can_search: bool = True,
    unanswered: Threshold = OFF,
) -> Preferences:
    """Return the preferences among the settings that hold.

    Args:
        effective: the settings.
        resolution: the answer to their query; `off` before it is asked.
        pins: tools that the operator pinned otherwise.
        by_default: when tools are deferred where nobody says.
        can_search: whether the caller may use `tool_search`, without which nothing is deferred.
        unanswered: where nothing else is said, when tools are deferred in lists that show everything for want of an
            answer.
    """
    values = effective.search_values
    if by_default == OFF and isinstance(most := values.get("max_tools"), int):
        by_default = Threshold(most)  # who says how long a list may be has the rest deferred
    only_unanswered = "tool_search" not in values and by_default == OFF
    threshold = unanswered if only_unanswered else values.get("tool_search", by_default)
    deferral = NO_DEFERRAL
    active = NOTHING_ACTIVE
    if can_search and isinstance(threshold, Threshold) and threshold.over is not None:
        numbers = {name: value for name, value in values.items() if isinstance(value, int)}
        deferral = Deferral(threshold.over, only_unanswered=only_unanswered, **numbers)
        active = value if isinstance(value := values.get("active"), Active) else active
        pins |= effective.pinned
    return Preferences(effective.query_text, resolution, effective.top_k_value, pins, active, deferral)
