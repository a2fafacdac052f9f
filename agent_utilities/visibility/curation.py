"""Curation: choosing the visible out of the permitted. It only ever narrows what is shown (law L5)."""

from __future__ import annotations

from collections.abc import Sequence

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.resolution import Resolution

QUERY_TOP_K = 15
"""The most tools that a query shows where nobody says how many."""


def most_shown(effective: Effective) -> int | None:
    """Return the most tools to show: `top_k`, and 15 where there is a query without one; None for all."""
    if effective.top_k is not None and isinstance(effective.top_k.value, int):
        return effective.top_k.value
    return QUERY_TOP_K if effective.query is not None else None


def curate(
    permitted: Sequence[int],
    entries: Sequence[Entry],
    resolution: Resolution,
    *,
    asked: bool,
    top_k: int | None,
) -> tuple[int, ...]:
    """Return the indexes of the visible entries, in catalog order.

    An answered query shows the tools it names, best first up to `top_k`; where it names none that is permitted, or
    was not answered, every permitted tool is shown, so an agent is never left empty-handed by a preference.

    Args:
        permitted: indexes of permitted entries, in catalog order.
        entries: the whole catalog.
        resolution: the answer to the query.
        asked: whether there is a query; one that is not answered leaves `top_k` nothing to order by.
        top_k: the most tools to show, or None.
    """
    if not resolution.answered:
        return tuple(permitted) if asked else tuple(permitted[:top_k])
    rank = {name: place for place, name in reversed(list(enumerate(resolution.names)))}
    ranked = sorted((rank[entries[i].name], i) for i in permitted if entries[i].name in rank)
    if not ranked:
        return tuple(permitted)
    return tuple(sorted(i for _, i in ranked[:top_k]))
