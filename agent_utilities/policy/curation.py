"""Preferences, and curation by them: it chooses the visible out of the permitted, and only narrows (law L5)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from sys import getsizeof

from agent_utilities.catalog.model import Catalog
from agent_utilities.policy import deferral as deferring
from agent_utilities.policy.bounds import finish, matching, places
from agent_utilities.policy.deferral import NO_DEFERRAL, Deferral
from agent_utilities.selection.active import NOTHING_ACTIVE, OFF, Active, Threshold
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NO_NAMES, UNANSWERED, UNRESOLVED, HashedOnce, NameSet, Resolution, Status

QUERY_TOP_K = 15
"""The default `top_k` of a query."""


@dataclass(frozen=True, eq=False)
class Preferences(HashedOnce):
    """What a list should show of what is permitted; `Preferences()` shows all of it.

    Args:
        query: the user's words, or None.
        top_k: the most tools that answer the query, or without one the most tools; None where it is not set.
        pins: tools that are always visible where they are permitted.
        deferral: when only pins, active tools and those that answer the query are shown; the rest stays callable.
        n_attached: where tools are deferred, the most that this query may attach.
        called_for: the capability that the query calls for; its tools are shown beside those that answer it.
    """

    query: str | None = None
    resolution: Resolution = UNRESOLVED
    top_k: int | None = None
    pins: NameSet = NO_NAMES
    active: Active = NOTHING_ACTIVE
    deferral: Deferral = NO_DEFERRAL
    n_attached: int = 0
    called_for: str | None = None

    @property
    def n_bytes(self) -> int:
        """About how many bytes it takes."""
        n_names = len(self.active.names) + len(self.active.loaded)
        return 300 + 2 * getsizeof(self.query or "") + 250 * len(self.resolution.tools) + 80 * n_names

    @property
    def most_shown(self) -> int | None:
        """The most tools to show for the query, 15 by default; None for all."""
        return QUERY_TOP_K if self.top_k is None and self.query is not None else self.top_k

    def defers(self, n_permitted: int, status: Status) -> bool:
        """Whether tools are deferred in a list of so many permitted ones."""
        if self.deferral is NO_DEFERRAL:
            return False
        return self.deferral.defers(n_permitted, is_unanswered=status in UNANSWERED)

    @cached_property
    def unanswered(self) -> Preferences:
        """The same without the query's words and resolution: equal for every query."""
        if self.query is None and self.resolution == UNRESOLVED and not self.n_attached and self.called_for is None:
            return self
        query = None if self.query is None else ""
        return replace(self, query=query, resolution=UNRESOLVED, n_attached=0, called_for=None)

    @cached_property
    def undeferred(self) -> Preferences:
        """The same without tool search."""
        if self.deferral == NO_DEFERRAL:
            return self
        return replace(self, active=NOTHING_ACTIVE, deferral=NO_DEFERRAL, n_attached=0)


NO_PREFERENCES = Preferences()


def preferences_of(
    effective: Effective,
    resolution: Resolution = UNRESOLVED,
    pins: NameSet = NO_NAMES,
    *,
    by_default: Threshold = OFF,
    can_search: bool = True,
    unanswered: Threshold = OFF,
) -> Preferences:
    """Return the preferences of the settings in effect.

    Args:
        resolution: the answer to their query; `off` before it is resolved.
        pins: further tools that the operator pinned.
        by_default: the threshold of tool search where none is set.
        can_search: whether the caller may use `tool_search`, without which nothing is deferred.
        unanswered: the threshold, where neither is set, of lists whose query could not be answered.
    """
    values = effective.search_values
    if by_default == OFF and isinstance(most := values.get("max_tools"), int):
        by_default = Threshold(most)  # a longest list defers the rest
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


def status_of(permitted: Sequence[int], catalog: Catalog, resolution: Resolution) -> Status:
    """Return how a query was answered for a caller: `no_match` where the answer names nothing permitted."""
    hits = not resolution.answered or any(_places_of(resolution.names, permitted, catalog))
    return resolution.status if hits else "no_match"


def _places_of(names: Iterable[str], permitted: Sequence[int], catalog: Catalog) -> Iterator[tuple[str, list[int]]]:
    """Yield the names that permitted entries have, with their indexes; costs what the names do, not the catalog."""
    among: Container[int] = range(len(catalog)) if len(permitted) == len(catalog) else frozenset(permitted)
    for name in names:
        if places := [i for i in catalog.places_by_own_name.get(name, ()) if i in among]:
            yield name, places


def curate(permitted: Sequence[int], catalog: Catalog, preferences: Preferences, status: Status) -> tuple[int, ...]:
    """Return the indexes of the visible entries, in catalog order; activated ones last, in order of activation.

    An answered query shows the tools that it names, the best `top_k` of them; where it names none that is permitted, or
    was not answered, every permitted tool is shown, so that no preference leaves an agent empty-handed. Where tools
    are deferred, the list is the pins in catalog order, then the active tools, then what else answers the query: a
    list only grows at its end. The operator may limit deferral to lists whose query was not answered.
    """
    resolution, entries = preferences.resolution, catalog.entries
    if preferences.defers(len(permitted), status):
        pins, active, places_of = _of_deferred(permitted, catalog, preferences)
        room, most = preferences.deferral.room(len(pins)), preferences.deferral.max_active
        return *pins, *(i for name in deferring.fitting(active, room, most) for i in places_of[name])
    if resolution.answered:
        rank = resolution.ranks
        ranked = sorted((rank[name], i) for name, own in _places_of(rank, permitted, catalog) for i in own)
        answering = {i for _, i in ranked[: preferences.most_shown]}
        if (called := preferences.called_for) is not None:
            of_capability = (i for i in catalog.of_capabilities if called in (entries[i].capabilities or ()))
            answering.update(set(of_capability).intersection(permitted))
        if answering:
            return tuple(sorted(answering))
    # Without an answer there is no order for `top_k` to cut.
    is_query_unanswered = preferences.query is not None or resolution.answered
    return tuple(permitted if is_query_unanswered else permitted[: preferences.top_k])


def pinned(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> tuple[int, ...]:
    """Return the indexes of the permitted pins, and of tools of active capabilities, that fit a list."""
    pins, room = preferences.pins, preferences.deferral.room(0)
    if pins.everything:
        return tuple(permitted)[:room]
    # A query or a name activated the capability that these came with.
    named = finish(places(pins.every_name, pins.toolsets, catalog)).union(catalog.of_capabilities)
    return tuple(sorted(named.intersection(permitted)))[:room]


def active_after(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> Active:
    """Return the active set of a deferred list, after its query's turn; without pins and what is not permitted."""
    return _of_deferred(permitted, catalog, preferences)[1]


def _of_deferred(
    permitted: Sequence[int], catalog: Catalog, preferences: Preferences
) -> tuple[tuple[int, ...], Active, dict[str, list[int]]]:
    """Return the pins, the active set with what the query attaches, and the indexes of each active name."""
    pins = pinned(permitted, catalog, preferences)
    answer: tuple[str, ...] = ()
    if preferences.query is not None and preferences.resolution.answered and preferences.n_attached:
        answer = preferences.resolution.names
    # Pins count neither as active nor as an answer.
    pinned_places, places_of = frozenset(pins), dict[str, list[int]]()
    for name, indexes in _places_of((*preferences.active.names, *answer), permitted, catalog):
        if own := [i for i in indexes if i not in pinned_places]:
            places_of[name] = own
    active = deferring.within(preferences.active, places_of)
    best = [name for name in dict.fromkeys(answer) if name in places_of][: preferences.n_attached]
    if preferences.query is not None and best:
        best.sort(key=lambda name: places_of[name])
        room = preferences.deferral.room(len(pins))
        active = deferring.turn(active, preferences.query, best, preferences.deferral, room).active
    return pins, active, places_of


def bound_to_tags(effective: Effective, tags: frozenset[str]) -> Effective:
    """Return settings in which the operator's pins match names and, of tags, only these.

    An upstream's author chooses its tags: one that equals a pin would put any of its tools into every list. A caller's
    own pins match every tag.
    """
    pins = tuple(
        replace(
            setting,
            value=NameSet(names.every_name, frozenset(finish(matching(names.toolsets, tags))), names.everything),
        )
        if setting.side != "caller" and isinstance(names := setting.value, NameSet)
        else setting
        for setting in effective.pins
    )
    return replace(effective, pins=pins) if pins != effective.pins else effective
