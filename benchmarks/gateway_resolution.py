"""Queries on a gateway of 20 upstreams beside one server of as many tools, in one process and in turns.

    python benchmarks/gateway_resolution.py             # 1,000 tools, on the embedded graph and on Neo4j
    python benchmarks/gateway_resolution.py --tools 10000

No upstream is started: the gateway lists snapshots, as one does that was started again. Times are of `resolve`, from
the query to its answer by graph and words: `cold` of a query never asked before, `warm` of the same one asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_utilities import AgentServer, create_gateway, create_mcp_server
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.query.graph.sync import forget
from agent_utilities.server.stopping import calm_collector
from benchmarks.host_internals import low_level
from benchmarks.resolution import queries
from benchmarks.resolution_process import Neo4jServer, neo4j_server
from benchmarks.resolution_worker import TOP_K, add_tools, described, nouns, tool_name
from tests.parts import query_of

N_UPSTREAMS = 20
N_QUERIES = 40
N_WARM = 20


@dataclass
class Times:
    """Seconds of one server's answers, by kind of query."""

    fill_s: float = 0.0
    cold: dict[str, list[float]] = field(default_factory=dict)
    warm: dict[str, list[float]] = field(default_factory=dict)
    n_found: list[int] = field(default_factory=list)


def listed(i: int) -> dict[str, Any]:
    """Return the i-th tool as an upstream lists it: what `add_tools` gives one server."""
    tags = ["read" if i % 2 == 0 else "write", f"trade_{nouns(i)[0]}"]
    return {
        "name": tool_name(i),
        "description": described(i),
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}},
        "_meta": {"fastmcp": {"tags": tags}},
    }


def gateway_of(n_tools: int, folder: Path, environ: Mapping[str, str]) -> AgentServer:
    """Return a gateway whose upstreams have as many tools together."""
    store = SnapshotStore(gateway_folder("snapshots", str(folder)))
    configs = []
    for number in range(N_UPSTREAMS):
        config = UpstreamConfig(name=f"up{number:02}", source="benchmark", transport="stdio", command="nothing")
        tools = tuple(listed(i) for i in range(number, n_tools, N_UPSTREAMS))
        store.load(config)
        store.save(
            Snapshot(
                upstream=config.name,
                config_digest=config.digest,
                taken_at_s=time.time(),
                protocol_version="2025-11-25",
                server_info={"name": config.name, "title": f"Number {number}"},
                tools=tools,
            )
        )
        configs.append(config)
    return create_gateway(GatewayConfig(upstreams=tuple(configs)), "benchmark-gateway", environ=environ)


def server_of(n_tools: int, environ: Mapping[str, str]) -> AgentServer:
    """Return one server of as many tools."""
    server = create_mcp_server("benchmark-server", environ=environ)
    add_tools(server, n_tools)
    return server


@asynccontextmanager
async def filled(server: AgentServer, times: Times) -> AsyncIterator[AgentServer]:
    """Run a server for a block, from when its graph and index are ready."""
    host: Any = low_level(server)
    started = time.perf_counter()
    async with host.lifespan(host):
        while True:
            await query_of(server).resolver.wait_for_tools()
            health = query_of(server).resolver.health()
            if health["graph"]["status"] == health["ranker"]["status"] == "ready":
                break
            await asyncio.sleep(0.005)
        times.fill_s = time.perf_counter() - started
        yield server


async def ask(server: AgentServer, kind: str, query: str, times: Times) -> None:
    """Ask a query never asked before, and again."""
    pipeline = query_of(server).resolver.pipeline
    assert pipeline is not None
    for lane, n in ((times.cold, 1), (times.warm, N_WARM)):
        for _ in range(n):
            started = time.perf_counter()
            answer = await pipeline.resolve(query, limit=TOP_K)
            lane.setdefault(kind, []).append(time.perf_counter() - started)
    if answer.status not in ("fresh", "no_match"):
        raise RuntimeError(f"{query!r} got {answer.status}: {answer.cause}")
    times.n_found.append(len(answer.names))


async def measure(n_tools: int, variables: Mapping[str, str]) -> tuple[Times, Times]:
    """Return the times of one server and of a gateway, on the graph that the variables choose."""
    of_server, of_gateway = Times(), Times()
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as name:
        environ = {
            "MCP_GRAPH_FOLDER": name,
            "MCP_GATEWAY_FOLDER": name,
            "MCP_RANKER": "lexical",
            "MCP_TOOL_SEARCH": "off",
            "MCP_GRAPH_DEADLINE_MS": "10000",
            **variables,
        }
        server, gateway = server_of(n_tools, environ), gateway_of(n_tools, Path(name), environ)
        calm_collector()
        async with filled(server, of_server), filled(gateway, of_gateway):
            for kind, texts in queries(n_tools, N_QUERIES).items():
                for place, query in enumerate(texts):
                    turns = [(server, of_server), (gateway, of_gateway)]
                    for each, times in turns if place % 2 else turns[::-1]:
                        await ask(each, kind, query, times)
            for each in (server, gateway):  # nothing of this may stay in a Neo4j that is somebody's
                pipeline = query_of(each).resolver.pipeline
                assert pipeline is not None
                await forget(pipeline.keeper.graph, each.name)
    return of_server, of_gateway


def show(backend: str, n_tools: int, of_server: Times, of_gateway: Times, console: Console) -> None:
    """Print the times beside one another."""
    title = f"{n_tools:,} tools, {backend}: one server | a gateway of {N_UPSTREAMS} upstreams"
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading in ("query", "cold ms p50", "p95", "warm µs p50", "p95"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for kind in of_server.cold:
        cells = []
        for lane, scale in (("cold", 1e3), ("warm", 1e6)):
            pair = [[scale * each for each in getattr(times, lane)[kind]] for times in (of_server, of_gateway)]
            cells.append(" | ".join(f"{median(times):.1f}" for times in pair))
            cells.append(" | ".join(f"{quantiles(times, n=20)[-1]:.1f}" for times in pair))
        table.add_row(kind, *cells)
    console.print(table)
    console.print(f"filled in {of_server.fill_s:.2f} | {of_gateway.fill_s:.2f} s")


def main() -> None:
    """Run, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=1000, metavar="N", help="how many tools (1000)")
    n_tools = parser.parse_args().tools
    console = Console()
    show("embedded", n_tools, *asyncio.run(measure(n_tools, {"MCP_GRAPH": "embedded"})), console)
    with neo4j_server() as neo4j:
        if not isinstance(neo4j, Neo4jServer):
            console.print(f"Neo4j is left out: {neo4j}")
            return
        show("Neo4j", n_tools, *asyncio.run(measure(n_tools, neo4j.variables)), console)


if __name__ == "__main__":
    main()
