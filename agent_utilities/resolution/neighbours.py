"""What usually goes with the tools that a caller is at: edges made of what calls teach, and shares made of edges.

No graph is asked here, and no clock: equal edges come to equal shares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from functools import partial
from heapq import nsmallest

from agent_utilities.graph.edges import ToolEdge
from agent_utilities.graph.matching import Matches, Neighbour
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.usage.learned import Learned

MOST_EDGES = 10_000
"""The most edges that are made of what calls teach: the strongest ones. Which of the weakest are left out depends on
those of all tools, before anything is known of who asks; whatever is read of the rest, nothing is left out."""

MOST_NEIGHBOURS = 50
"""The most neighbours that are told of."""

FOLLOWED_BY_WEIGHT = 2.0
"""What it counts that a tool is usually called next after the last one."""

FOLLOWED_BY_DECAY = 0.25
"""What that is multiplied by for each step back: what came after the call before last has mostly come."""

USED_WITH_WEIGHT = 1.0
"""What it counts that sessions which called the last tool called another one too."""

USED_WITH_DECAY = 0.8
"""What that is multiplied by for each step back."""

_KINDS = ("followed_by", "used_with")

_ON_THE_LOOP = 500
"""How many edges are counted within a millisecond."""

DOUBT = 1.0
"""Added to the counts that a tool's edges sum up to: a pair that was seen once is worth less than one seen always."""


def tool_edges(learned: Learned, scope: str = "", most: int = MOST_EDGES) -> list[ToolEdge]:
    """Return what calls teach of tools that go together, as the graph keeps it; the strongest first.

    Args:
        learned: what the calls of everybody, or of one subject, teach.
        scope: empty for everybody, else the subject's salted hash.
        most: how many edges to return at most.
    """
    edges = [ToolEdge("used_with", *pair, n, scope) for pair, n in learned.used_with.items()]
    edges += [ToolEdge("followed_by", *pair, n, scope) for pair, n in learned.followed_by.items()]
    return nsmallest(most, edges, key=lambda edge: (-edge.n, edge))


def neighbour_shares(
    neighbours: Iterable[Neighbour], near: Sequence[str], permitted: Container[str] | None = None
) -> tuple[tuple[str, float], ...]:
    """Return the tools that usually go with those that a caller is at, best first, each with a share in (0, 1).

    Of each near tool and kind of edge, a neighbour has its part of all counts that lead to permitted tools:
    `n / (sum of n + DOUBT)`. Its share is the mean of these parts over the near tools and both kinds, weighed by
    kind and by how far back the near tool stands: `FOLLOWED_BY_WEIGHT * FOLLOWED_BY_DECAY ** place` and
    `USED_WITH_WEIGHT * USED_WITH_DECAY ** place`, with place 0 for the last call. All shares sum up to less than 1.

    Law L1: a tool that is not permitted counts nowhere, be it as a neighbour or as one of the near tools, which take
    the places that they would have without it. Names from `near` that no tool bears count no more than those denied.

    Args:
        neighbours: the edges of the near tools, and perhaps of others, in any order.
        near: names of the tools that the caller is at, the one called last first.
        permitted: names of the tools that the caller may use; None for all.

    Returns:
        At most `MOST_NEIGHBOURS`, none of them near; equal shares in the order of names.
    """
    places = {
        name: place
        for place, name in enumerate(name for name in dict.fromkeys(near) if permitted is None or name in permitted)
    }
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for of, name, kind, n in neighbours:
        if of in places and n > 0 and (permitted is None or name in permitted):
            counts[kind, of][name] += n
    shares: dict[str, float] = defaultdict(float)
    for (way, of), by_name in sorted(counts.items()):
        weight = _weight(way, places[of]) / (sum(by_name.values()) + DOUBT)
        for name, n in by_name.items():
            shares[name] += weight * n
    whole = sum(_weight(kind, place) for place in places.values() for kind in _KINDS)
    told = [(name, share / whole) for name, share in shares.items() if name not in places]
    return tuple(nsmallest(MOST_NEIGHBOURS, told, key=lambda each: (-each[1], each[0])))


async def shares_off_loop(
    matches: Matches, near: Sequence[str], permitted: Container[str] | None
) -> tuple[tuple[str, float], ...]:
    """Return `neighbour_shares` of matches; many are counted in a thread, since they would hold the loop (law L7)."""
    if matches.n_neighbours <= _ON_THE_LOOP:
        return neighbour_shares(matches.neighbours, near, permitted)
    return await in_daemon_thread(partial(neighbour_shares, matches.neighbours, near, permitted))


def _weight(kind: str, place: int) -> float:
    if kind == "followed_by":
        return FOLLOWED_BY_WEIGHT * FOLLOWED_BY_DECAY**place
    return USED_WITH_WEIGHT * USED_WITH_DECAY**place
