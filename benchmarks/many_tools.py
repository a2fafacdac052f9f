"""What 100,000 tools in one process cost: memory, the time to index, and a query and a search over real HTTP.

    python benchmarks/many_tools.py                 # 1,000, 10,000 and 100,000 tools, some minutes
    python benchmarks/many_tools.py --sizes 100000

With `serve N` it is the server, which prints its port and serves until it is ended.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from benchmarks import served_process
from benchmarks.contenders import environment
from benchmarks.host_internals import put
from benchmarks.measure import quantile
from benchmarks.ranking import REQUESTS, catalog, fastmcp_tool
from benchmarks.served_process import ServedCatalog

SIZES = (1_000, 10_000, 100_000)
GOAL_MS, GOAL_GIB = 60, 3
N_ASKED = 25
QUERY, SEARCH = "query", "search"


@dataclass
class Cost:
    """What one server of many tools took.

    Args:
        n_tools: how many it has.
        peak_mib: the most memory that it was resident with, before it was asked anything and after all.
        listening_s: from its start until it took connections: imports, and making the tools.
        indexed_s: from then until it ranks; the graph is filled beside.
        graph_s: from then until the graph is filled.
        wall_ms: what requests took, by what they asked and whether that was new or asked before.
    """

    n_tools: int
    peak_mib: list[float] = field(default_factory=list)
    listening_s: float = 0.0
    indexed_s: float = 0.0
    graph_s: float = 0.0
    graph: str = ""
    """What became of the graph: ready, or unavailable."""
    wall_ms: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    """How queries were answered, and what fell short of it."""


def serve(n_tools: int) -> None:
    """Serve tools that share words as real ones do, each with a schema of its own; past `add_tool`, which compares."""
    from agent_utilities import create_mcp_server
    from agent_utilities.server.stopping import calm_collector

    server = create_mcp_server("many")
    for each in catalog(n_tools):
        put(server, fastmcp_tool(each))
    calm_collector()  # as the command line does before it serves
    served_process.serve(server)


def requests(n_tools: int) -> list[str]:
    """Return what a user says who wants one of the tools, for some that are spread over the catalog."""
    chosen = catalog(n_tools)[:: n_tools // N_ASKED][:N_ASKED]
    return [f"please {' '.join(each.name.split('_')[1:3])} of {each.server}" for each in chosen]


@contextmanager
def _served(n_tools: int, graph: str) -> Iterator[tuple[ServedCatalog, int]]:
    """Give a server of many tools that takes connections, and its process's id."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        environ = environment(folder) | {"MCP_GRAPH": graph, "MCP_GRAPH_FOLDER": folder, "MCP_CONFIG_FILE": "none"}
        environ |= {"MCP_TOOL_SEARCH": "on", "MCP_NO_MATCH": "search"}  # as whoever has so many tools would
        process = subprocess.Popen(
            [sys.executable, __file__, "serve", str(n_tools)],
            stdout=subprocess.PIPE,
            env=environ,
            cwd=folder,
            text=True,
        )
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with ServedCatalog(process, f"http://127.0.0.1:{port}") as served:
            yield served, process.pid


def measure(n_tools: int, graph: str) -> Cost:
    """Return what a server of so many tools takes; `graph` is a value of `MCP_GRAPH`."""
    cost, began_s = Cost(n_tools), time.perf_counter()
    with _served(n_tools, graph) as (served, pid):
        cost.listening_s = time.perf_counter() - began_s
        began_s = time.perf_counter()
        served.ask("wake up")
        served.wait_for_index()
        cost.indexed_s = time.perf_counter() - began_s
        while (status := served.ready()["graph"]["status"]) not in ("ready", "unavailable"):
            time.sleep(0.2)
        cost.graph_s, cost.graph = time.perf_counter() - began_s, status
        cost.peak_mib.append(_peak_mib(pid))
        asked = requests(n_tools)
        kinds: dict[str, Callable[[str], object]] = {
            QUERY: lambda text: served.list_ms(text),
            SEARCH: lambda text: served.search(text, 10),
        }
        for kind, ask in kinds.items():
            ask(REQUESTS[0])  # the first of a scope
            for age in ("new", "again"):
                cost.wall_ms[kind, age] = [_ms(ask, text) for text in asked]
        for text in asked:
            shown = served.ask(text)
            said = ", ".join(filter(None, (shown.status, shown.cause)))
            cost.statuses[said] = cost.statuses.get(said, 0) + 1
        cost.peak_mib.append(_peak_mib(pid))
    return cost


def _ms(ask: Callable[[str], object], text: str) -> float:
    began_s = time.perf_counter()
    ask(text)
    return 1000 * (time.perf_counter() - began_s)


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def table(costs: Sequence[Cost], graph: str) -> Table:
    """Return the figures, beside their goals."""
    title = f"Many tools in one process, graph {graph}; goals at 100,000: p50 {GOAL_MS} ms, {GOAL_GIB} GiB"
    shown = Table(title=title, title_justify="left")
    headings = "tools|listening s|ranks after s|graph after s|peak MiB: indexed, asked"
    for heading in headings.split("|"):
        shown.add_column(heading, justify="right")
    for kind in (QUERY, SEARCH):
        for age in ("new", "again"):
            shown.add_column(f"{kind} {age}: ms p50, max", justify="right")
    for cost in costs:
        times = [f"{quantile(each, 0.5):.1f}, {max(each):.0f}" for each in cost.wall_ms.values()]
        graph_s = f"{cost.graph_s:.1f} {cost.graph}"
        peaks = ", ".join(f"{each:,.0f}" for each in cost.peak_mib)
        shown.add_row(f"{cost.n_tools:,}", f"{cost.listening_s:.1f}", f"{cost.indexed_s:.1f}", graph_s, peaks, *times)
    return shown


def main(argv: Sequence[str]) -> None:
    """Print the table, or serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--graph", default="embedded", help="a value of MCP_GRAPH; embedded by default")
    given = parser.parse_args(argv)
    costs = [measure(n_tools, given.graph) for n_tools in given.sizes]
    console = Console(width=max(150, Console().width))
    console.print(table(costs, given.graph))
    for cost in costs:
        console.print(f"{cost.n_tools:,} tools: queries answered {cost.statuses}", highlight=False)
    console.print(f"{os.cpu_count()} processors, of which the client has a share", highlight=False)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
