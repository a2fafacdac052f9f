"""Served queries over real HTTP: are they as good as `agent-utilities eval` says, and how fast?

python benchmarks/served.py             # some ten minutes
python benchmarks/served.py --quick     # in under three minutes: fewer requests, no 10,000 tools
python benchmarks/served.py --rate      # only lists cut to 5 tools
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from benchmarks.measure import spread
from benchmarks.served_rate import GOAL, N_CLIENTS, N_SHOWN, Rate, measure_rates

SIZES = (100, 1_000, 10_000)


def rate_table(rates: list[Rate]) -> Table:
    """Return what `measure_rates` gives, beside the first of it."""
    title = f"Lists cut to {N_SHOWN} tools, {N_CLIENTS} clients; goal {GOAL} of a bare server with only those"
    table = Table(title=title, title_justify="left")
    for heading in ("server", "tools", "requests/s", ": bare", "cpu ms a request", "cpu bare :"):
        table.add_column(heading, justify="left" if heading == "server" else "right")
    base = rates[0]
    for rate in rates:
        per_s, cpu_ms = spread(rate.per_s).text("{:.0f}"), spread(rate.cpu_ms).text("{:.2f}")
        ratio, cpu_ratio = rate.ratio(base).text("{:.2f}"), rate.cpu_ratio(base).text("{:.2f}")
        table.add_row(rate.lane, f"{rate.n_tools:,}", per_s, ratio, cpu_ms, cpu_ratio)
    return table


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="in under three minutes")
    parser.add_argument("--rate", action="store_true", help="only lists cut to 5 tools")
    given = parser.parse_args()
    console = Console(width=130)
    sizes = SIZES[:2] if given.quick else SIZES
    console.print(rate_table(measure_rates(sizes, n_rounds=5 if given.quick else 9, block_s=1.0)))


if __name__ == "__main__":
    main()
