"""The prior by usage: tools that go together, and tools used recently, move up in an answer by words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from itertools import islice
from math import isfinite

from agent_utilities.query.graph.matching import Matches, Neighbour
from agent_utilities.query.graph.sync import ToolEdge
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.selection.model import RankedTool, Resolution
from agent_utilities.usage.model import Learned

MOST_EDGES = 10_000
"""The most edges that are made of learned pairs: the strongest ones. Which of the weakest are left out depends on all
tools, whoever asks."""

MOST_NEIGHBOURS = 50
"""The most neighbours that are returned."""

WEIGHT_AND_DECAY = {"followed_by": (2.0, 0.25), "used_with": (1.0, 0.8)}
"""By kind of edge, its weight, and the factor for each step back from the last call: what usually follows the call
before last has mostly been called."""

_ON_THE_LOOP = 500
"""How many edges are counted on the event loop: within a millisecond."""

DOUBT = 1.0
"""Added to the counts that a tool's edges sum up to: a pair that was seen once is worth less than one seen always."""


def tool_edges(learned: Learned, scope: str = "", most: int = MOST_EDGES) -> list[ToolEdge]:
    """Return learned pairs of tools as edges for the graph, the strongest first."""
    edges = [ToolEdge("used_with", *pair, n, scope) for pair, n in learned.used_with.items()]
    edges += [ToolEdge("followed_by", *pair, n, scope) for pair, n in learned.followed_by.items()]
    return nsmallest(most, edges, key=lambda edge: (-edge.n, edge))


def neighbour_shares(
    neighbours: Iterable[Neighbour], near: Sequence[str], permitted: Container[str] | None = None
) -> tuple[tuple[str, float], ...]:
    """Return the tools that usually go with those that a caller is at, best first, each with a share in (0, 1).

    Of each near tool and kind of edge, a neighbour has its part of all counts that lead to permitted tools:
    `n / (sum of n + DOUBT)`. Its share is the mean of these parts over the near tools and both kinds, weighed by
    kind and by how far back the near tool stands: `weight * decay ** place` of `WEIGHT_AND_DECAY`, with place 0 for the
    last call. All shares sum up to less than 1.

    Law L1: a tool that is not permitted counts nowhere, be it as a neighbour or as one of the near tools, which take
    the places that they would have without it. Names from `near` that no tool bears count no more than those denied.

    At most `MOST_NEIGHBOURS` are returned, none of them near; equal shares in the order of names.

    Args:
        neighbours: the edges of the near tools, and perhaps of others, in any order.
        near: names of the tools that the caller is at, the one called last first.
        permitted: names of the tools that the caller may use; None for all.
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
    whole = sum(_weight(kind, place) for place in places.values() for kind in WEIGHT_AND_DECAY)
    others = [(name, share / whole) for name, share in shares.items() if name not in places]
    return tuple(nsmallest(MOST_NEIGHBOURS, others, key=lambda each: (-each[1], each[0])))


async def shares_off_loop(
    matches: Matches, near: Sequence[str], permitted: Container[str] | None
) -> tuple[tuple[str, float], ...]:
    """Return `neighbour_shares` of matches; many are counted in a thread, since they would hold the loop (law L7)."""
    count = partial(neighbour_shares, matches.neighbours, near, permitted)
    return count() if matches.n_neighbours <= _ON_THE_LOOP else await in_daemon_thread(count)


def _weight(kind: str, place: int) -> float:
    weight, decay = WEIGHT_AND_DECAY[kind]
    return weight * decay**place


NEIGHBOURS_BOUND = 0.2
"""The most score that tools gain which usually go with those that the caller is at."""
NEIGHBOURS_GAIN = 5.0
"""A share counts so many times, up to the bound: those of all neighbours together come to less than 1."""
USES_BOUND = 0.05
"""The score that the tool gains that was used most of late; the others in proportion to it."""
BOUND = NEIGHBOURS_BOUND + USES_BOUND
"""The most score that a tool gains in all. Names in a request lead by 1 and more."""
MOST_FILLED = 3
"""The most tools that stand in an answer for usage alone."""
LEAST_FILLED = 0.02
"""The least score that a tool gains which stands in an answer for usage alone."""


@dataclass(frozen=True)
class Prior:
    """How much each tool was used of late."""

    uses: Mapping[str, float] = field(default_factory=dict)
    _most_used: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        uses = {name: n for name, n in self.uses.items() if n > 0 and isfinite(n)}
        object.__setattr__(self, "uses", uses)
        object.__setattr__(self, "_most_used", tuple(sorted(uses, key=lambda name: (-uses[name], name))))

    def most_used(self, permitted: frozenset[str]) -> Iterator[str]:
        """Return the names of the permitted tools that were used, most used first."""
        return (name for name in self._most_used if name in permitted)


NO_PRIOR = Prior()
"""The prior of an empty log, or none."""


def with_prior(answer: Resolution, prior: Prior, permitted: frozenset[str], limit: int | None) -> Resolution:
    """Return an answer whose tools are reordered by usage.

    Laws, for any usage:

    - A tool is never overtaken by one whose score is more than `BOUND` lower, nor by one that stood further down for
      another reason than its score. So no tool is overtaken that the words name by one that they do not.
    - Where the answer has no more tools than the limit, all of them stay. Room that is left over is filled with at most
      `MOST_FILLED` tools, after all others, marked `by_usage`.
    - Where it has more, those that come first once moved are kept. A tool without a match counts as if it had
      matched last, so that it takes the place of none that leads the last one by more than `BOUND`.
    - Only permitted tools are moved or filled in, and only what is known of them counts (law L1).
    - Where nothing answers, nothing is moved or filled in. Where nothing was learned, the answer is unchanged.
    """
    gains = gains_of(answer, prior, permitted) if answer.answered and answer.tools else {}
    is_to_be_cut = limit is not None and len(answer.tools) > limit
    if not gains:
        return replace(answer, tools=answer.tools[:limit]) if is_to_be_cut else answer
    filled = _filled(gains, frozenset(answer.names))
    runs = _runs(answer.tools)
    if is_to_be_cut and runs[-1][-1].score is not None:
        runs[-1] += filled
    else:
        runs.append(filled)
    moved = [tool for run in runs for tool in _moved(run, gains)]
    return replace(answer, tools=tuple(moved[:limit]))


def gains_of(answer: Resolution, prior: Prior, permitted: frozenset[str]) -> dict[str, float]:
    """Return the score that tools gain, by name, 0 to `BOUND`: of those in the answer and those that may fill it."""
    gains = {
        name: min(NEIGHBOURS_BOUND, NEIGHBOURS_BOUND * NEIGHBOURS_GAIN * share)
        for name, share in answer.neighbours
        if share > 0 and name in permitted
    }
    uses = prior.uses
    # However many of them match already, some are left to fill in.
    most_used = list(islice(prior.most_used(permitted), len(answer.tools) + MOST_FILLED))
    if not most_used:
        return gains
    greatest = uses[most_used[0]]
    for name in {*gains, *answer.names, *most_used}:
        if name in uses and name in permitted:
            gains[name] = gains.get(name, 0.0) + USES_BOUND * (uses[name] / greatest)
    return gains


def _filled(gains: Mapping[str, float], there: frozenset[str]) -> list[RankedTool]:
    others = sorted((-gain, name) for name, gain in gains.items() if gain >= LEAST_FILLED and name not in there)
    return [RankedTool(name, by_usage=True) for _, name in others[:MOST_FILLED]]


def _runs(tools: Iterable[RankedTool]) -> list[list[RankedTool]]:
    """Return the tools in runs of scores that never rise.

    What comes first with a lower score, or none, has another reason for it: it bears the query as it stands.
    """
    runs: list[list[RankedTool]] = []
    before: float | None = None
    for tool in tools:
        if before is not None and tool.score is not None and tool.score <= before:
            runs[-1].append(tool)
        else:
            runs.append([tool])
        before = tool.score
    return runs


def _moved(run: Sequence[RankedTool], gains: Mapping[str, float]) -> Sequence[RankedTool]:
    """Return a run with the best first once each has gained; equals as they stood.

    A tool without a score counts as the last one of the run that has any.
    """
    if len(run) == 1:
        return run
    score = 0.0
    gained = []
    for place, tool in enumerate(run):
        score = score if tool.score is None else tool.score
        gained.append((-score - gains.get(tool.name, 0.0), place))
    return [run[place] for _, place in sorted(gained)]
