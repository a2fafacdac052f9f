"""The limits this factory keeps, and whether a run shows them kept."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.commands import IMPORT, OWN, SERVER
from benchmarks.contenders import BARE, CONTROL, OURS
from benchmarks.decisions import CACHED, UNCACHED
from benchmarks.measure import spread
from benchmarks.results import Results


@dataclass(frozen=True)
class Goal:
    """One limit and what was measured; `met` is None for what only tells how exact the others are."""

    name: str
    limit: str
    measured: str
    met: bool | None


def goals(results: Results) -> list[Goal]:
    """Return every goal with its verdict, by the median, on processor time."""
    bare, control = f"{BARE.lane}/none", f"{CONTROL.lane}/none"
    verdicts = []
    for n_tools, rounds in results.lists.items():
        ratio = rounds.ratio(f"{OURS.lane}/none", bare, "cpu")
        noise = rounds.ratio(control, bare, "cpu")
        name = f"list in the server, {n_tools:,} tools, no selection"
        verdicts.append(Goal(name, "≤ 1.03 x bare", f"{ratio.text()} x", ratio.median <= 1.03))
        verdicts.append(Goal("  the same, bare against itself (noise)", "", f"{noise.text()} x", None))
    if 1000 in results.lists:
        faster = results.lists[1000].ratio(bare, f"{OURS.lane}/5 tools", "cpu")
        verdicts.append(
            Goal(
                "list in the server, 5 of 1,000",
                "≥ 8 x faster",
                f"{faster.text('{:.1f}')} x",
                faster.median >= 8,
            )
        )
    cached = spread([1e6 * seconds for seconds in results.decisions.of_blocks(CACHED, "cpu")])
    verdicts.append(Goal("decision cached, 1,000 tools", "≤ 10 µs", f"{cached.text('{:.1f}')} µs", cached.median <= 10))
    slowest = max((spread(results.decisions.of_blocks(lane, "cpu")) for lane in UNCACHED), key=lambda s: s.median)
    text = f"{1e3 * slowest.median:.3f} [{1e3 * slowest.low:.3f}, {1e3 * slowest.high:.3f}] ms"
    verdicts.append(Goal("decision uncached, 1,000 tools", "≤ 1 ms", text, slowest.median <= 1e-3))
    imports = results.imports.ratio(OURS.lane, BARE.lane, "cpu")
    verdicts.append(Goal("import", "≤ 1.08 x bare", f"{imports.text()} x", imports.median <= 1.08))
    launch = results.launches.ratio(OURS.lane, BARE.lane, "cpu")
    verdicts.append(Goal("stdio launch to first list", "≤ 1.15 x bare", f"{launch.text()} x", launch.median <= 1.15))
    for typed in SERVER:
        ratio = results.commands.ratio(typed, IMPORT, "cpu")
        verdicts.append(Goal(typed, "≤ 1.15 x import of FastMCP", f"{ratio.text()} x", ratio.median <= 1.15))
    for typed in OWN:
        took = spread(results.commands.of_blocks(typed, "cpu"))
        verdicts.append(Goal(typed, "≤ 0.5 s", f"{took.text('{:.2f}')} s", took.median <= 0.5))
    more = (median(results.rss_bytes[OURS.lane]) - median(results.rss_bytes[BARE.lane])) / 2**20
    verdicts.append(Goal("resident set after listing 1,000", "≤ bare + 30 MiB", f"{more:+.1f} MiB", more <= 30))
    return verdicts
