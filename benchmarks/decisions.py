"""What a decision costs by itself, in microseconds, on a server's real tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from agent_utilities import create_mcp_server
from agent_utilities.policy.decision import decide
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_request
from agent_utilities.server.surface.catalogs import CatalogReader
from agent_utilities.server.surface.surface import Surface
from benchmarks.measure import Lane, Rounds, Timing, interleave
from benchmarks.worker import add_tools, tool_name

CACHED = "Surface.decide, same tools and selection as before"
UNCACHED = ("decide, no selection", "decide, 5 names", "decide, by tag")


def decision_rounds(n_tools: int, budget_s: float) -> Rounds:
    """Return the timings of every step of a decision on a catalog, interleaved.

    Args:
        n_tools: the catalog's size.
        budget_s: seconds to spend.
    """
    server = create_mcp_server("benchmark", environ={})
    add_tools(server, n_tools)
    # As a server is given its own tools again and again: the tuple that it keeps until a provider tells of a change.
    tools: Sequence[Any] = tuple(asyncio.run(server.list_tools(run_middleware=False)))
    surface = Surface({})
    reader = CatalogReader("tool")
    catalog = reader.read(tools).catalog
    chosen = ",".join(tool_name(i) for i in range(5))
    by_names = read_request(b"", ((b"x-mcp-enabled-tools", chosen.encode()),))
    by_tag = read_request(b"", ((b"x-mcp-enabled-tags", b"group_3"),))
    verdict = surface.verdict(by_names, shapes_lists=True)

    lanes: dict[str, Callable[[], object]] = {
        CACHED: lambda: surface.decide("tool", tools, verdict),
        "— of it, seeing that the tools are the same (CatalogReader.read)": lambda: reader.read(tools),
        "Surface.verdict, selection seen before": lambda: surface.verdict(by_names, shapes_lists=True),
        "decide, no selection": lambda: decide(catalog, effective(Selection())),
        "decide, 5 names": lambda: decide(catalog, effective(by_names)),
        "decide, by tag": lambda: decide(catalog, effective(by_tag)),
        "CatalogReader.read, tools never seen, with digest": lambda: CatalogReader("tool").read(tools).catalog.digest,
    }
    return interleave({name: _lane(call) for name, call in lanes.items()}, budget_s=budget_s, block_s=0.005)


def _lane(call: Callable[[], object]) -> Lane:
    def run(n_calls: int) -> list[Timing]:
        timings = []
        for _ in range(n_calls):
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            timings.append(Timing(wall, cpu))
        return timings

    return run
