"""Compare bare FastMCP, this factory and the released agent-utilities 1.x, side by side in one run.

python benchmarks/surface.py [--quick] [--json FILE] [--before COMMIT]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console

from benchmarks import tables
from benchmarks.commands import command_rounds
from benchmarks.contenders import BARE, CONTROL, OURS, Contender, ContenderError, Process, code_of, released
from benchmarks.decisions import decision_rounds
from benchmarks.fresh import import_rounds, launch_rounds, resident_bytes
from benchmarks.goals import goals
from benchmarks.http_lane import ERAS, Era, HttpClient
from benchmarks.measure import Lane, Rounds, interleave
from benchmarks.results import SELECTIONS, Plan, Results, n_visible
from benchmarks.worker import tool_name

WIDTH = 124
"""Columns that the tables need; narrower terminals wrap them."""

CALL = {"name": tool_name(0), "arguments": {"path": "records"}}

FULL = Plan({10: 3, 100: 3, 1000: 2, 5000: 1}, server_s=24, http_s=12, n_imports=15, n_launches=10, n_memory=2)
QUICK = Plan({10: 1, 100: 1, 1000: 1}, server_s=5, http_s=2, n_imports=5, n_launches=3, n_memory=1)


def selections(contender: Contender) -> tuple[str, ...]:
    """Return the selections that a contender can be given: bare FastMCP reads none."""
    return ("none",) if contender.kind == "bare" else tuple(SELECTIONS)


def measure_size(results: Results, contenders: Sequence[Contender], n_tools: int, plan: Plan) -> None:
    """Measure lists and calls at one catalog size, in the server and over HTTP."""
    n_starts = plan.sizes[n_tools]
    server, calls, http, http_calls = Rounds(), Rounds(), {era: Rounds() for era in ERAS}, Rounds()
    for _ in range(n_starts):
        with ExitStack() as stack:
            running = [stack.enter_context(Process(each)) for each in contenders]
            for process in running:
                process.order("build", n_tools=n_tools)
            for process in running:
                process.answer()
            lists = _in_server(running, "tools/list", {}, n_tools)
            server.extend(interleave(lists, budget_s=0.8 * plan.server_s / n_starts))
            calls.extend(
                interleave(_in_server(running, "tools/call", CALL, n_tools), budget_s=0.2 * plan.server_s / n_starts)
            )
            clients = [
                (each.contender, stack.enter_context(HttpClient(each)))
                for each in running
                if each.contender is not CONTROL
            ]
            share_s = plan.http_s / n_starts / (len(ERAS) + 1)
            for era in ERAS:
                over = _over_http(clients, era, "tools/list", {}, n_tools)
                http[era].extend(interleave(over, budget_s=share_s, min_rounds=3))
            over = _over_http(clients, "2026-07-28", "tools/call", CALL, n_tools)
            http_calls.extend(interleave(over, budget_s=share_s, min_rounds=3))
    results.lists[n_tools], results.calls[n_tools], results.http_calls[n_tools] = server, calls, http_calls
    for era in ERAS:
        results.http_lists[era][n_tools] = http[era]


def _in_server(running: Sequence[Process], method: str, params: dict[str, Any], n_tools: int) -> dict[str, Lane]:
    return {
        f"{each.contender.lane}/{selection}": partial(
            _serve, each, method, params, SELECTIONS[selection], _expected(method, selection, n_tools)
        )
        for each in running
        for selection in _selections(each.contender, method)
    }


def _over_http(
    clients: Sequence[tuple[Contender, HttpClient]],
    era: Era,
    method: str,
    params: dict[str, Any],
    n_tools: int,
) -> dict[str, Lane]:
    return {
        f"{contender.lane}/{selection}": partial(
            _post, client, era, method, params, SELECTIONS[selection], _expected(method, selection, n_tools)
        )
        for contender, client in clients
        for selection in _selections(contender, method)
    }


def _selections(contender: Contender, method: str) -> tuple[str, ...]:
    """A tool is called under the selections that hold it."""
    return tuple(each for each in selections(contender) if method == "tools/list" or each != "by tag")


def _expected(method: str, selection: str, n_tools: int) -> int:
    return n_visible(selection, n_tools) if method == "tools/list" else 0


def _serve(process: Process, method: str, params: Any, headers: dict[str, str], expected: int, n_calls: int) -> Any:
    return process.serve(method, params, headers, n_calls, expected)


def _post(
    client: HttpClient,
    era: Era,
    method: str,
    params: Any,
    headers: dict[str, str],
    expected: int,
    n_calls: int,
) -> Any:
    return client.post(era, method, params, headers, n_calls, expected)


def run(plan: Plan, console: Console, before: str | None = None) -> Results:
    """Measure everything in a plan; a contender that can't be made is named in the notes and left out."""
    with ExitStack() as stack:
        contenders = [BARE, CONTROL, OURS]
        if before is not None:
            contenders.append(stack.enter_context(code_of(before, before)))
        return _run(plan, console, contenders)


def _run(plan: Plan, console: Console, contenders: list[Contender]) -> Results:
    results = Results()
    with console.status("preparing the released package"):
        try:
            contenders.append(released())
        except ContenderError as error:
            results.notes.append(str(error))
    alone = [each for each in contenders if each is not CONTROL]
    with console.status("") as status:
        status.update("import time")
        results.imports = import_rounds(alone, plan.n_imports)
        status.update("launch over stdio")
        results.launches = launch_rounds(alone, plan.n_launches)
        status.update("command lines")
        results.commands = command_rounds(plan.n_launches)
        status.update("memory")
        results.rss_bytes = resident_bytes(alone, 1000, plan.n_memory)
        status.update("decisions")
        results.decisions = decision_rounds(1000, plan.server_s / 5)
        for n_tools in plan.sizes:
            status.update(f"{n_tools:,} tools")
            measure_size(results, contenders, n_tools, plan)
    return results


def main() -> None:
    """Run, print the tables, and write the numbers where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under two minutes: no 5,000 tools, fewer rounds")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write goals and the medians of every block to a file"
    )
    parser.add_argument("--before", metavar="COMMIT", help="hold this factory against itself at an earlier commit too")
    given = parser.parse_args()
    console = Console()
    console = console if console.width >= WIDTH else Console(width=WIDTH)
    started = time.perf_counter()
    results = run(QUICK if given.quick else FULL, console, given.before)
    tables.show(results, console)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    console.print(f"{time.perf_counter() - started:.0f} s; {machine}", highlight=False)
    if given.json:
        document = {
            "machine": machine,
            "goals": [asdict(each) for each in goals(results)],
            **results.as_dict(),
        }
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
