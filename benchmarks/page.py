"""What the page costs: lists while nobody looks, and calls while five people watch them live.

python benchmarks/page.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
import psutil
from rich.console import Console
from rich.table import Table

from agent_utilities import AgentServer, create_mcp_server
from benchmarks.measure import spread
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

N_TOOLS, N_READERS, N_CALLERS = 50, 5, 4
LIST_SHARE, CALL_SHARE = 1.01, 1.05
"""Goals: a list with the page on and nobody looking, and a call with five readers, beside one without."""
_LISTS, _BLOCK_S = 40, 3.0


def server(page: str, port: int = 0) -> AgentServer:
    """Return a server of some tools, with the page or without."""
    mcp = create_mcp_server("cost", environ={"MCP_PAGE": page, "MCP_GRAPH": "off"})
    for i in range(N_TOOLS):
        mcp.tool(name=f"tool_{i}", tags={"some"})(lambda: "done")
    return mcp


async def lists(rounds: int) -> list[float]:
    """Return for each round what lists with the page take beside lists without: processor time."""
    async with AsyncExitStack() as stack:
        webs = [await stack.enter_async_context(web_of(server(page))) for page in ("off", "on")]
        body, routing = modern_request("tools/list")
        ratios = []
        for n in range(rounds + 1):
            took = [0.0, 0.0]
            for which in (0, 1, 1, 0) if n % 2 else (1, 0, 0, 1):
                began = time.process_time()
                for _ in range(_LISTS):
                    (await webs[which].post("/mcp", json=body, headers=dict(routing))).raise_for_status()
                took[which] += time.process_time() - began
            if n:  # the first warms up
                ratios.append(took[1] / took[0])
    return ratios


@asynccontextmanager
async def watching(url: str, key: str, n: int) -> AsyncIterator[list[int]]:
    """Have some readers watch the live tail for a block; yields how many events each was sent."""
    n_events = [0] * n
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=None, limits=httpx2.Limits()))
        await web.get(f"/?key={key}")

        page = (await web.get("/page/calls")).text
        last = page.split("events?after=")[1].split('"')[0]

        async def read(i: int) -> None:
            async with web.stream("GET", f"/page/calls/events?after={last}") as answer:
                answer.raise_for_status()
                async for piece in answer.aiter_raw():
                    n_events[i] += piece.count(b"<tr")

        tasks = [asyncio.create_task(read(i)) for i in range(n)]
        try:
            yield n_events
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def called(url: str, process: psutil.Process) -> tuple[float, float]:
    """Return how many calls a second a server answers, and its milliseconds of processor time for one."""
    body, routing = modern_request("tools/call", {"name": "tool_1", "arguments": {}})
    n, ends_s = 0, time.monotonic() + _BLOCK_S
    before = process.cpu_times()

    async def call(web: httpx2.AsyncClient) -> None:
        nonlocal n
        while time.monotonic() < ends_s:
            (await web.post("/mcp", json=body, headers=dict(routing))).raise_for_status()
            n += 1

    async with httpx2.AsyncClient(base_url=url) as web:
        began_s = time.monotonic()
        await asyncio.gather(*(call(web) for _ in range(N_CALLERS)))
        took_s = time.monotonic() - began_s
    after = process.cpu_times()
    return n / took_s, 1000 * (after.user + after.system - before.user - before.system) / n


async def calls(rounds: int) -> list[tuple[tuple[float, float], tuple[float, float], int]]:
    """Return for each round calls without readers, with five, and how many events those were sent."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - nothing else runs
        assert process.stderr is not None
        link = next(found for line in process.stderr if (found := re.search(r"(http://\S+)/\?key=(\S+)", line)))
        url, key = link.groups()
        watched = psutil.Process(process.pid)
        try:
            await _answers(url)
            rows = []
            for n in range(rounds + 1):
                alone = await called(url, watched)
                async with watching(url, key, N_READERS) as events:
                    read = await called(url, watched)
                if n:
                    rows.append((alone, read, min(events)))
        finally:
            process.terminate()
    return rows


async def _answers(url: str) -> None:
    async with httpx2.AsyncClient() as web:
        for _ in range(200):
            try:
                (await web.get(f"{url}/health")).raise_for_status()
                return
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
    raise TimeoutError("the server did not start")


def main(argv: Sequence[str]) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args(argv)
    if given.serve:
        server("on").run(transport="http", host="127.0.0.1", port=8974, show_banner=False, log_level="warning")
        return
    console = Console()
    ratio = spread(asyncio.run(lists(given.rounds)))
    console.print(f"a list of {N_TOOLS} tools, page on and nobody looking: x {ratio.median:.3f} "
                  f"({ratio.low:.3f} to {ratio.high:.3f}), goal {LIST_SHARE}")  # fmt: skip
    table = Table(title=f"calls, {N_CALLERS} at once, and {N_READERS} readers of the live tail")
    for column in ("calls/s alone", "with readers", "ms CPU a call alone", "with readers", "events a reader"):
        table.add_column(column, justify="right")
    rows = asyncio.run(calls(given.rounds))
    for (rate, cost), (read_rate, read_cost), n in rows:
        table.add_row(f"{rate:.0f}", f"{read_rate:.0f}", f"{cost:.2f}", f"{read_cost:.2f}", str(n))
    console.print(table)
    by_rate = spread([alone[0] / read[0] for alone, read, _ in rows])
    by_cost = spread([read[1] / alone[1] for alone, read, _ in rows])
    console.print(
        f"throughput x {1 / by_rate.median:.3f}, processor time a call x {by_cost.median:.3f}, goal {CALL_SHARE}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
