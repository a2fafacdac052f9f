"""Three replicas as the simulation predicts them from one, beside what they do: `fleet.py --predict`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean, median

from rich.console import Console
from rich.table import Table

from benchmarks.fleet_processes import PERIOD_S, QUOTA_S, Fleet
from benchmarks.fleet_replicas import N_EACH, N_REPLICAS, Block, quiet_block
from benchmarks.http_lane import Era
from benchmarks.measure import quantile
from benchmarks.simulation import Model, simulate

LOADS = (0.5, 0.8)
GOALS = {0.5: 0.15, 0.99: 0.30}
"""The most that a prediction may be off, by quantile."""
_N_CALLERS = 64
_N_SIMULATED = 40_000


@dataclass
class One:
    """What one replica was measured to take, round by round.

    Args:
        alone: requests one after the other, where the replica was held to nothing.
        full: as many at once as it serves, where it was held.
        half: at half of that, at random times.
        idle_share: of a processor, what a replica uses that is asked nothing.
    """

    alone: list[Block] = field(default_factory=list)
    full: list[Block] = field(default_factory=list)
    half: list[Block] = field(default_factory=list)
    idle_share: float = 0.0

    @property
    def per_s(self) -> float:
        """Requests a second that one replica serves at most."""
        return median(each.per_s for each in self.full)

    def model(self) -> Model:
        """Return the model of a replica.

        Requests differ as those did that came one by one, and take on the average the processor time of those that
        came many at once. One that finds its replica idle takes as much more as half the load was measured to, and so
        do sockets, balancer and client: what is around a request is what half the load's median has left for it.
        """
        walls = [wall for each in self.alone for wall in each.walls]
        most_s = quantile(walls, 0.99)  # what took longer waited for others on this machine
        works = [min(wall, most_s) for wall in walls]
        hot_s, half_s = cpu_s(self.full, 1), cpu_s(self.half, 1)
        scale, per_s = hot_s / fmean(works), LOADS[0] * self.per_s
        busy = per_s * half_s  # of the time, so that as many requests find it so
        cold = max(1.0, (half_s / hot_s - busy) / (1 - busy))
        model = Model(lambda draw: scale * draw.choice(works), 0.0, QUOTA_S, PERIOD_S, self.idle_share, cold)
        took_s = median(quantile(each.walls, 0.5) for each in self.half)
        around_s = took_s - quantile(simulate(model, 1, per_s, _N_SIMULATED).walls, 0.5)
        return replace(model, around_s=max(0.0, around_s))


def cpu_s(blocks: Sequence[Block], n: int) -> float:
    """Return the processor time of a request, of the first replicas together: the median of blocks."""
    return median(sum(each.cpu_s[f"replica {i}"] for i in range(n)) / len(each.walls) for each in blocks)


def compare(fleet: Fleet, era: Era, rounds: int, seconds: float) -> tuple[One, list[Block], dict[float, list[Block]]]:
    """Return what one replica takes, what three do at most and at each load, in an order drawn anew each round."""
    one, most, three = One(), list[Block](), {load: list[Block]() for load in LOADS}
    before, began_s = fleet.cpu_s()["replica 0"], time.perf_counter()
    time.sleep(seconds / 2)
    one.idle_share = (fleet.cpu_s()["replica 0"] - before) / (time.perf_counter() - began_s)

    def run(n: int, n_callers: int, load: float = 0) -> Block:
        at = load * median(each.per_s for each in (one.full if n == 1 else most)) if load else 0
        return quiet_block(fleet, n, era, n_callers, seconds, at=at, seed=len(most))

    def alone() -> None:
        fleet.hold(None)
        one.alone.append(run(1, 1))
        fleet.hold(QUOTA_S)

    turns: list[Callable[[], None]] = [alone, lambda: one.half.append(run(1, _N_CALLERS, LOADS[0]))]
    turns += [lambda load=load: three[load].append(run(N_REPLICAS, _N_CALLERS, load)) for load in LOADS]  # type: ignore[misc]
    for number in range(rounds):
        one.full.append(run(1, N_EACH))  # loads are shares of these
        most.append(run(N_REPLICAS, N_REPLICAS * N_EACH))
        Random(number).shuffle(turns)
        for turn in turns:
            turn()
    return one, most, three


def predict(fleet: Fleet, eras: Sequence[Era], rounds: int, seconds: float, console: Console) -> None:
    """Print predictions beside what was measured, in each era: medians of the rounds' quantiles."""
    for era in eras:
        one, most, three = compare(fleet, era, rounds, seconds)
        model = one.model()
        table = Table(title=f"{era}: {N_REPLICAS} replicas, predicted from one", title_justify="left")
        for heading in "load|requests/s|requests|cpu ms a request|p50 ms: measured, predicted, off|p99 ms|others".split(
            "|"
        ):
            table.add_column(heading, justify="right")
        for load, blocks in three.items():
            per_s = load * median(each.per_s for each in most)
            simulated = simulate(model, N_REPLICAS, per_s, _N_SIMULATED).walls
            cells = []
            for q, goal in GOALS.items():
                measured_s = median(quantile(each.walls, q) for each in blocks)
                predicted_s = quantile(simulated, q)
                off = f"{predicted_s / measured_s - 1:+.0%} (goal {goal:.0%})"
                cells.append(f"{1000 * measured_s:.1f}, {1000 * predicted_s:.1f}, {off}")
            others = median(each.others for each in blocks)
            n_requests = sum(len(each.walls) for each in blocks)
            took_ms = 1000 * cpu_s(blocks, N_REPLICAS)
            table.add_row(f"{load:.0%}", f"{per_s:.1f}", f"{n_requests:,}", f"{took_ms:.2f}", *cells, f"{others:.0%}")
        console.print(table)
        told = {
            "requests/s at most": one.per_s,
            "of three": median(each.per_s for each in most),
            "half p50 ms": 1000 * median(quantile(each.walls, 0.5) for each in one.half),
            "cpu ms: alone": 1000 * cpu_s(one.alone, 1),
            "half": 1000 * cpu_s(one.half, 1),
            "full": 1000 * cpu_s(one.full, 1),
            "around ms": 1000 * model.around_s,
            "cold": model.cold,
            "idle %": 100 * one.idle_share,
        }
        console.print({name: round(value, 2) for name, value in told.items()})
