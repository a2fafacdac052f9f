"""What many sessions and gateways would need, extrapolated from figures that `fleet.py --replicas` measured.

    python benchmarks/fleet_extrapolated.py

Nothing here was run at these sizes: each figure is multiplied up, and waiting is simulated.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from benchmarks.measure import quantile
from benchmarks.simulation import Model, simulate

LOAD = 0.6
"""Of a processor, what a gateway is meant to use."""
REQUESTS_PER_SESSION_S = 1 / 60
SIZES = (10_000, 100_000, 1_000_000)
_N_SIMULATED = 40_000
_MOST_SIMULATED = 200


@dataclass(frozen=True)
class Figures:
    """What was measured of requests of a session, half of them lists and half calls.

    Args:
        cpu_s: a gateway's processor time a request.
        news_s: processor time of each other gateway, which logs the usage of that request too.
        redis_s: Redis' processor time a request.
        redis_bytes: read and written by Redis a request, without usage.
        event_bytes: of the usage of a request, once each gateway that reads it.
        session_bytes: in Redis.
    """

    cpu_s: float
    news_s: float
    redis_s: float
    redis_bytes: float
    event_bytes: float
    session_bytes: float


MEASURED = Figures(4.6e-3, 13e-6, 0.15e-3, 1_240, 110, 1_280)


def gateways(figures: Figures, per_s: float, *, shares_usage: bool) -> float:
    """Return how many gateways of one processor are needed; infinite where usage of others takes all that each has."""
    room = LOAD - (per_s * figures.news_s if shares_usage else 0)
    return per_s * figures.cpu_s / room if room > 0 else inf


def table(figures: Figures) -> Table:
    """Return what each number of sessions needs."""
    title = f"Extrapolated: a request a minute of each session, gateways of one processor at {LOAD:.0%}"
    shown = Table(title=title, title_justify="left")
    for heading in (
        "sessions|requests/s|gateways, usage apart|usage shared|Redis GiB|Redis % of a processor|Redis MB/s|"
        "usage MB/s|p50, p99 ms on paper"
    ).split("|"):
        shown.add_column(heading, justify="right")
    for n_sessions in SIZES:
        per_s = n_sessions * REQUESTS_PER_SESSION_S
        apart, shared = (gateways(figures, per_s, shares_usage=shares) for shares in (False, True))
        usage = f"{per_s * figures.event_bytes * shared / 1e6:,.1f}" if shared < inf else "-"
        shown.add_row(
            f"{n_sessions:,}",
            f"{per_s:,.0f}",
            f"{ceil(apart):,}",
            f"{ceil(shared):,}" if shared < inf else "none is enough",
            f"{n_sessions * figures.session_bytes / 2**30:,.2f}",
            f"{100 * per_s * figures.redis_s:,.0f}",
            f"{per_s * figures.redis_bytes / 1e6:,.1f}",
            usage,
            _waits(figures, per_s, ceil(apart)),
        )
    return shown


def _waits(figures: Figures, per_s: float, n: int) -> str:
    if per_s * figures.redis_s >= 1:
        return "one Redis is not enough"
    model = Model(lambda draw: figures.cpu_s * draw.lognormvariate(-0.045, 0.3), redis_s=figures.redis_s)
    walls = simulate(model, min(n, _MOST_SIMULATED), per_s, _N_SIMULATED).walls
    return ", ".join(f"{1000 * quantile(walls, q):.1f}" for q in (0.5, 0.99))


def main() -> None:
    """Print the table, and where it ends."""
    console, figures = Console(width=max(150, Console().width)), MEASURED
    console.print(figures, highlight=False)
    console.print(table(figures))
    ends = LOAD / figures.news_s
    console.print(f"usage that all log leaves no gateway any room from {ends:,.0f} requests/s on", highlight=False)
    console.print(f"one Redis is full at {1 / figures.redis_s:,.0f} requests of sessions/s", highlight=False)
    apart, shared = 100 * LOAD / figures.cpu_s, 100 * LOAD / (figures.cpu_s + 100 * figures.news_s)
    console.print(f"100 gateways: {apart:,.0f} requests/s, usage apart; {shared:,.0f} where shared", highlight=False)


if __name__ == "__main__":
    main()
