"""The decision: which components of a catalog a selection permits, shows and defers, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from agent_utilities.catalog.model import Catalog, Entry
from agent_utilities.policy.bounds import Bounds, Refusals, Steps, finish, unknown_in
from agent_utilities.policy.curation import NO_PREFERENCES, Preferences, active_after, curate, pinned, status_of
from agent_utilities.policy.deferral import Change, Deferral, bounded, load, n_to_attach, turn, within
from agent_utilities.selection.active import Active
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import Side, Status


@dataclass(frozen=True, eq=False)
class Decision:
    """What one selection permits and shows of one catalog.

    Args:
        refusals: for each entry in catalog order, the rule that refuses it, or None where it is permitted.
        permitted: indexes of the permitted entries, in catalog order.
        visible: indexes of the visible ones: a subset in catalog order, then the active set (laws L1, L6).
        status: how the query was answered; `no_match` where the answer names nothing permitted.
        plain: the decision under the same bounds without preferences, which shares what it computes of the permitted.
    """

    catalog: Catalog
    effective: Effective
    preferences: Preferences
    refusals: Refusals
    permitted: tuple[int, ...]
    visible: tuple[int, ...]
    status: Status
    plain: Decision | None = None

    @cached_property
    def shows_all(self) -> bool:
        """Whether the whole catalog is visible, in catalog order."""
        return len(self.visible) == len(self.catalog) and self.visible == tuple(range(len(self.catalog)))

    @property
    def defers(self) -> bool:
        """Whether tools are deferred: only pins, active tools and those that answer the query are visible."""
        return self.preferences.defers(len(self.permitted), self.status)

    @cached_property
    def active(self) -> Active:
        """The active set after this list, where tools are deferred; callers may send it back."""
        return active_after(self.permitted, self.catalog, self.preferences)

    @cached_property
    def permitted_names(self) -> frozenset[str]:
        if self.plain is not None:
            return self.plain.permitted_names
        return frozenset(self.catalog.entries[i].name for i in self.permitted)

    @cached_property
    def permitted_in_order(self) -> tuple[str, ...]:
        """The permitted names in alphabetical order."""
        return tuple(sorted(self.permitted_names)) if self.plain is None else self.plain.permitted_in_order

    @cached_property
    def visible_names(self) -> frozenset[str]:
        return frozenset(self.catalog.entries[i].name for i in self.visible)

    @cached_property
    def permitted_places(self) -> frozenset[int]:
        """The indexes in `permitted`, to look one up."""
        if self.plain is not None:
            return self.plain.permitted_places
        return frozenset(self.permitted)

    @cached_property
    def visible_places(self) -> frozenset[int]:
        """The indexes in `visible`, to look one up."""
        return frozenset(self.visible)

    @cached_property
    def permitted_digest(self) -> str:
        """A hash of the permitted entries in order, 32 hex digits; denied ones leave no trace in it."""
        return self._digest(self.permitted) if self.plain is None else self.plain.permitted_digest

    @cached_property
    def learnt_digest(self) -> str:
        """A hash of what lists show a caller: the permitted entries, and which of them preferences show.

        The answer to the query is left out: it depends on graph and ranker, whose state replicas do not share.
        """
        shown = self.visible
        if self.preferences != (before := self.preferences.unanswered):
            shown = curate(self.permitted, self.catalog, before, before.resolution.status)
        return self.permitted_digest + ("" if shown == self.permitted else self._digest(shown))

    def _digest(self, indexes: tuple[int, ...]) -> str:
        stamps = b"".join(self.catalog.entries[i].stamp for i in indexes)
        return blake2b(stamps, digest_size=16).hexdigest()

    def refused_by(self, side: Side) -> tuple[int, ...]:
        """Return the indexes of the entries that a side's bounds refuse; the operator's where both do."""
        return tuple(i for i, rule in enumerate(self.refusals) if rule is not None and rule.setting.side == side)

    @cached_property
    def open_entries(self) -> tuple[Entry, ...]:
        """The entries that the operator permits: all that a caller may learn of."""
        hidden = frozenset(self.refused_by("operator"))
        return tuple(entry for i, entry in enumerate(self.catalog.entries) if i not in hidden)

    @cached_property
    def unknown(self) -> dict[str, str | None]:
        """Names in the caller's selection that match nothing, each with the nearest that would, or None.

        Only `open_entries` count: a name that the operator denies reads the same as one that never existed (law L1).
        At most `MAX_UNKNOWN` names, in alphabetical order.
        """
        return finish(self.finding_unknown())

    def finding_unknown(self) -> Steps[dict[str, str | None]]:
        """Return `unknown`, computed in steps where it is not cached: there may be many names, globs and tools."""
        if not any(setting.side == "caller" for settings in self.effective.lists for setting in settings):
            return {}
        if "unknown" not in vars(self):
            vars(self)["unknown"] = yield from unknown_in(self.effective, "caller", self.open_entries)
        unknown: dict[str, str | None] = vars(self)["unknown"]
        return unknown


def decide(
    catalog: Catalog,
    effective: Effective,
    preferences: Preferences = NO_PREFERENCES,
    refusals: Refusals | None = None,
    plain: Decision | None = None,
) -> Decision:
    """Decide which components of a catalog a selection permits, and which of those it shows.

    Synchronous, total, free of I/O and clocks: the same inputs give the same bytes (law L6). Bounds alone decide what
    is permitted; preferences only choose what is visible of it.

    Args:
        effective: the settings whose bounds hold; its own preferences are not read.
        preferences: what to show of the permitted.
        refusals: the refusals of these bounds, where the catalog has been judged already.
        plain: the decision on the same catalog under the same bounds without preferences, where it has been made.
    """
    if plain is not None:
        refusals, permitted = plain.refusals, plain.permitted
    else:
        refusals = finish(Bounds(effective).judging(catalog)) if refusals is None else refusals
        permitted = tuple(i for i, rule in enumerate(refusals) if rule is None)
    status = status_of(permitted, catalog, preferences.resolution)
    visible = curate(permitted, catalog, preferences, status)
    return Decision(catalog, effective, preferences, refusals, permitted, visible, status, plain)


def revision(decision: Decision, asked: str) -> str:
    """Return a hash, 12 hex digits, of what is permitted, what is shown of it, and the caller's own selection.

    Nothing else goes in: the algorithm is public, so a reader could test guesses of denied tools or of the operator's
    bounds against it. The answer to a query is left out too: a call, which resolves none, must match the list before.
    """
    return blake2b(f"{decision.learnt_digest}:{asked}".encode(), digest_size=6).hexdigest()


def sections_of(decision: Decision) -> dict[str, str]:
    """Return the section of the context report for each permitted name."""
    from agent_utilities.catalog.context import ACTIVE, ATTACHED, DEFERRED, LISTED, PINS  # for reports alone

    entries, visible = decision.catalog.entries, decision.visible_names
    sections = {name: LISTED if name in visible else DEFERRED for name in decision.permitted_names}
    if decision.defers:
        considered = decision.permitted, decision.catalog, decision.preferences
        pins = {entries[i].name for i in pinned(*considered)}
        loaded = frozenset(active_after(*considered).loaded)
        for name in visible:
            sections[name] = PINS if name in pins else ACTIVE if name in loaded else ATTACHED
    return sections


@dataclass(frozen=True, eq=False)
class Permitted:
    """The tools permitted to one caller, and the changes of an active set within them.

    Args:
        decision: that of the caller's last list; its preferences are not read.
        unlisted: permitted names that the author's middleware keeps off lists; search does not return them either.
    """

    decision: Decision
    preferences: Preferences
    unlisted: frozenset[str] = frozenset()

    @property
    def deferral(self) -> Deferral:
        return self.preferences.deferral

    @property
    def defers(self) -> bool:
        """Whether tools are deferred in every list."""
        return self.deferral.defers(self._n_told)

    @property
    def may_defer(self) -> bool:
        """Whether tools are deferred in some list: then entry tools answer on every request."""
        return self.deferral.may_defer(self._n_told)

    @property
    def _n_told(self) -> int:
        return len(self.decision.permitted) - len(self.unlisted)

    @cached_property
    def names(self) -> frozenset[str]:
        """The permitted names that lists may show."""
        names = self.decision.permitted_names
        return names - self.unlisted if self.unlisted else names

    @property
    def in_order(self) -> tuple[str, ...]:
        """The same names in alphabetical order."""
        names = self.decision.permitted_in_order
        return tuple(name for name in names if name not in self.unlisted) if self.unlisted else names

    @cached_property
    def pinned(self) -> tuple[str, ...]:
        """The names of the pins that fit a list, in catalog order."""
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

        So a list's bytes do not depend on their ranks.
        """
        best = frozenset([name for name in answering if name in self.not_pinned][:limit])
        entries = self.decision.catalog.entries
        return list(dict.fromkeys(entries[i].name for i in self.decision.permitted if entries[i].name in best))

    def bounded(self, active: Active) -> Active:
        """Cut an active set that a caller sent to what turns and loads could have made of it."""
        return bounded(within(active, self.not_pinned), self.deferral, self.room)

    def load(self, active: Active, names: Iterable[str]) -> Change:
        """Load those of the tools that may be active; see `deferral.load`."""
        wanted = [name for name in names if name in self.not_pinned]
        return load(within(active, self.not_pinned), wanted, self.deferral, self.room)

    def turn(self, active: Active, query: str, answering: Iterable[str], top_k: int | None = None) -> Change:
        """Attach the best of the tools that answer a turn's query, which come best first; see `deferral.turn`."""
        before = within(active, self.not_pinned)
        best = self.best(answering, n_to_attach(before, self.deferral, top_k))
        return turn(before, query, best, self.deferral, self.room)
