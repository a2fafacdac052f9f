"""The one decision: from catalog and selection to what is permitted, visible and deferred, and why."""

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
    """What one selection comes to on one catalog.

    Args:
        catalog: the catalog decided on.
        effective: the settings whose bounds held.
        preferences: what was to be shown of the permitted.
        refusals: for each entry in catalog order, the rule that refuses it, or None where it is permitted.
        permitted: indexes of the permitted entries, in catalog order.
        visible: indexes of the visible ones: a subset in catalog order, and after it what was activated (laws L1, L6).
        status: how the query was answered; `no_match` where the answer named nothing permitted.
        plain: the decision under the same bounds without preferences, whose account of what is permitted is this one's.
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
        """Whether the whole catalog is visible, in its order."""
        return len(self.visible) == len(self.catalog) and self.visible == tuple(range(len(self.catalog)))

    @property
    def defers(self) -> bool:
        """Whether only pins and active tools are visible, besides what answers the query."""
        return self.preferences.defers(len(self.permitted), self.status)

    @cached_property
    def active(self) -> Active:
        """The active set of the list, where tools are deferred: as a caller may bring it back."""
        return active_after(self.permitted, self.catalog, self.preferences)

    @cached_property
    def permitted_names(self) -> frozenset[str]:
        """The names of the permitted entries."""
        if self.plain is not None:
            return self.plain.permitted_names
        return frozenset(self.catalog.entries[i].name for i in self.permitted)

    @cached_property
    def permitted_in_order(self) -> tuple[str, ...]:
        """The names of the permitted entries, in the order of the alphabet."""
        return tuple(sorted(self.permitted_names)) if self.plain is None else self.plain.permitted_in_order

    @cached_property
    def visible_names(self) -> frozenset[str]:
        """The names of the visible entries."""
        return frozenset(self.catalog.entries[i].name for i in self.visible)

    @cached_property
    def permitted_places(self) -> frozenset[int]:
        """The indexes of the permitted entries."""
        if self.plain is not None:
            return self.plain.permitted_places
        return frozenset(self.permitted)

    @cached_property
    def visible_places(self) -> frozenset[int]:
        """The indexes of the visible entries."""
        return frozenset(self.visible)

    @cached_property
    def permitted_digest(self) -> str:
        """A hash over the permitted entries in their order, 32 hex digits; what is denied leaves no trace in it."""
        return self._digest(self.permitted) if self.plain is None else self.plain.permitted_digest

    @cached_property
    def learnt_digest(self) -> str:
        """A hash over what a caller learns from lists: the permitted entries, and which of them preferences show.

        Before the query is answered: that depends on the state of graph and ranker, which replicas do not share.
        """
        shown = self.visible
        if self.preferences != (before := self.preferences.unanswered):
            shown = curate(self.permitted, self.catalog, before, before.resolution.status)
        return self.permitted_digest + ("" if shown == self.permitted else self._digest(shown))

    def _digest(self, indexes: tuple[int, ...]) -> str:
        stamps = b"".join(self.catalog.entries[i].stamp for i in indexes)
        return blake2b(stamps, digest_size=16).hexdigest()

    def refused_by(self, side: Side) -> tuple[int, ...]:
        """Return the indexes of the entries that a side's bounds refuse; one that both refuse is the operator's."""
        return tuple(i for i, rule in enumerate(self.refusals) if rule is not None and rule.setting.side == side)

    @cached_property
    def open_entries(self) -> tuple[Entry, ...]:
        """The entries that the operator's bounds do not refuse: all that a caller may learn of."""
        hidden = frozenset(self.refused_by("operator"))
        return tuple(entry for i, entry in enumerate(self.catalog.entries) if i not in hidden)

    @cached_property
    def unknown(self) -> dict[str, str | None]:
        """Names the caller gave that fit nothing, each with the nearest name that would, or None.

        Judged against what the operator permits only: a name the operator denies reads the same as one that never
        existed (law L1). At most `MAX_UNKNOWN` names, in alphabetical order.
        """
        return finish(self.finding_unknown())

    def finding_unknown(self) -> Steps[dict[str, str | None]]:
        """Return `unknown`, found in steps where it has not been yet: names and globs are many, and so may tools be."""
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
    """Return what a selection comes to on a catalog.

    Synchronous, total, free of I/O and clocks: the same inputs give the same bytes (law L6). What is permitted
    follows from the bounds alone; preferences only choose what is visible of it.

    Args:
        catalog: the server's components of one kind.
        effective: the settings whose bounds hold; its own preferences are not read.
        preferences: what to show of the permitted.
        refusals: what the bounds come to on the catalog, where it has been judged already.
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
    """Return 12 hex digits over what is permitted, what is shown of it, and what the caller asked for.

    Nothing else goes in: it is no secret how a revision is made, so whoever reads one could try what they guess of
    denied tools or of the operator's bounds against it. The answer to a query is not part of it either: a call, which
    resolves none, is tied to the list that was made before.
    """
    return blake2b(f"{decision.learnt_digest}:{asked}".encode(), digest_size=6).hexdigest()


def sections_of(decision: Decision) -> dict[str, str]:
    """Return the section of each permitted name; what is denied has none."""
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
