"""The one decision: from catalog and selection to what is permitted, what is visible, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_utilities.catalog.model import Catalog, Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import Side
from agent_utilities.selection.resolution import Status
from agent_utilities.visibility.bounds import Bounds, Rule
from agent_utilities.visibility.curation import curate
from agent_utilities.visibility.preferences import NO_PREFERENCES, Preferences
from agent_utilities.visibility.revision import revision
from agent_utilities.visibility.unfit import unfit_names

MAX_UNKNOWN = 16
"""The most unknown names that one decision reports; each costs a search for the nearest."""


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
    """

    catalog: Catalog
    effective: Effective
    preferences: Preferences
    refusals: tuple[Rule | None, ...]
    permitted: tuple[int, ...]
    visible: tuple[int, ...]
    status: Status

    @cached_property
    def shows_all(self) -> bool:
        """Whether the whole catalog is visible, in its order."""
        return self.visible == tuple(range(len(self.catalog)))

    @cached_property
    def deferred(self) -> tuple[int, ...]:
        """The indexes of the entries that are permitted and not visible, in catalog order."""
        visible = frozenset(self.visible)
        return tuple(i for i in self.permitted if i not in visible)

    @property
    def revision(self) -> str:
        """12 hex digits that tie a list or a call to the surface it was made under; see `revision`."""
        return revision(self.catalog, self.effective, self.preferences)

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
        """NameSet the caller gave that fit nothing, each with the nearest name that would, or None.

        Judged against what the operator permits only: a name the operator denies reads the same as one that never
        existed (law L1). At most `MAX_UNKNOWN` names, in alphabetical order.
        """
        return _unknown(self.effective, "caller", self.open_entries)

    @cached_property
    def operator_unknown(self) -> dict[str, str | None]:
        """The same for the operator's names, judged against the whole catalog; for the operator's eyes only."""
        return _unknown(self.effective, "operator", self.catalog.entries)


def decide(catalog: Catalog, effective: Effective, preferences: Preferences = NO_PREFERENCES) -> Decision:
    """Return what a selection comes to on a catalog.

    Synchronous, total, free of I/O and clocks: the same inputs give the same bytes (law L6). What is permitted
    follows from the bounds alone; preferences only choose what is visible of it.

    Args:
        catalog: the server's components of one kind.
        effective: the settings whose bounds hold; its own preferences are not read.
        preferences: what to show of the permitted.
    """
    bounds = Bounds(effective)
    refusals = _refusals(bounds, catalog) if bounds.rules else (None,) * len(catalog)
    permitted = tuple(i for i, rule in enumerate(refusals) if rule is None)
    resolution = preferences.resolution
    names = frozenset(resolution.names) if resolution.answered else frozenset()
    misses = resolution.answered and names.isdisjoint(catalog.entries[i].name for i in permitted)
    return Decision(
        catalog=catalog,
        effective=effective,
        preferences=preferences,
        refusals=refusals,
        permitted=permitted,
        visible=curate(permitted, catalog.entries, preferences),
        status="no_match" if misses else resolution.status,
    )


def _refusals(bounds: Bounds, catalog: Catalog) -> tuple[Rule | None, ...]:
    """Judge every entry, and with each the others that a call by its name could reach instead.

    Of two entries of one name and version the first answers, and an entry without a version answers for every
    version of its name; so a refusal of the one refuses the other (law L1: what is listed can be called).
    """
    refusals = [bounds.refusal(entry) for entry in catalog.entries]
    first: dict[tuple[str, str | None], Rule | None] = {}
    versioned: dict[str, Rule] = {}
    for entry, rule in zip(catalog.entries, refusals, strict=True):
        first.setdefault((entry.name, entry.version), rule)
        if rule is not None and entry.version is not None:
            versioned.setdefault(entry.name, rule)
    if len(first) == len(refusals) and not versioned:
        return tuple(refusals)
    for i, entry in enumerate(catalog.entries):
        if refusals[i] is None:
            of_any_version = versioned.get(entry.name) if entry.version is None else None
            refusals[i] = first[entry.name, entry.version] or of_any_version
    return tuple(refusals)


def _unknown(effective: Effective, side: Side, entries: Sequence[Entry]) -> dict[str, str | None]:
    unfit = {name.name: name for name in unfit_names(effective, side, entries)}
    return {name: unfit[name].nearest for name in sorted(unfit)[:MAX_UNKNOWN]}
