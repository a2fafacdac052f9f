"""Timing primitives: interleaved rounds, and ratios with their spread.

Contenders take turns round by round, in an order drawn anew each time, so that whatever else the machine does hits
all alike; a ratio is formed within each round, and the median over the rounds is what is reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Literal

Clock = Literal["wall", "cpu"]
CLOCKS: tuple[Clock, ...] = ("cpu", "wall")


@dataclass(frozen=True, slots=True)
class Timing:
    """What one call took.

    Args:
        wall_s: seconds that went by, with everything in them.
        cpu_s: seconds of processor time, which other load on the machine does not add to. In a worker it is net of
            full garbage collections, whose cost goes by the whole process's heap and falls on a call by chance.
    """

    wall_s: float
    cpu_s: float

    def on(self, clock: Clock) -> float:
        """Return the seconds on a clock."""
        return self.wall_s if clock == "wall" else self.cpu_s


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the interval that holds the true one at 95 %, and how many values it comes from."""

    median: float
    low: float
    high: float
    n: int

    def text(self, form: str = "{:.3f}") -> str:
        """Return `median [low, high]`, each number in a format."""
        return f"{form.format(self.median)} [{form.format(self.low)}, {form.format(self.high)}]"


def spread(values: Sequence[float]) -> Spread:
    """Return the median of values and its 95 % interval by order statistics, which assumes no distribution.

    Under six values the interval is the least and the greatest.

    Source: David & Nagaraja, Order Statistics, section 7.1 (normal approximation to the binomial).
    """
    ordered = sorted(values)
    n = len(ordered)
    below = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    return Spread(median(ordered), ordered[below], ordered[n - 1 - below], n)


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile by the nearest rank, 0 < q <= 1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


Lane = Callable[[int], Sequence[Timing]]
"""Makes a number of calls of one contender in one case, and returns the timing of each."""


@dataclass
class Rounds:
    """The timings of several lanes, round by round: `blocks[lane][round]` holds the calls of one block."""

    blocks: dict[str, list[list[Timing]]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """The number of rounds."""
        return min((len(blocks) for blocks in self.blocks.values()), default=0)

    def extend(self, other: Rounds) -> None:
        """Append the rounds of another run of the same lanes."""
        for lane, blocks in other.blocks.items():
            self.blocks.setdefault(lane, []).extend(blocks)

    def quantile(self, lane: str, q: float, clock: Clock = "wall") -> float:
        """Return a quantile of all calls of a lane, in seconds."""
        return quantile([call.on(clock) for block in self.blocks[lane] for call in block], q)

    def of_blocks(self, lane: str, clock: Clock) -> list[float]:
        """Return the median of each block, in seconds."""
        return [median(call.on(clock) for call in block) for block in self.blocks[lane]]

    def as_dict(self) -> dict[str, dict[str, list[float]]]:
        """Return the median of each block in seconds, by lane and clock."""
        return {
            lane: {"wall_s": self.of_blocks(lane, "wall"), "cpu_s": self.of_blocks(lane, "cpu")} for lane in self.blocks
        }

    def ratio(self, lane: str, base: str, clock: Clock) -> Spread:
        """Return how many times the base's time a lane takes: the median of the ratios within each round."""
        pairs = zip(self.of_blocks(lane, clock), self.of_blocks(base, clock), strict=True)
        return spread([mine / theirs for mine, theirs in pairs])


def interleave(
    lanes: Mapping[str, Lane],
    *,
    budget_s: float,
    block_s: float = 0.03,
    min_rounds: int = 5,
    max_rounds: int = 400,
    max_calls: int = 64,
) -> Rounds:
    """Run lanes in turns until a time budget is spent, and return their timings; a first block warms each up.

    Args:
        lanes: what to run, by name.
        budget_s: seconds after which no further round begins, once `min_rounds` are done.
        block_s: seconds that a block of calls aims to take.
        min_rounds: rounds to run whatever they take.
        max_rounds: rounds after which to stop with budget left.
        max_calls: the most calls of a block.
    """
    n_calls = {}
    for name, lane in lanes.items():
        fastest = min(call.wall_s for _ in range(2) for call in lane(1))
        n_calls[name] = max(1, min(max_calls, round(block_s / max(fastest, 1e-9))))
    order, shuffle = list(lanes), Random(0).shuffle
    rounds = Rounds({name: [] for name in order})
    started = time.perf_counter()
    while rounds.n < max_rounds and (rounds.n < min_rounds or time.perf_counter() - started < budget_s):
        for name in order:
            rounds.blocks[name].append(list(lanes[name](n_calls[name])))
        shuffle(order)
    return rounds
