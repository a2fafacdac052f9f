"""The gateway beside bare FastMCP, FastMCP's create_proxy and mcp-hub, in front of seven real MCP servers.

    python benchmarks/gateway.py              # some twelve minutes
    python benchmarks/gateway.py --quick      # in under four
    python benchmarks/gateway.py --only calls # one of: starts, calls, memory, load, broken

The servers, and mcp-hub, are installed once, under the user's cache folder; where npm is missing nothing can be run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
from rich.console import Console

from benchmarks import gateway_results
from benchmarks.gateway_fronts import Kind
from benchmarks.gateway_load import loads, many_files
from benchmarks.gateway_measures import (
    WAYS,
    broken_files,
    few_starts,
    lists_and_calls,
    real_files,
    resident_mib,
    slow_lists_and_calls,
    slowest_server_s,
    warm_starts,
    with_broken,
)
from benchmarks.gateway_results import GatewayResults
from benchmarks.http_lane import ERAS

CLOSE: tuple[Kind, ...] = ("bare", "bare again", "ours")
"""What is compared closely, in many rounds."""
PEERS: tuple[Kind, ...] = ("ours", "mcp-hub", "proxy-legacy")
"""Who else puts one endpoint before many servers, and lists all their tools."""


@dataclass(frozen=True)
class Plan:
    """How much to run.

    Args:
        n_starts: warm starts of each contender, on each way.
        n_peers: starts of each that takes seconds.
        budget_s: seconds for lists, and for calls.
        n_load: rounds of 64 callers, each of `block_s` seconds a contender.
        block_s: see `n_load`.
    """

    n_starts: int
    n_peers: int
    budget_s: float
    n_load: int
    block_s: float


QUICK = Plan(n_starts=5, n_peers=1, budget_s=15, n_load=2, block_s=1.5)
WHOLE = Plan(n_starts=15, n_peers=3, budget_s=60, n_load=5, block_s=3)


def run_starts(plan: Plan, folder: Path, results: GatewayResults) -> None:
    """Measure warm starts and first ones."""
    files = real_files(folder / "starts", 1)
    results.n_tools, results.slowest = files.n_tools, slowest_server_s(files, 1 + plan.n_peers)
    for way in WAYS:
        results.warm[way] = warm_starts(CLOSE, way, files, plan.n_starts)
    # These keep nothing from one start to the next, and mcp-hub serves no stdio.
    results.beside["stdio"] = few_starts(("proxy", "proxy-legacy"), "stdio", files, plan.n_peers)
    results.first = few_starts(("bare", "ours", "mcp-hub", "proxy", "proxy-legacy"), "http", files, plan.n_peers)


def run_calls(plan: Plan, folder: Path, results: GatewayResults) -> None:
    """Measure lists and calls over HTTP."""
    files = real_files(folder / "calls", 1)
    results.n_tools = files.n_tools
    kinds: tuple[Kind, ...] = ("bare", "bare again", "kept", "ours", "mcp-hub")
    results.lists, results.calls = lists_and_calls(kinds, ("modern", "legacy"), files, plan.budget_s)
    lists, calls = slow_lists_and_calls(("proxy", "proxy-legacy"), files, plan.n_peers)
    results.slow_lists, results.slow_calls = lists, calls


def run_memory(plan: Plan, folder: Path, results: GatewayResults) -> None:
    """Measure resident memory before 14 upstreams."""
    files = real_files(folder / "memory", 2)
    results.resident_mib = resident_mib(("bare", "ours", "ours, no graph", "mcp-hub"), files, plan.n_peers)


def run_load(plan: Plan, folder: Path, results: GatewayResults) -> None:
    """Measure 64 callers of 1,000 tools."""
    files = many_files(folder / "load")
    for era in ERAS:
        results.loads[era] = loads(("bare", "ours"), era, files, n_rounds=plan.n_load, block_s=plan.block_s)


def run_broken(plan: Plan, folder: Path, results: GatewayResults) -> None:
    """Measure with three servers that never serve."""
    ending, hanging = (broken_files(folder / f"broken{one_hangs}", one_hangs) for one_hangs in (False, True))
    four = "four servers that work, and"
    results.broken[f"{four} three that end at once"] = with_broken(PEERS, ending, plan.n_peers)
    # FastMCP's proxy and mcp-hub wait for the one that hangs, for minutes.
    patient = PEERS if plan.n_peers > 1 else PEERS[:1]
    results.broken[f"{four} three of which one hangs"] = with_broken(patient, hanging, 1)


PARTS: Mapping[str, Callable[[Plan, Path, GatewayResults], None]] = {
    "starts": run_starts,
    "calls": run_calls,
    "memory": run_memory,
    "load": run_load,
    "broken": run_broken,
}


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="in under four minutes")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="one part, or several")
    given = parser.parse_args()
    results = GatewayResults()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for name in given.only or PARTS:
            try:
                PARTS[name](QUICK if given.quick else WHOLE, Path(folder), results)
            except pytest.skip.Exception as reason:
                results.notes.append(f"{name}: {reason}")
    gateway_results.show(results, Console(width=130))


if __name__ == "__main__":
    main()
