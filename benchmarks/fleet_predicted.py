"""Three replicas as the simulation predicts them from one, beside what they do: `fleet.py --predict`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks.fleet_processes import PERIOD_S, QUOTA_S, Fleet
from benchmarks.fleet_replicas import N_EACH, N_REPLICAS, Block, block
from benchmarks.http_lane import ERAS, Era
from benchmarks.measure import quantile
from benchmarks.simulation import Model, simulate

LOADS = (0.5, 0.8)
GOALS = {0.5: 0.15, 0.99: 0.30}
"""The most that a prediction may be off, by quantile."""
SLICE_S = 0.001
"""Seconds after which a request's replica turns to another: about what one of its steps on the event loop takes."""
_N_CALLERS = 128
_N_SIMULATED = 60_000


@dataclass(frozen=True)
class Calibration:
    """What one replica takes.

    Args:
        walls: seconds that requests took one after the other, where the replica was held to nothing.
        cpu_s: of those, what one took of the replica's processor time.
        idle_share: of a processor, what a replica uses that is asked nothing.
        per_s: requests a second that it serves when held, at most.
        full_cpu_s: processor time of a request then.
    """

    walls: Sequence[float]
    cpu_s: float
    idle_share: float
    per_s: float
    full_cpu_s: float

    def model(self, cpu_s: float) -> Model:
        """Return the model of a replica, requests of which take so many seconds of it on the average.

        They differ as those did that came one by one; what these took beyond the replica's processor time is around.
        """
        around_s = max(0.0, fmean(self.walls) - self.cpu_s)
        works = [max(wall - around_s, 0.1 * self.cpu_s) for wall in self.walls]
        scale = cpu_s / fmean(works)
        return Model(
            lambda draw: scale * draw.choice(works), around_s, QUOTA_S, PERIOD_S, self.idle_share, slice_s=SLICE_S
        )


def calibrate(fleet: Fleet, era: Era, seconds: float) -> Calibration:
    """Return what one replica takes; replicas are held when it returns."""
    port = fleet.over(1)
    fleet.hold(None)
    alone = asyncio.run(block(fleet, port, era, 1, seconds))
    before, began_s = fleet.cpu_s()["replica 0"], time.perf_counter()
    time.sleep(seconds / 2)
    idle_share = (fleet.cpu_s()["replica 0"] - before) / (time.perf_counter() - began_s)
    fleet.hold(QUOTA_S)
    full = asyncio.run(block(fleet, port, era, N_EACH, seconds))
    return Calibration(alone.walls, _cpu_s([alone], 1), idle_share, full.per_s, _cpu_s([full], 1))


def _cpu_s(blocks: Sequence[Block], n: int) -> float:
    used = sum(each.cpu_s[f"replica {i}"] for each in blocks for i in range(n))
    return used / sum(len(each.walls) for each in blocks)


@dataclass
class Compared:
    """One load: what one and three replicas did, and what they were predicted to do.

    Args:
        load: of what as many replicas serve at most, by what one does.
        n: how many replicas.
        per_s: requests a second.
        cpu_s: of a request, as one replica was measured at this load.
        own_cpu_s: of a request, as these replicas were measured.
        measured: seconds that requests took.
        predicted: seconds that they take on paper.
    """

    load: float
    n: int
    per_s: float
    cpu_s: float
    own_cpu_s: float
    measured: Sequence[float]
    predicted: Sequence[float]

    def off(self, q: float) -> float:
        """Return how far the prediction of a quantile is off, as a share of what was measured."""
        return quantile(self.predicted, q) / quantile(self.measured, q) - 1


def compare(fleet: Fleet, era: Era, rounds: int, seconds: float) -> tuple[Calibration, list[Compared]]:
    """Return how well the simulation predicts three replicas, and one, at each load; loads take turns."""
    calibration = calibrate(fleet, era, seconds)
    turns = [(load, n) for load in LOADS for n in (1, N_REPLICAS)]
    blocks: dict[tuple[float, int], list[Block]] = {turn: [] for turn in turns}
    for number in range(rounds):
        Random(number).shuffle(turns)
        for load, n in turns:
            at = load * n * calibration.per_s
            blocks[load, n].append(
                asyncio.run(block(fleet, fleet.over(n), era, _N_CALLERS, seconds, at=at, seed=number))
            )
    compared = []
    for load in LOADS:
        cpu_s = _cpu_s(blocks[load, 1], 1)
        for n in (1, N_REPLICAS):
            per_s = load * n * calibration.per_s
            walls = [wall for each in blocks[load, n] for wall in each.walls]
            predicted = simulate(calibration.model(cpu_s), n, per_s, _N_SIMULATED).walls
            compared.append(Compared(load, n, per_s, cpu_s, _cpu_s(blocks[load, n], n), walls, predicted))
    return calibration, compared


def predict(fleet: Fleet, rounds: int, seconds: float, console: Console) -> None:
    """Print predictions beside what was measured, in both eras."""
    for era in ERAS:
        calibration, compared = compare(fleet, era, rounds, seconds)
        title = f"{era}: predicted from one replica, which serves {calibration.per_s:.1f} requests/s at most"
        table = Table(title=title, title_justify="left")
        for (
            heading
        ) in "load|replicas|requests/s|requests|cpu ms: one, these|p50 ms: measured, predicted, off|p99 ms".split("|"):
            table.add_column(heading, justify="right")
        for each in compared:
            quantiles = []
            for q, goal in GOALS.items():
                took = ", ".join(f"{1000 * quantile(walls, q):.1f}" for walls in (each.measured, each.predicted))
                quantiles.append(f"{took}, {each.off(q):+.0%}" + (f" (goal {goal:.0%})" if each.n > 1 else ""))
            counts = [f"{each.load:.0%}", str(each.n), f"{each.per_s:.1f}", f"{len(each.measured):,}"]
            table.add_row(*counts, f"{1000 * each.cpu_s:.2f}, {1000 * each.own_cpu_s:.2f}", *quantiles)
        console.print(table)
        told = {
            "ms alone": 1000 * fmean(calibration.walls),
            "of it cpu ms": 1000 * calibration.cpu_s,
            "cpu ms at most": 1000 * calibration.full_cpu_s,
            "idle %": 100 * calibration.idle_share,
        }
        console.print({name: round(value, 2) for name, value in told.items()})
