"""Preferences: what only narrows what is shown. No bound ever reads them (law L5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from sys import getsizeof

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
        active: names of deferred tools that were made visible, in the order they came.
        defers: whether only pins, what answers the query, and active tools are shown; the rest stays callable.
    """

    query: str | None = None
    resolution: Resolution = UNRESOLVED
    top_k: int | None = None
    pins: NameSet = NO_NAMES
    active: tuple[str, ...] = ()
    defers: bool = False

    @cached_property
    def _hash(self) -> int:
        return hash((self.query, self.resolution, self.top_k, self.pins, self.active, self.defers))

    def __hash__(self) -> int:
        """Return a hash that is made once: every list looks its decision up by it."""
        return self._hash

    @property
    def n_bytes(self) -> int:
        """About how many bytes it takes."""
        return 300 + 2 * getsizeof(self.query or "") + 250 * len(self.resolution.tools)

    @property
    def most_shown(self) -> int | None:
        """The most tools to show for the query, 15 where nobody says; None for all."""
        return QUERY_TOP_K if self.top_k is None and self.query is not None else self.top_k

    @cached_property
    def unanswered(self) -> Preferences:
        """The same without the query's words and the answer to them: equal for every query."""
        if self.query is None and self.resolution == UNRESOLVED:
            return self
        return replace(self, query=None if self.query is None else "", resolution=UNRESOLVED)


NO_PREFERENCES = Preferences()
"""Shows everything permitted."""


def preferences_of(effective: Effective, resolution: Resolution = UNRESOLVED, pins: NameSet = NO_NAMES) -> Preferences:
    """Return the preferences among the settings that hold.

    Args:
        effective: the settings.
        resolution: the answer to their query; `off` before it is asked.
        pins: tools that the operator pinned.
    """
    return Preferences(effective.query_text, resolution, effective.top_k_value, pins)
