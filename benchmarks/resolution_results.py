"""What `resolution.py` measured, whether it keeps the limits, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Goal
from benchmarks.measure import Rounds, quantile, spread
from benchmarks.resolution_startup import CONTROL, FRESH, KEPT, NEO4J, OFF

Pairs = list[list[float]]
"""Wall and processor seconds of each call."""

WITHOUT, AGAIN, WITH = "no query", "no query again", "query"


@dataclass
class Resolved:
    """Queries of one kind on one backend: each asked a first time, then again and again."""

    cold: Pairs = field(default_factory=list)
    warm: Pairs = field(default_factory=list)
    n_found: list[int] = field(default_factory=list)

    def extend(self, cold: Pairs, warm: Pairs, n_found: list[int]) -> None:
        """Append what another process answered."""
        self.cold += cold
        self.warm += warm
        self.n_found += n_found


@dataclass
class Results:
    """Everything that a run measured, by catalog size; what could not be run is in the notes.

    Args:
        resolved: by backend, then size, then kind of query.
        added: `tools/list` in the server with and without a query, by size, then what is compared, then lane.
        beside: from a query to its answer, by size, then contender.
        lags: by backend, then size, then load.
        starts: to the first list over HTTP, by size.
    """

    resolved: dict[str, dict[int, dict[str, Resolved]]] = field(default_factory=dict)
    added: dict[int, dict[str, dict[str, Pairs]]] = field(default_factory=dict)
    beside: dict[int, dict[str, tuple[Pairs, str]]] = field(default_factory=dict)
    lags: dict[str, dict[int, dict[str, dict[str, Any]]]] = field(default_factory=dict)
    starts: dict[int, Rounds] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, in seconds."""
        return {
            "resolved": {
                backend: {n: {kind: vars(each) for kind, each in kinds.items()} for n, kinds in sizes.items()}
                for backend, sizes in self.resolved.items()
            },
            "added": self.added,
            "beside": self.beside,
            "lags": self.lags,
            "starts": {n: each.as_dict() for n, each in self.starts.items()},
            "notes": self.notes,
        }


def walls(pairs: Pairs) -> list[float]:
    """Return the wall seconds."""
    return [pair[0] for pair in pairs]


def cpus(pairs: Pairs) -> list[float]:
    """Return the processor seconds."""
    return [pair[1] for pair in pairs]


def goals(results: Results) -> list[Goal]:
    """Return every goal with its verdict."""
    found: list[Goal] = []
    largest = max(results.added)
    for what, lanes in results.added[largest].items():
        for q, limit_ms in ((0.5, 0.2), (0.99, 1.0)):
            base = quantile(cpus(lanes[WITHOUT]), q)
            more_ms, noise_ms = (1e3 * (quantile(cpus(lanes[lane]), q) - base) for lane in (WITH, AGAIN))
            name = f"a warm query adds to {what}, {largest:,} tools, p{100 * q:.0f}"
            found.append(
                Goal(name, f"≤ {limit_ms} ms", f"{more_ms:+.3f} ms (noise {noise_ms:+.3f})", more_ms <= limit_ms)
            )
    for kind, each in results.resolved["embedded"][largest].items():
        p50_ms, p99_ms = (1e3 * quantile(walls(each.cold), q) for q in (0.5, 0.99))
        text = f"{p50_ms:.1f} ms p50, {p99_ms:.1f} ms p99"
        if late := sum(n < 0 for n in each.n_found):
            text += f", {late} of {len(each.n_found)} too late"
        found.append(Goal(f"cold, embedded, {largest:,} tools: {kind}", "≤ 25 ms p50", text, p50_ms <= 25))
    for backend, sizes in results.lags.items():
        for load, lag in sizes[largest].items():
            worst_ms = 1e3 * max(lag["blocked_s"])
            name = f"loop blocked, {backend}, {largest:,} tools: {load}"
            text = f"{worst_ms:.1f} ms"
            if lag["n_unanswered"]:
                text += f", {lag['n_unanswered']} of {lag['n_queries']} unanswered"
            judged = None if load == "idle" else worst_ms <= 10 and not lag["n_unanswered"]
            found.append(Goal(name, "≤ 10 ms" if judged is not None else "(noise)", text, judged))
    for n_tools, rounds in results.starts.items():
        for lane in (lane for lane in rounds.blocks if lane != OFF):
            ratio = rounds.ratio(lane, OFF, "wall")
            name = f"start to first list, {n_tools:,} tools: {lane}"
            judged = None if lane == CONTROL else ratio.median <= 1.02
            found.append(Goal(name, "≤ 1.02 x off" if judged is not None else "(noise)", f"{ratio.text()} x", judged))
    return found


def show(results: Results, console: Console) -> None:
    """Print every table, the goals last."""
    for note in results.notes:
        console.print(f"note: {note}", style="yellow", highlight=False)
    console.print(_resolved(results))
    console.print(_added(results))
    console.print(_beside(results))
    console.print(_lags(results))
    console.print(_starts(results))
    console.print(_goals(results))


def _table(title: str, *columns: str, n_left: int = 1) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, heading in enumerate(columns):
        table.add_column(heading, justify="left" if i < n_left else "right")
    return table


def _range(values: Sequence[float], unit: float, form: str = "{:,.2f}") -> str:
    return " / ".join(form.format(quantile(values, q) / unit) for q in (0.5, 0.99)) if values else ""


def _resolved(results: Results) -> Table:
    title = "Pipeline.resolve, wall p50 / p99; cold: asked for the first time"
    columns = ("backend", "query", "tools", "found", "cold ms", "late", "warm µs", "queries")
    table = _table(title, *columns, n_left=2)
    for backend, sizes in results.resolved.items():
        for n_tools, kinds in sizes.items():
            for kind, each in kinds.items():
                late = sum(n < 0 for n in each.n_found)
                answered = [n for n in each.n_found if n >= 0]
                size = f"{median(answered):,.0f}" if answered else ""
                cold, warm = _range(walls(each.cold), 1e-3), _range(walls(each.warm), 1e-6, "{:.1f}")
                table.add_row(backend, kind, f"{n_tools:,}", size, cold, str(late or ""), warm, str(len(each.cold)))
            table.add_section()
    return table


def _added(results: Results) -> Table:
    title = "what a query asked before adds to tools/list, embedded; processor time p50 / p99; lists of equal length"
    table = _table(title, "of what", "tools", WITHOUT, AGAIN, WITH, "adds ms", "calls", n_left=1)
    for n_tools, compared in results.added.items():
        for what, lanes in compared.items():
            cells = [_range(cpus(lanes[lane]), 1e-3, "{:,.3f}") for lane in (WITHOUT, AGAIN, WITH)]
            more = " / ".join(
                f"{1e3 * (quantile(cpus(lanes[WITH]), q) - quantile(cpus(lanes[WITHOUT]), q)):+.3f}"
                for q in (0.5, 0.99)
            )
            table.add_row(what, f"{n_tools:,}", *cells, more, str(len(lanes[WITH])))
        table.add_section()
    return table


def _beside(results: Results) -> Table:
    title = "from a query to its answer, in the server; wall p50 / p99; the same tools and queries for all"
    table = _table(title, "who", "tools", "ms", "answer", "calls")
    for n_tools, lanes in results.beside.items():
        for lane, (pairs, answer) in lanes.items():
            table.add_row(lane, f"{n_tools:,}", _range(walls(pairs), 1e-3), answer, str(len(pairs)))
        table.add_section()
    return table


def _lags(results: Results) -> Table:
    title = "how long the event loop was blocked, ms: p99 / max of a 1 ms tick; net of waiting for a processor; and raw"
    table = _table(title, "backend", "load", "tools", "blocked", "late (raw)", "longest gc", "ticks", n_left=2)
    for backend, sizes in results.lags.items():
        for n_tools, loads in sizes.items():
            for load, lag in loads.items():
                cells = [
                    f"{1e3 * quantile(lag[key], 0.99):.1f} / {1e3 * max(lag[key]):.1f}"
                    for key in ("blocked_s", "late_s")
                ]
                longest = f"{1e3 * lag['longest_collection_s']:.1f}"
                table.add_row(backend, load, f"{n_tools:,}", *cells, longest, str(len(lag["late_s"])))
            table.add_section()
    return table


def _starts(results: Results) -> Table:
    title = "from the start of a process to its first list over HTTP, no query; ratios to the graph off"
    table = _table(title, "graph", "tools", "ms p50", "wall ÷ off", "processor ÷ off", "processes")
    for n_tools, rounds in results.starts.items():
        for lane in (OFF, CONTROL, FRESH, KEPT, NEO4J):
            if lane in rounds.blocks:
                ratios = [rounds.ratio(lane, OFF, clock).text() for clock in ("wall", "cpu")]
                middle = f"{1e3 * spread(rounds.of_blocks(lane, 'wall')).median:,.0f}"
                table.add_row(lane, f"{n_tools:,}", middle, *ratios, str(rounds.n))
        table.add_section()
    return table


def _goals(results: Results) -> Table:
    table = _table("goals", "goal", "limit", "measured", "met?")
    for goal in goals(results):
        met = "" if goal.met is None else "[green]yes[/]" if goal.met else "[red]no[/]"
        table.add_row(goal.name, goal.limit, goal.measured, met)
    return table
