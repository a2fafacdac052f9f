"""Brings one of two tool sets into a graph after the other, until it is killed; argument: a path, or - for Neo4j."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import cycle
from pathlib import Path

from agent_utilities.query.graph.backends import Neo4jGraph
from agent_utilities.query.graph.base import ToolGraph
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import sync
from tests.query.graph.records import tool_record

N_TOOLS = 600
SETS = {
    name: [
        tool_record(f"{name}_{i}" if i % 2 else f"both_{i}", None, f"{name} {i}", [name], read_only=False)
        for i in range(N_TOOLS)
    ]
    for name in ("old", "new")
}


async def main(path: str) -> None:
    graph: ToolGraph = EmbeddedGraph(Path(path))
    if path == "-":
        graph = Neo4jGraph(os.environ["NEO4J_URI"], os.environ["NEO4J_USERNAME"], os.environ["NEO4J_PASSWORD"])
    await graph.open()
    for now_ms, name in enumerate(cycle(SETS)):
        print(name, flush=True)
        await sync(graph, "s", SETS[name], now_ms)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
