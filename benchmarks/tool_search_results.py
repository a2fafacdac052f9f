"""The tables and goals of `tool_search.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Goal
from benchmarks.measure import Rounds, quantile
from benchmarks.tool_search_lists import N_LISTED, N_MANY, OFF, OFF_AGAIN, OFF_BEFORE, added_ms, lanes_of
from benchmarks.tool_search_reach import N_SEARCHES, Reach
from benchmarks.tool_search_speed import NEW, Speed

SAVED, MOST_LISTED, MOST_MS, MOST_ADDED_MS, MOST_RATIO = 0.95, 1_500, 5.0, 0.3, 1.01
MOST_LISTED_AFTER = 3_500
"""Tokens listed after three searches, in the mean of the sets."""


@dataclass
class SearchResults:
    """Everything that a run measured.

    Args:
        reaches: by set, searcher and era.
        speeds: by catalog.
        lists: at 1,000 tools.
        listed: tokens that a server of 500 tools lists with tool search on, and off.
        notes: what could not be run, and why.
    """

    reaches: list[Reach] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)
    lists: Rounds = field(default_factory=Rounds)
    listed: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "reaches": [asdict(each) for each in self.reaches],
            "speeds": [asdict(each) for each in self.speeds],
            "lists": self.lists.as_dict(),
            "listed": self.listed,
            "notes": self.notes,
        }


def show(results: SearchResults, console: Console) -> None:
    """Print every table, the goals last."""
    for note in results.notes:
        console.print(f"left out: {note}", style="yellow", highlight=False)
    if results.reaches:
        console.print(_reaches(results.reaches))
    if results.speeds:
        console.print(_speeds(results.speeds))
    if results.lists.n:
        console.print(_lists(results.lists))
    console.print(_goals(goals(results)))


def goals(results: SearchResults) -> list[Goal]:
    """Return every goal of what was measured with its verdict."""
    ours = [reach for reach in results.reaches if reach.evaluated]
    pairs = dict.fromkeys((reach.name, reach.lane) for reach in ours)
    verdicts = [goal for pair in pairs for goal in _of_reach([each for each in ours if (each.name, each.lane) == pair])]
    for lane in dict.fromkeys(reach.lane for reach in ours):
        # Only in a session is what a search found listed.
        listed = fmean(reach.listed_after for reach in ours if reach.lane == lane and reach.era == "handshake")
        name = f"listed after {N_SEARCHES} searches, mean of sets, {lane}"
        met = listed <= MOST_LISTED_AFTER
        verdicts.append(Goal(name, f"≤ {MOST_LISTED_AFTER:,} tokens", f"{listed:,.0f}", met))
    for speed in results.speeds:
        p50 = quantile(speed.wall_ms[NEW], 0.5)
        name = f"search by words, {speed.n_tools:,} tools, p50"
        verdicts.append(Goal(name, f"≤ {MOST_MS:.0f} ms", f"{p50:.2f} ms", p50 <= MOST_MS))
    on, off = results.listed
    if off:
        measured = f"{on:,} of {off:,}"
        verdicts.append(Goal(f"tokens listed of {N_MANY} tools", f"≤ {MOST_LISTED:,}", measured, on <= MOST_LISTED))
    if results.lists.n:
        verdicts += _of_lists(results.lists)
    return verdicts


def _of_reach(reaches: Sequence[Reach]) -> list[Goal]:
    """Return the goals of one set and searcher, by the worse of the protocol's eras."""
    where = f"{reaches[0].name}, {reaches[0].lane}"
    wanted = reaches[0].evaluated[-1]
    found, saved = min(each.found for each in reaches), min(each.saved for each in reaches)
    return [
        Goal(f"reach: {where}", f"≥ R@10 of eval, {_percent(wanted)} %", f"{_percent(found)} %", found >= wanted),
        Goal(f"fewer tokens: {where}", f"≥ {SAVED:.0%}", f"{_percent(saved)} %", saved >= SAVED),
    ]


def _of_lists(rounds: Rounds) -> list[Goal]:
    verdicts = []
    name = f"list of {N_LISTED:,} tools with tool search off"
    if OFF_BEFORE in rounds.blocks:
        ratio = rounds.ratio(OFF, OFF_BEFORE, "cpu")
        verdicts.append(Goal(name, f"≤ {MOST_RATIO} x before", f"{ratio.text()} x", ratio.median <= MOST_RATIO))
    noise = rounds.ratio(OFF_AGAIN, OFF, "cpu")
    verdicts.append(Goal("  the same against itself (noise)", "", f"{noise.text()} x", None))
    added = added_ms(rounds)
    name = f"list of 7 of {N_LISTED:,} tools, tool search on"
    verdicts.append(Goal(name, f"≤ {MOST_ADDED_MS} ms more", f"{added.text()} ms", added.median <= MOST_ADDED_MS))
    return verdicts


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _reaches(reaches: Sequence[Reach]) -> Table:
    title = "One search a request: shares of the tools wanted, tokens of list and result, ms of the call"
    headings = "set|n|searcher|era|full|full, named|eval R@5, R@10|tokens|of|fewer|listed after|ms p50|p99"
    table = _table(title, *headings.split("|"))
    name = ""
    for reach in reaches:
        if name not in ("", reach.name):
            table.add_section()
        name = reach.name
        p50, p99 = (f"{quantile(reach.wall_ms, q):.1f}" for q in (0.5, 0.99))
        table.add_row(
            reach.name,
            str(len(reach.wall_ms)),
            reach.lane,
            reach.era,
            _percent(reach.full),
            _percent(reach.found),
            ", ".join(map(_percent, reach.evaluated)) or "-",
            f"{reach.tokens:,.0f}",
            f"{reach.all_tokens:,}",
            _percent(reach.saved),
            f"{reach.listed_after:,.0f}",
            p50,
            p99,
        )
    return table


def _speeds(speeds: Sequence[Speed]) -> Table:
    table = _table("A search in process, by words alone: ms", "tools", "asked", "p50", "p99")
    for speed in speeds:
        for asked, times in speed.wall_ms.items():
            table.add_row(f"{speed.n_tools:,}", asked, *(f"{quantile(times, q):.3f}" for q in (0.5, 0.99)))
        table.add_section()
    return table


def _lists(rounds: Rounds) -> Table:
    title = f"tools/list in the server, {N_LISTED:,} tools: ms of wall time, ratio of processor time"
    table = _table(title, "tool search", "p50", "p99", "÷ off")
    for lane in lanes_of(rounds):
        times = (f"{1e3 * rounds.quantile(lane, q):.2f}" for q in (0.5, 0.99))
        table.add_row(lane, *times, rounds.ratio(lane, OFF, "cpu").text())
    return table


def _goals(verdicts: Sequence[Goal]) -> Table:
    table = _table("goals: median [95 % interval of it]", "goal", "limit", "measured", "met?")
    for goal in verdicts:
        met = "" if goal.met is None else "[green]yes[/]" if goal.met else "[red]no[/]"
        table.add_row(goal.name, goal.limit, goal.measured, met)
    return table
