"""What state in Redis costs a session: milliseconds, round trips and bytes of a list and a call, beside none.

python benchmarks/fleet.py [--rounds N]
python benchmarks/fleet.py --replicas [--rounds N] [--seconds S]  # one, two and three processes behind nginx
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from agent_utilities import AgentServer, create_mcp_server
from benchmarks.fleet_predicted import predict
from benchmarks.fleet_processes import QUOTA_S, fleet, why_not
from benchmarks.fleet_replicas import N_REPLICAS, show, warm_up
from benchmarks.fleet_replicas import measure as serve_in_turns
from benchmarks.http_lane import ERAS, Era
from benchmarks.measure import quantile, spread
from tests.fleet.processes.replicas import Shared, shared_redis
from tests.fleet.test_sessions import Talk
from tests.server.in_process import web_of

N_TOOLS, N_REQUESTS = 50, 40
MORE_MS, SESSION_BYTES = 1.2, 2048
"""Goals: what a request of a session takes more at the median, and what one session takes in Redis."""


def server(redis: Shared | None) -> AgentServer:
    """Return a server of some tools, with state in Redis or without."""
    shared = redis.environ if redis is not None else {}
    mcp = create_mcp_server("cost", environ={"MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "on", **shared})
    for i in range(N_TOOLS):
        mcp.tool(name=f"tool_{i}")(lambda: "done")
    return mcp


async def measure(redis: Shared, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the milliseconds that requests of a session took, by what they were and where its state is."""
    taken: dict[str, dict[str, list[float]]] = {kind: {"here": [], "redis": []} for kind in ("list", "call")}
    async with AsyncExitStack() as stack:
        webs = {
            "here": await stack.enter_async_context(web_of(server(None))),
            "redis": await stack.enter_async_context(web_of(server(redis))),
        }
        talks = {where: Talk() for where in webs}
        for where, web in webs.items():
            await talks[where].begin(web)
            await talks[where].listed(web)
        for n in range(rounds + 1):
            for i in range(N_REQUESTS):
                for where in sorted(webs, reverse=bool((n + i) % 2)):
                    for kind in ("list", "call"):
                        began_s = time.perf_counter()
                        if kind == "list":
                            await talks[where].listed(webs[where])
                        else:
                            await talks[where].call(webs[where], f"tool_{i % N_TOOLS}")
                        if n:  # the first warms up
                            taken[kind][where].append(1000 * (time.perf_counter() - began_s))
    return taken


def replicas(rounds: int, seconds: float, eras: Sequence[Era], *, predicts: bool) -> None:
    """Print what one, two and three replicas serve, or what the simulation says of them beside what they do."""
    if why := why_not():
        sys.exit(f"error: {why}")
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), N_REPLICAS) as running:
        warm_up(running)
        running.hold(QUOTA_S)
        console = Console(width=max(160, Console().width))
        if predicts:
            predict(running, eras, rounds, seconds, console)
        else:
            show(serve_in_turns(running, eras, rounds, seconds), console)


def main(argv: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--replicas", action="store_true", help="processes, each held to a quarter of a processor")
    parser.add_argument("--predict", action="store_true", help="such, beside what the simulation says of them")
    parser.add_argument("--era", choices=ERAS, nargs="+", help="with either: the protocols spoken")
    parser.add_argument("--seconds", type=float, default=10, help="of each block, with either")
    given = parser.parse_args(argv)
    if given.replicas or given.predict:
        replicas(given.rounds, given.seconds, given.era or ERAS, predicts=given.predict)
        return
    with tempfile.TemporaryDirectory() as folder, shared_redis(Path(folder)) as redis:
        redis.admin.config_resetstat()
        taken = asyncio.run(measure(redis, given.rounds))
        stats = cast(dict[str, Any], redis.admin.info("commandstats"))
        (key,) = redis.admin.scan_iter("*:session:*")
        n_bytes = redis.admin.memory_usage(key)
    table = Table(title=f"requests of a session, {N_TOOLS} tools, ms")
    for column in ("request", "here p50", "redis p50", "more", "here p99", "redis p99"):
        table.add_column(column, justify="right")
    for kind, by in taken.items():
        here, there = (spread(by[where]).median for where in ("here", "redis"))
        tails = [f"{quantile(by[where], 0.99):.2f}" for where in ("here", "redis")]
        table.add_row(kind, f"{here:.2f}", f"{there:.2f}", f"{there - here:+.2f} (goal {MORE_MS})", *tails)
    console, n = Console(), 2 * N_REQUESTS * (given.rounds + 1)
    console.print(table)
    counts = {name.removeprefix("cmdstat_"): round(told["calls"] / n, 2) for name, told in stats.items()}
    console.print(f"redis commands a request: {counts}; one session takes {n_bytes} bytes, goal {SESSION_BYTES}")


if __name__ == "__main__":
    main(sys.argv[1:])
