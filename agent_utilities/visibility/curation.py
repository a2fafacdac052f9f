"""Curation: choosing the visible out of the permitted. It only ever narrows what is shown (law L5)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from agent_utilities.activation.active import Active, fitting, turn, within
from agent_utilities.catalog.model import Catalog
from agent_utilities.selection.model import NameSet
from agent_utilities.selection.resolution import UNANSWERED, Resolution, Status
from agent_utilities.visibility.names import every_name, matching
from agent_utilities.visibility.preferences import Preferences
from agent_utilities.visibility.steps import finish


def status_of(permitted: Sequence[int], catalog: Catalog, resolution: Resolution) -> Status:
    """Return how a query was answered for a caller: `no_match` where the answer names nothing that they may use."""
    names = frozenset(resolution.names) if resolution.answered else frozenset()
    misses = resolution.answered and names.isdisjoint(catalog.entries[i].name for i in permitted)
    return "no_match" if misses else resolution.status


def curate(permitted: Sequence[int], catalog: Catalog, preferences: Preferences, status: Status) -> tuple[int, ...]:
    """Return the indexes of the visible entries: in catalog order, and after them the activated ones as they came.

    An answered query shows the tools it names, best first up to `top_k`; where it names none that is permitted, or
    was not answered, every permitted tool is shown, so an agent is never left empty-handed by a preference. Where
    tools are deferred, pins are shown in catalog order, after them active tools as they came, after them what else
    answers the query, and nothing else: a list only grows at its end. The operator may have that hold of lists that
    show everything for want of an answer alone.

    Args:
        permitted: indexes of permitted entries, in catalog order.
        catalog: the whole catalog.
        preferences: what to show of them.
        status: how their query was answered; see `status_of`.
    """
    if not preferences.deferral.defers(len(permitted), is_unanswered=status in UNANSWERED):
        return _shown_without_deferral(permitted, catalog, preferences)
    return _shown_of_deferred(permitted, catalog, preferences)


def pinned(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> tuple[int, ...]:
    """Return the indexes of the permitted entries that are never deferred, as far as a list has room for them."""
    return _pinned(permitted, catalog, preferences.pins)[: preferences.deferral.room(0)]


def active_after(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> Active:
    """Return the active set of a list in which tools are deferred: with what answers its query, if that is a new turn.

    Without what is not permitted and without pins, neither of which count.
    """
    return _active_and_places(permitted, catalog, preferences, pinned(permitted, catalog, preferences))[0]


def _shown_of_deferred(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> tuple[int, ...]:
    pins = pinned(permitted, catalog, preferences)
    active, places = _active_and_places(permitted, catalog, preferences, pins)
    deferral = preferences.deferral
    return (
        *pins,
        *(i for name in fitting(active, deferral.room(len(pins)), deferral.max_active) for i in places[name]),
    )


def _active_and_places(
    permitted: Sequence[int], catalog: Catalog, preferences: Preferences, pins: tuple[int, ...]
) -> tuple[Active, dict[str, list[int]]]:
    """Return the active set with what the query attaches, and the indexes of the entries that each name in it has."""
    answer: tuple[str, ...] = ()
    if preferences.query is not None and preferences.resolution.answered and preferences.n_attached:
        answer = preferences.resolution.names
    # Pins are out of it from here on: they count neither as active nor as what answers.
    places = _places((*preferences.active.names, *answer), permitted, frozenset(pins), catalog)
    active = within(preferences.active, places)
    best = [name for name in dict.fromkeys(answer) if name in places][: preferences.n_attached]
    if preferences.query is not None and best:
        best.sort(key=lambda name: places[name])
        room = preferences.deferral.room(len(pins))
        active = turn(active, preferences.query, best, preferences.deferral, room).active
    return active, places


def _shown_without_deferral(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> tuple[int, ...]:
    resolution, entries = preferences.resolution, catalog.entries
    if resolution.answered:
        rank = resolution.ranks
        ranked = sorted((rank[entries[i].name], i) for i in permitted if entries[i].name in rank)
        if answering := {i for _, i in ranked[: preferences.most_shown]} | _called_for(permitted, catalog, preferences):
            return tuple(sorted(answering))
    # An unanswered query leaves `top_k` nothing to order by.
    is_query_unanswered = preferences.query is not None or resolution.answered
    return tuple(permitted if is_query_unanswered else permitted[: preferences.top_k])


def _called_for(permitted: Sequence[int], catalog: Catalog, preferences: Preferences) -> set[int]:
    """Return the indexes of the permitted tools of the capability that the words call for."""
    if (name := preferences.called_for) is None:
        return set()
    of_capability = (i for i in catalog.of_capabilities if name in (catalog.entries[i].capabilities or ()))
    return set(of_capability).intersection(permitted)


def _places(
    names: Iterable[str], permitted: Sequence[int], pinned: frozenset[int], catalog: Catalog
) -> dict[str, list[int]]:
    """Return the indexes of the permitted entries of each name that has any besides pins.

    Looked up by name, since a catalog may be long where a list is short.
    """
    is_whole = len(permitted) == len(catalog)
    among: Container[int] = range(len(catalog)) if is_whole else frozenset(permitted)
    by_name = catalog.places_by_own_name
    places: dict[str, list[int]] = {}
    for name in names:
        if name in by_name and (own := [i for i in by_name[name] if i in among and i not in pinned]):
            places[name] = own
    return places


def _pinned(permitted: Sequence[int], catalog: Catalog, pins: NameSet) -> tuple[int, ...]:
    if pins.everything:
        return tuple(permitted)
    named = set(catalog.of_capabilities)  # whose capability is active was asked for, by words or by name
    for name in finish(matching(every_name(pins), catalog.places_by_name)):
        named.update(catalog.places_by_name[name])
    for tag in finish(matching(pins.toolsets, catalog.places_by_tag)):
        named.update(catalog.places_by_tag[tag])
    return tuple(sorted(named.intersection(permitted)))
