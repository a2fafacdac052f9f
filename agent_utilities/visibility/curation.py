"""Curation: choosing the visible out of the permitted. It only ever narrows what is shown (law L5)."""

from __future__ import annotations

from collections.abc import Sequence

from agent_utilities.activation.active import Active, fitting, turn, within
from agent_utilities.catalog.model import Entry
from agent_utilities.selection.model import NO_NAMES
from agent_utilities.visibility.names import name_matcher
from agent_utilities.visibility.preferences import Preferences


def curate(permitted: Sequence[int], entries: Sequence[Entry], preferences: Preferences) -> tuple[int, ...]:
    """Return the indexes of the visible entries: in catalog order, and after them the activated ones as they came.

    An answered query shows the tools it names, best first up to `top_k`; where it names none that is permitted, or
    was not answered, every permitted tool is shown, so an agent is never left empty-handed by a preference. Where
    tools are deferred, pins are shown in catalog order, after them active tools as they came, after them what else
    answers the query, and nothing else: a list only grows at its end.

    Args:
        permitted: indexes of permitted entries, in catalog order.
        entries: the whole catalog.
        preferences: what to show of them.
    """
    if not preferences.deferral.defers(len(permitted)):
        return _shown_without_deferral(permitted, _answering(permitted, entries, preferences), preferences)
    return _shown_of_deferred(permitted, entries, preferences)


def pinned(permitted: Sequence[int], entries: Sequence[Entry], preferences: Preferences) -> tuple[int, ...]:
    """Return the indexes of the permitted entries that are never deferred, as far as a list has room for them."""
    if preferences.pins == NO_NAMES:
        return ()
    matches = name_matcher(preferences.pins)
    return tuple(i for i in permitted if matches(entries[i]))[: preferences.deferral.room(0)]


def active_after(permitted: Sequence[int], entries: Sequence[Entry], preferences: Preferences) -> Active:
    """Return the active set of a list in which tools are deferred: with what answers its query, if that is a new turn.

    Without what is not permitted and without pins, neither of which count.
    """
    pins = frozenset(pinned(permitted, entries, preferences))
    others = [i for i in permitted if i not in pins]
    active = within(preferences.active, frozenset([entries[i].name for i in others]))
    if preferences.query is None or not preferences.n_attached:
        return active
    attached = [entries[i].name for i in _answering(others, entries, preferences, preferences.n_attached) or ()]
    if not attached:
        return active
    return turn(active, preferences.query, attached, preferences.deferral, preferences.deferral.room(len(pins))).active


def _shown_of_deferred(permitted: Sequence[int], entries: Sequence[Entry], preferences: Preferences) -> tuple[int, ...]:
    pins = pinned(permitted, entries, preferences)
    active = active_after(permitted, entries, preferences)
    if not active.names:
        return pins
    shown = fitting(active, preferences.deferral.room(len(pins)))
    places: dict[str, list[int]] = {name: [] for name in shown}
    is_pinned = frozenset(pins)
    for i in permitted:
        if (same := places.get(entries[i].name)) is not None and i not in is_pinned:
            same.append(i)
    return (*pins, *(i for name in shown for i in places[name]))


def _shown_without_deferral(
    permitted: Sequence[int], answering: tuple[int, ...] | None, preferences: Preferences
) -> tuple[int, ...]:
    if answering:
        return answering
    is_query_unanswered = preferences.query is not None or answering is not None
    # It leaves `top_k` nothing to order by.
    return tuple(permitted if is_query_unanswered else permitted[: preferences.top_k])


def _answering(
    permitted: Sequence[int], entries: Sequence[Entry], preferences: Preferences, limit: int | None = None
) -> tuple[int, ...] | None:
    """Return the indexes of the best tools that answer the query, in catalog order; None where it is not answered."""
    if not preferences.resolution.answered:
        return None
    rank = preferences.resolution.ranks
    ranked = sorted((rank[entries[i].name], i) for i in permitted if entries[i].name in rank)
    return tuple(sorted(i for _, i in ranked[: preferences.most_shown if limit is None else limit]))
