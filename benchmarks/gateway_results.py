"""The tables and goals of `gateway.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.gateway_fronts import COMPLETE_S
from benchmarks.gateway_load import N_CALLERS, Load
from benchmarks.gateway_measures import Broken, Starts
from benchmarks.goals import Goal
from benchmarks.measure import CLOCKS, Rounds, Spread, spread

DIRECT = "upstream, direct"
WIRES = ("modern", "legacy")
_MORE_MS, _MORE_MIB, _MORE_S = 0.7, 60.0, 1.0
_CALL_MS, _LIST_MS = 1.2 if find_spec("uvloop") else 1.4, 1.4
"""Milliseconds of the gateway's own processor time that a call, and a list of 52 tools, may take."""
HUB = "mcp-hub"


@dataclass
class GatewayResults:
    """Everything that a run measured.

    Args:
        n_tools: how many tools the seven servers list.
        warm: starts of contenders that were started before, by way: `stdio`, `http`.
        beside: the same of other gateways, which take seconds, in fewer rounds.
        first: starts of contenders that never were.
        slowest: the server that takes longest to its list, alone, and how many seconds.
        lists, calls: over HTTP, by `contender/wire`.
        slow_lists, slow_calls: the same of FastMCP's proxy, where each takes seconds.
        resident_mib: of each contender itself, with 14 upstreams running.
        loads: 1,000 tools and 64 callers, by era and contender.
        broken: with three broken servers, by what those do and contender.
        notes: what could not be run, and why.
    """

    n_tools: int = 0
    warm: dict[str, Starts] = field(default_factory=dict)
    beside: dict[str, Starts] = field(default_factory=dict)
    first: Starts = field(default_factory=lambda: Starts(Rounds(), {}))
    slowest: tuple[str, float] = ("", 0.0)
    lists: Rounds = field(default_factory=Rounds)
    calls: Rounds = field(default_factory=Rounds)
    slow_lists: Rounds = field(default_factory=Rounds)
    slow_calls: Rounds = field(default_factory=Rounds)
    resident_mib: Mapping[str, Sequence[float]] = field(default_factory=dict)
    loads: dict[str, Mapping[str, Load]] = field(default_factory=dict)
    broken: dict[str, Mapping[str, Broken]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def show(results: GatewayResults, console: Console) -> None:
    """Print every table, the goals last."""
    for note in results.notes:
        console.print(f"left out: {note}", style="yellow", highlight=False)
    tables = []
    for way, starts in results.warm.items():
        tables.append(_starts(f"warm start over {way} to all {results.n_tools} tools", starts, results.beside.get(way)))
    if results.first.rounds.n:
        tables.append(
            _starts("first start ever over http to all tools; others but ours start so every time", results.first)
        )
    if results.lists.n:
        tables.append(_requests(f"tools/list over HTTP, {results.n_tools} tools", results.lists, results.slow_lists))
        tables.append(_requests("a call of the echo over HTTP", results.calls, results.slow_calls))
        tables.append(_stages(results.calls))
    if results.resident_mib:
        tables.append(_resident(results.resident_mib))
    tables += [_loads(era, served) for era, served in results.loads.items()]
    tables += [_broken(title, broken) for title, broken in results.broken.items()]
    for table in (*tables, _goals(goals(results))):
        console.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, heading in enumerate(columns):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table


def _quartiles(values: Sequence[float], form: str) -> str:
    """Return `median (lower quartile to upper quartile)`."""
    ordered = sorted(values)
    lower, upper = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4 - (len(ordered) % 4 == 0)]
    return f"{form.format(median(ordered))} ({form.format(lower)} to {form.format(upper)})"


def _starts(title: str, starts: Starts, beside: Starts | None = None) -> Table:
    columns = ("", "wall s (quartiles)", "own cpu s", "÷ bare, wall", "÷ bare, cpu", "running beneath", "rounds")
    table = _table(title, *columns)
    for part in filter(None, (starts, beside)):
        for lane, blocks in part.rounds.blocks.items():
            has_base = part is starts
            ratios = [
                starts.rounds.ratio(lane, "bare", clock).text("{:.2f}") if has_base else ""
                for clock in reversed(CLOCKS)
            ]
            wall = _quartiles(part.rounds.of_blocks(lane, "wall"), "{:.2f}")
            cpu = f"{median(part.rounds.of_blocks(lane, 'cpu')):.2f}"
            table.add_row(lane, wall, cpu, *ratios, str(part.n_beneath.get(lane, 0)), str(len(blocks)))
    return table


def _requests(title: str, rounds: Rounds, slow: Rounds) -> Table:
    table = _table(
        *(title, "", "p50 ms", "p99 ms", "median of rounds (quartiles)", "own cpu ms", "÷ bare, wall", "÷, cpu"),
        f"÷ {HUB}, cpu",
    )
    for part in (rounds, slow):
        for lane in part.blocks:
            p50, p99 = (f"{1e3 * part.quantile(lane, q):.2f}" for q in (0.5, 0.99))
            base = f"bare/{lane.rpartition('/')[2]}" if "/" in lane else "bare/legacy"
            has_base = part is rounds
            ratios = [rounds.ratio(lane, base, clock).text("{:.2f}") if has_base else "" for clock in reversed(CLOCKS)]
            of_rounds = _quartiles([1e3 * each for each in part.of_blocks(lane, "wall")], "{:.2f}")
            cpu = f"{1e3 * median(part.of_blocks(lane, 'cpu')):.2f}"
            beside = rounds.ratio(lane, HUB, "cpu").text("{:.2f}") if has_base and HUB in rounds.blocks else ""
            table.add_row(lane, p50, p99, of_rounds, cpu, *ratios, beside)
    return table


def _more(rounds: Rounds, lane: str, *bases: str) -> Spread:
    """Return by how many milliseconds a lane takes longer than others together, round by round."""
    others = zip(*(rounds.of_blocks(base, "wall") for base in bases), strict=True)
    return spread(
        [1e3 * (mine - sum(theirs)) for mine, theirs in zip(rounds.of_blocks(lane, "wall"), others, strict=True)]
    )


def _stages(calls: Rounds) -> Table:
    table = _table("what a call through a gateway adds to a local one, ms", "", *WIRES)
    direct = spread([1e3 * each for each in calls.of_blocks(DIRECT, "wall")]).text("{:.2f}")
    table.add_row("the upstream itself, called by a program through the SDK's client", *[direct] * len(WIRES))
    stages = {
        "kept, less bare: FastMCP's server with the SDK's client in a tool": ("kept", "bare"),
        "ours, less kept: what is ours": ("ours", "kept"),
        "ours, less bare: all of it": ("ours", "bare"),
    }
    for stage, (lane, base) in stages.items():
        table.add_row(stage, *(_more(calls, f"{lane}/{wire}", f"{base}/{wire}").text("{:+.2f}") for wire in WIRES))
    return table


def _resident(resident_mib: Mapping[str, Sequence[float]]) -> Table:
    table = _table("resident memory of the process itself, 14 upstreams running", "", "MiB", "more than bare")
    for kind, found in resident_mib.items():
        table.add_row(kind, f"{median(found):.1f}", f"{median(found) - median(resident_mib['bare']):+.1f}")
    return table


def _loads(era: str, loads: Mapping[str, Load]) -> Table:
    table = _table(
        f"1,000 upstream tools, {N_CALLERS} callers at once, {era}",
        *("", "calls/s (quartiles)", "÷ bare", "p50 ms", "p99 ms", "own cpu ms a call"),
    )
    for kind, load in loads.items():
        ratio = load.ratio(loads["bare"]).text("{:.2f}")
        times = (f"{load.ms(q):.0f}" for q in (0.5, 0.99))
        table.add_row(kind, _quartiles(load.per_s, "{:.0f}"), ratio, *times, f"{median(load.cpu_ms):.2f}")
    return table


def _broken(title: str, broken: Mapping[str, Broken]) -> Table:
    table = _table(title, "", "all tools of the four, s", "list again, ms", "a call, ms")
    for kind, found in broken.items():
        first = f"{median(found.first_s):.2f}" if found.first_s else f"not in {COMPLETE_S}"
        again = (f"{1e3 * median(seconds):,.1f}" if seconds else "-" for seconds in (found.list_s, found.call_s))
        table.add_row(kind, first, *again)
    return table


def goals(results: GatewayResults) -> list[Goal]:
    """Return every goal of what was measured with its verdict, by the median over the rounds."""
    verdicts = [goal for way, starts in results.warm.items() for goal in _of_a_warm_start(way, starts)]
    if results.first.rounds.n:
        first, (name, slowest_s) = median(results.first.rounds.of_blocks("ours", "wall")), results.slowest
        limit = f"≤ {name} alone ({slowest_s:.2f} s) + {_MORE_S:.0f} s"
        verdicts.append(Goal("first start ever", limit, f"{first:.2f} s", first <= slowest_s + _MORE_S))
    for wire in WIRES if results.lists.n else ():
        verdicts += _of_requests(wire, results.lists, results.calls)
    if results.resident_mib:
        mib = median(results.resident_mib["ours"]) - median(results.resident_mib["bare"])
        verdicts.append(Goal("resident memory, 14 upstreams", "≤ bare + 60 MiB", f"{mib:+.1f} MiB", mib <= _MORE_MIB))
    return verdicts


def _of_a_warm_start(way: str, starts: Starts) -> list[Goal]:
    verdicts = []
    for clock in CLOCKS:
        ratio = starts.rounds.ratio("ours", "bare", clock)
        name = f"warm start over {way} to the complete list, {clock}"
        verdicts.append(Goal(name, "≤ 1.15 x bare", f"{ratio.text('{:.2f}')} x", ratio.median <= 1.15))
    n_running = starts.n_beneath["ours"]
    return [*verdicts, Goal("  upstream processes running after it", "0", str(n_running), n_running == 0)]


def _of_requests(wire: str, lists: Rounds, calls: Rounds) -> list[Goal]:
    verdicts = []
    for clock in CLOCKS:
        ratio = lists.ratio(f"ours/{wire}", f"bare/{wire}", clock)
        name = f"list over HTTP, {wire}, {clock}"
        verdicts.append(Goal(name, "≤ 1.1 x bare", f"{ratio.text('{:.2f}')} x", ratio.median <= 1.1))
    for what, rounds, most_ms in (("call", calls, _CALL_MS), ("list", lists, _LIST_MS)):
        own = spread([1e3 * each for each in rounds.of_blocks(f"ours/{wire}", "cpu")])
        verdicts.append(
            Goal(f"own cpu of a {what}, {wire}", f"≤ {most_ms} ms", f"{own.text('{:.2f}')} ms", own.median <= most_ms)
        )
        if HUB in rounds.blocks:
            beside = rounds.ratio(f"ours/{wire}", HUB, "cpu").text("{:.2f}")
            verdicts.append(Goal(f"  the same, beside {HUB}", "", f"{beside} x", None))
    more = _more(calls, f"ours/{wire}", f"bare/{wire}", DIRECT)
    limit = f"≤ bare + direct + {_MORE_MS} ms"
    return [*verdicts, Goal(f"call over HTTP, {wire}", limit, f"{more.text('{:+.2f}')} ms", more.median <= _MORE_MS)]


def _goals(verdicts: Sequence[Goal]) -> Table:
    table = _table("goals: median [95 % interval of it]", "goal", "limit", "measured", "met?")
    for goal in verdicts:
        met = "" if goal.met is None else "[green]yes[/]" if goal.met else "[red]no[/]"
        table.add_row(goal.name, goal.limit, goal.measured, met)
    return table
