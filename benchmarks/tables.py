"""The tables of a run."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.commands import IMPORT
from benchmarks.contenders import BARE, CONTROL, OURS
from benchmarks.goals import goals
from benchmarks.measure import CLOCKS, Rounds
from benchmarks.results import SELECTIONS, Results, n_visible

_BASE = f"{BARE.lane}/none"


def show(results: Results, console: Console) -> None:
    """Print every table, the goals last."""
    for note in results.notes:
        console.print(f"left out: {note}", style="yellow", highlight=False)
    console.print(_by_size("tools/list in the server", results.lists))
    console.print(_by_size("tools/call in the server", results.calls))
    for era, found in results.http_lists.items():
        console.print(_by_size(f"tools/list over HTTP, {era}", found))
    console.print(_by_size("tools/call over HTTP, 2026-07-28", results.http_calls))
    console.print(_decisions(results.decisions))
    console.print(_processes(results))
    console.print(_commands(results.commands))
    console.print(_goals(results))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, heading in enumerate(columns):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table


def _by_size(title: str, found: Mapping[int, Rounds]) -> Table:
    told = dict.fromkeys(key.partition("/")[0] for rounds in found.values() for key in rounds.blocks)
    lanes = [lane for lane in told if lane != CONTROL.lane]
    milliseconds = [f"{lane} ms" for lane in lanes]
    ratios = [f"{lane} ÷ bare" for lane in lanes if lane != BARE.lane]
    title += ": wall p50 / p99, ratio of processor time"
    table = _table(title, "selection", "tools", "shown", *milliseconds, *ratios, "rounds")
    for n_tools, rounds in found.items():
        for selection in SELECTIONS:
            if f"{OURS.lane}/{selection}" not in rounds.blocks:
                continue
            cells, shares = [], []
            for lane in lanes:
                key = f"{lane}/{selection}"
                if key not in rounds.blocks:
                    cells.append("shows all")
                    continue
                p50, p99 = (1e3 * rounds.quantile(key, q) for q in (0.5, 0.99))
                cells.append(f"{p50:.2f} / {p99:.2f}")
                if lane != BARE.lane:
                    shares.append(rounds.ratio(key, _BASE, "cpu").text())
            shown = n_visible(selection, n_tools)
            table.add_row(selection, f"{n_tools:,}", f"{shown:,}", *cells, *shares, str(rounds.n))
        table.add_section()
    return table


def _decisions(rounds: Rounds) -> Table:
    table = _table("a decision at 1,000 tools, microseconds", "step", "p50", "p99")
    for lane in rounds.blocks:
        table.add_row(lane, *(f"{1e6 * rounds.quantile(lane, q, 'cpu'):,.1f}" for q in (0.5, 0.99)))
    return table


def _processes(results: Results) -> Table:
    table = _table("fresh processes: ratio of processor time; of wall time", "", *results.imports.blocks)
    for name, rounds in (("import ms", results.imports), ("stdio launch to first list ms", results.launches)):
        table.add_row(name, *(f"{1e3 * rounds.quantile(lane, 0.5):.0f}" for lane in rounds.blocks))
        for clock in CLOCKS:
            table.add_row(
                f"  ÷ bare, {clock}", *(rounds.ratio(lane, BARE.lane, clock).text() for lane in rounds.blocks)
            )
    resident = (median(results.rss_bytes[lane]) / 2**20 for lane in results.imports.blocks)
    table.add_row("MiB resident after listing 1,000", *(f"{each:.1f}" for each in resident))
    return table


def _commands(rounds: Rounds) -> Table:
    table = _table("command lines: whole processes", "", "wall ms", "cpu ms", "÷ import of FastMCP, cpu")
    for lane in rounds.blocks:
        milliseconds = (f"{1e3 * rounds.quantile(lane, 0.5, clock):.0f}" for clock in ("wall", "cpu"))
        table.add_row(lane, *milliseconds, rounds.ratio(lane, IMPORT, "cpu").text())
    return table


def _goals(results: Results) -> Table:
    table = _table("goals: median [95 % interval of it]", "goal", "limit", "measured", "met?")
    for goal in goals(results):
        met = "" if goal.met is None else "[green]yes[/]" if goal.met else "[red]no[/]"
        table.add_row(goal.name, goal.limit, goal.measured, met)
    return table
