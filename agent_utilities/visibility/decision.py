"""The one decision: from catalog and selection to what is permitted, what is visible, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

from agent_utilities.catalog.model import Catalog, Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Side
from agent_utilities.selection.nearest import nearest
from agent_utilities.selection.resolution import Resolution, Status
from agent_utilities.visibility.bounds import Bounds, Rule, matcher
from agent_utilities.visibility.curation import curate, most_shown

MAX_UNKNOWN = 16
"""The most unknown names that one decision reports; each costs a search for the nearest."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What one selection comes to on one catalog.

    Args:
        catalog: the catalog decided on.
        effective: the settings that held.
        refusals: for each entry in catalog order, the rule that refuses it, or None where it is permitted.
        permitted: indexes of the permitted entries, in catalog order.
        visible: indexes of the visible ones, a subset in catalog order (law L1).
        status: how the query was answered; `no_match` where the answer named nothing permitted.
    """

    catalog: Catalog
    effective: Effective
    refusals: tuple[Rule | None, ...]
    permitted: tuple[int, ...]
    visible: tuple[int, ...]
    status: Status

    @property
    def shows_all(self) -> bool:
        """Whether the whole catalog is visible."""
        return len(self.visible) == len(self.catalog.entries)

    def refused_by(self, side: Side) -> tuple[int, ...]:
        """Return the indexes of the entries that a side's bounds refuse; one that both refuse is the operator's."""
        return tuple(i for i, rule in enumerate(self.refusals) if rule is not None and rule.setting.side == side)

    @cached_property
    def open_entries(self) -> tuple[Entry, ...]:
        """The entries that the operator's bounds do not refuse: all that a caller may learn of."""
        hidden = frozenset(self.refused_by("operator"))
        return tuple(each for i, each in enumerate(self.catalog.entries) if i not in hidden)

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


def decide(catalog: Catalog, effective: Effective, resolution: Resolution = Resolution()) -> Decision:  # noqa: B008
    """Return what a selection comes to on a catalog.

    Synchronous, total, free of I/O and clocks: the same inputs give the same bytes (law L6). Visible and permitted
    keep catalog order, so that a prompt cache keeps its prefix.

    Args:
        catalog: the server's components of one kind.
        effective: the settings that hold.
        resolution: the answer to the query; `off` where there was none.
    """
    bounds = Bounds(effective)
    refusals = _refusals(bounds, catalog) if bounds.rules else (None,) * len(catalog)
    permitted = tuple(i for i, rule in enumerate(refusals) if rule is None)
    asked = effective.query is not None
    curated = curate(permitted, catalog.entries, resolution, asked=asked, top_k=most_shown(effective))
    named = frozenset(resolution.names) if resolution.answered else frozenset()
    lost = resolution.answered and named.isdisjoint(catalog.entries[i].name for i in permitted)
    return Decision(
        catalog=catalog,
        effective=effective,
        refusals=refusals,
        permitted=permitted,
        visible=curated,
        status="no_match" if lost else resolution.status,
    )


def _refusals(bounds: Bounds, catalog: Catalog) -> tuple[Rule | None, ...]:
    """Judge every entry, and with each the others that a call by its name could reach instead.

    Of two entries of one name and version the first answers, and an entry without a version answers for every
    version of its name; so a refusal of the one refuses the other (law L1: what is listed can be called).
    """
    refusals = [bounds.refusal(each) for each in catalog.entries]
    first: dict[tuple[str, str | None], Rule | None] = {}
    versioned: dict[str, Rule] = {}
    for each, rule in zip(catalog.entries, refusals, strict=True):
        first.setdefault((each.name, each.version), rule)
        if rule is not None and each.version is not None:
            versioned.setdefault(each.name, rule)
    if len(first) == len(refusals) and not versioned:
        return tuple(refusals)
    for i, each in enumerate(catalog.entries):
        if refusals[i] is None:
            refusals[i] = first[each.name, each.version] or (versioned.get(each.name) if each.version is None else None)
    return tuple(refusals)


@lru_cache(maxsize=1024)
def revision(catalog_digest: str, effective_digest: str) -> str:
    """Return 12 hex digits that tie a list or a call to the catalog and selection it was made under."""
    return blake2b(f"{catalog_digest}:{effective_digest}".encode(), digest_size=6).hexdigest()


def _unknown(effective: Effective, side: Side, entries: Sequence[Entry]) -> dict[str, str | None]:
    names = frozenset(name for entry in entries for name in entry.identifiers)
    tags = frozenset(tag for entry in entries for tag in entry.tags)
    missing: dict[str, frozenset[str]] = {}
    for settings, by_name in (
        (effective.allow_tools + effective.deny_tools, names),
        (effective.allow_tags + effective.deny_tags, tags),
    ):
        for setting in settings:
            if setting.side == side and isinstance(given := setting.value, NameSet):
                missing |= {name: by_name for name in given.names if not borne(name, by_name)}
                missing |= {name: names | tags for name in given.toolsets if not borne(name, names | tags)}
    return {name: nearest(name, missing[name]) for name in sorted(missing)[:MAX_UNKNOWN]}


def borne(pattern: str, names: frozenset[str]) -> bool:
    """Whether a folded name or glob fits any of some folded names."""
    return pattern in names or ("*" in pattern and matcher(frozenset({pattern}))(names))
