"""Which tools go together, and which follow which, by the calls of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

GAP_MS = 3_600_000
"""A session whose next call comes later than this is another one: somebody came back with another task."""
MOST_TOOLS = 20
"""Tools of a session that count as used together, the first ones."""
MOST_STEPS = 3
"""How often one session counts for one pair of tools that follow one another."""
MOST_PAIRS = 10_000
"""Pairs of either kind that are told, those counted most."""


class Step(NamedTuple):
    """A call that succeeded, of a session.

    Args:
        session: whose; calls without one stand alone and teach nothing here.
        at_ms: when, in UTC epoch milliseconds.
        tool: which tool.
    """

    session: str
    at_ms: int
    tool: str


@dataclass(frozen=True)
class Sequences:
    """What goes together.

    Args:
        used_with: how many sessions called both tools of a pair, the names in order of the alphabet.
        followed_by: how often the second tool of a pair was called next after the first, at most thrice a session.
    """

    used_with: dict[tuple[str, str], int]
    followed_by: dict[tuple[str, str], int]


class SequenceCounter:
    """Counts pairs while steps go by, so that no log need be in memory.

    However many calls a session makes, it adds 1 to a pair of tools used together, 3 to one that follows, and 20 tools.
    """

    def __init__(self) -> None:
        self._used_with: Counter[tuple[str, str]] = Counter()
        self._followed_by: Counter[tuple[str, str]] = Counter()
        self._last: Step | None = None
        self._tools: dict[str, None] = {}
        self._steps: Counter[tuple[str, str]] = Counter()

    def add(self, step: Step) -> None:
        """Count a step; those of a session come one after another, in the order of their calls."""
        last, self._last = self._last, step
        session, at_ms, tool = step
        if last is None or last.session != session or at_ms - last.at_ms > GAP_MS or not session:
            self._end_session()
        elif last.tool != tool:
            self._steps[last.tool, tool] += 1
        tools = self._tools
        if tool not in tools and len(tools) < MOST_TOOLS:
            tools[tool] = None

    def counted(self) -> Sequences:
        """Return the counts of all steps so far."""
        self._end_session()
        self._last = None
        return Sequences(_most_counted(self._used_with), _most_counted(self._followed_by))

    def _end_session(self) -> None:
        tools, steps = self._tools, self._steps
        if len(tools) > 1:
            self._used_with.update(combinations(sorted(tools), 2))
            for (first, second), n in steps.items():
                if first in tools and second in tools:
                    self._followed_by[first, second] += min(n, MOST_STEPS)
            steps.clear()
        tools.clear()


def _most_counted(pairs: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the pairs that count most, in order of the alphabet."""
    counted = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return dict(sorted(counted[:MOST_PAIRS]))


def sequences(steps: Iterable[Step]) -> Sequences:
    """Return what goes together in steps; those of a session come one after another, in the order of their calls."""
    counter = SequenceCounter()
    for step in steps:
        counter.add(step)
    return counter.counted()
