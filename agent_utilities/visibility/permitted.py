"""The tools that one caller may use: which of them may be deferred, and the steps by which these become visible."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from agent_utilities.activation.deferral import Active, Change, Deferral, bounded, load, n_to_attach, turn, within
from agent_utilities.visibility.curation import Preferences, pinned
from agent_utilities.visibility.decision import Decision


@dataclass(frozen=True, eq=False)
class Permitted:
    """The tools that are permitted to one caller, whatever is shown of them; each step returns what comes of a set.

    Args:
        decision: on what they were last listed; no preference is read of it.
        preferences: theirs.
        unlisted: permitted names that the author's middleware keeps off lists: search tells nothing of them either.
    """

    decision: Decision
    preferences: Preferences
    unlisted: frozenset[str] = frozenset()

    @property
    def deferral(self) -> Deferral:
        """When tools are deferred for them."""
        return self.preferences.deferral

    @property
    def defers(self) -> bool:
        """Whether they are, in every list."""
        return self.deferral.defers(self._n_told)

    @property
    def may_defer(self) -> bool:
        """Whether they are in any list: then entry tools answer on every request."""
        return self.deferral.may_defer(self._n_told)

    @property
    def _n_told(self) -> int:
        return len(self.decision.permitted) - len(self.unlisted)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that they may use and be told of."""
        names = self.decision.permitted_names
        return names - self.unlisted if self.unlisted else names

    @property
    def in_order(self) -> tuple[str, ...]:
        """The same names in the order of the alphabet."""
        names = self.decision.permitted_in_order
        return tuple(name for name in names if name not in self.unlisted) if self.unlisted else names

    @cached_property
    def pinned(self) -> tuple[str, ...]:
        """The names that are never deferred, as far as a list has room for them, in catalog order."""
        pins = pinned(self.decision.permitted, self.decision.catalog, self.preferences)
        return tuple(self.decision.catalog.entries[i].name for i in pins)

    @cached_property
    def not_pinned(self) -> frozenset[str]:
        """The names that may be deferred and active."""
        return self.names.difference(self.pinned) if self.pinned else self.names

    @cached_property
    def room(self) -> int:
        """The most names that may be active."""
        return self.deferral.room(len(self.pinned))

    def best(self, answering: Iterable[str], limit: int) -> list[str]:
        """Return the best of the names that answer a query and may be attached, in catalog order.

        So the same tools are the same bytes whatever they are ranked like.
        """
        best = frozenset([name for name in answering if name in self.not_pinned][:limit])
        entries = self.decision.catalog.entries
        return list(dict.fromkeys(entries[i].name for i in self.decision.permitted if entries[i].name in best))

    def bounded(self, active: Active) -> Active:
        """Return what of a set that somebody brought may be active: it may hold more than steps would make."""
        return bounded(within(active, self.not_pinned), self.deferral, self.room)

    def load(self, active: Active, names: Iterable[str]) -> Change:
        """Load those of some tools that may be active; see `deferral.load`."""
        wanted = [name for name in names if name in self.not_pinned]
        return load(within(active, self.not_pinned), wanted, self.deferral, self.room)

    def turn(self, active: Active, query: str, answering: Iterable[str], top_k: int | None = None) -> Change:
        """Attach the best of the tools that answer a turn's words, best first; see `deferral.turn`."""
        before = within(active, self.not_pinned)
        best = self.best(answering, n_to_attach(before, self.deferral, top_k))
        return turn(before, query, best, self.deferral, self.room)
