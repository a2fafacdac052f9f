"""Curation: choosing the visible out of the permitted. It only ever narrows what is shown (law L5)."""

from __future__ import annotations

from collections.abc import Sequence

from agent_utilities.activation.active import fitting, turn, within
from agent_utilities.catalog.model import Entry
from agent_utilities.selection.model import NameSet
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


def _shown_of_deferred(permitted: Sequence[int], entries: Sequence[Entry], preferences: Preferences) -> tuple[int, ...]:
    deferral = preferences.deferral
    pinned = _pinned(permitted, entries, preferences.pins)
    if (most := deferral.room(0)) is not None:
        pinned = pinned[:most]
    room = deferral.room(len(pinned))
    by_name: dict[str, list[int]] = {}
    shown = frozenset(pinned)
    for i in permitted:
        if i not in shown:
            by_name.setdefault(entries[i].name, []).append(i)
    active = within(preferences.active, by_name)
    answering = [
        entries[i].name
        for i in _answering(permitted, entries, preferences, preferences.n_attached) or ()
        if i not in shown
    ]
    if preferences.query is not None and answering:
        active = turn(active, preferences.query, list(dict.fromkeys(answering)), deferral, room).active
    return (*pinned, *(i for name in fitting(active, room) for i in by_name[name]))


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


def _pinned(permitted: Sequence[int], entries: Sequence[Entry], pins: NameSet) -> tuple[int, ...]:
    matches = name_matcher(pins)
    return tuple(i for i in permitted if matches(entries[i]))
