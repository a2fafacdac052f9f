"""Let 1,000 callers in another process list at once over HTTP: how late is the server's loop, beside bare FastMCP?

python benchmarks/stampede.py [--rounds 2]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
import uvicorn
from rich.console import Console
from rich.table import Table

from agent_utilities.query.resolution.resolver import Pipeline
from benchmarks.resolution_lag import Lag
from benchmarks.worker import ENVELOPE, PROTOCOL
from tests.parts import query_of

N_CALLERS, N_QUERIES, N_TOOLS = 1000, 50, 60
DAY_S = 86_400


def made(lane: str, folder: str) -> Any:
    """Return a server of either lane, with tools."""
    if lane == "bare":
        from fastmcp import FastMCP

        server: Any = FastMCP("stampede")
    else:
        from agent_utilities import create_mcp_server

        environ = {"MCP_GRAPH_FOLDER": folder, "MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": "10000"}
        server = create_mcp_server("stampede", environ=environ)
    for i in range(N_TOOLS):
        server.tool(lambda: "done", name=f"tool_{i}", description=f"does thing {i}", tags={f"group{i % 10}"})
    return server


async def serve(lane: str, folder: str) -> None:
    """Serve a lane while a process of callers lists, and print the loop's lag as a line of numbers."""
    server, listener = made(lane, folder), socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2 * N_CALLERS)
    web = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="error", access_log=False, lifespan="on"))
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    n_refreshes = n_reads = 0
    pipeline: Pipeline | None = None
    async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
        while not web.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        if lane == "ours":
            await client.get("/tools?q=wake")
            pipeline = query_of(server).resolver.pipeline
            assert pipeline is not None
            while not pipeline.keeper.n_refreshes or not pipeline.keeper.is_idle:  # noqa: ASYNC110 - filled once, and for good
                await asyncio.sleep(0.01)
            # A server's clock can't be set from outside, and its tools must be two days old for every caller at once.
            pipeline.keeper._now = lambda: time.time() + 2 * DAY_S  # noqa: SLF001
            n_refreshes, n_reads = pipeline.keeper.n_refreshes, pipeline.n_reads
    if lane == "ours":  # as the command line does before it serves
        from agent_utilities.server.stopping import calm_collector

        calm_collector()
    lag = Lag()
    async with lag.watched():
        callers = await asyncio.create_subprocess_exec(sys.executable, __file__, "--call", base)
        await callers.wait()
    late = quantiles(lag.late_s, n=100)
    if pipeline is not None:
        n_refreshes, n_reads = pipeline.keeper.n_refreshes - n_refreshes, pipeline.n_reads - n_reads
    print(late[49], late[98], max(lag.late_s), n_refreshes, n_reads, flush=True)
    web.should_exit = True
    await serving


async def call(base: str) -> None:
    """Post every list at once, each with one of 50 queries; stderr tells the time of the slowest."""
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": PROTOCOL}
    headers["mcp-method"] = "tools/list"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    limits = httpx2.Limits(max_connections=N_CALLERS)
    async with httpx2.AsyncClient(base_url=base, limits=limits, timeout=120, trust_env=False) as client:

        async def one(i: int) -> None:
            asked = headers | {"x-mcp-query": f"tool_{i % N_QUERIES}"}
            (await client.post("/mcp", json=body, headers=asked)).raise_for_status()

        await asyncio.gather(*(one(i) for i in range(N_CALLERS)))


def main() -> None:
    """Run the lanes in turns, each in a fresh process, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="processes of each lane")
    parser.add_argument("--quick", action="store_true", help="one process of each lane")
    parser.add_argument("--serve", choices=["bare", "ours"], help=argparse.SUPPRESS)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.call:
        return asyncio.run(call(given.call))
    if given.serve:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            return asyncio.run(serve(given.serve, folder))
    table = Table(
        title=f"{N_CALLERS} lists at once over HTTP, {N_QUERIES} queries, {N_TOOLS} tools", header_style="bold"
    )
    for heading in ("lane", "loop late p50, ms", "p99, ms", "max, ms", "refreshes", "graph reads"):
        table.add_column(heading, justify="left" if heading == "lane" else "right")
    for lane in ("bare", "ours") * (1 if given.quick else given.rounds):
        command = [sys.executable, __file__, "--serve", lane]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
        p50, p99, worst, n_refreshes, n_reads = done.stdout.split()
        times = (f"{1000 * float(each):.1f}" for each in (p50, p99, worst))
        table.add_row(lane, *times, n_refreshes, n_reads)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
