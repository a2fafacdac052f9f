"""What logging costs a call: recording it, and how many calls a second a server answers beside one that logs nothing.

python benchmarks/usage.py [--quick] [--only record]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from agent_utilities.usage.log import UsageLog
from agent_utilities.usage.model import Call, UsageBounds
from benchmarks.measure import Spread, quantile, spread

OFF, LOGGED = "off", ("off again", "counts", "words")
RECORD_US, SHARE = 20.0, 0.01
_BATCH = 200
_CALLS = 40
"""Of a block: so few that what else the machine does hits all servers alike."""


@dataclass
class Block:
    """What one server took for its calls in one round.

    Args:
        wall_s: seconds for each call.
        cpu_s: seconds of the event loop's processor time for each.
    """

    wall_s: float
    cpu_s: float


@dataclass
class Lanes:
    """The blocks of each server, round by round."""

    blocks: dict[str, list[Block]] = field(default_factory=dict)

    def more(self, lane: str, writer_s: float) -> Spread:
        """Return which share more of processor time a call takes than on the server that logs nothing.

        Args:
            lane: the server; it is held against the other one round by round.
            writer_s: seconds that the log's thread takes for a call, wherever in the run it does so.
        """
        pairs = zip(self.blocks[lane], self.blocks[OFF], strict=True)
        return spread([(mine.cpu_s + writer_s) / base.cpu_s - 1 for mine, base in pairs])

    def per_s(self, lane: str) -> float:
        """Return calls a second, by the median of the rounds."""
        return 1 / quantile([block.wall_s for block in self.blocks[lane]], 0.5)


@dataclass
class Recorded:
    """What logging took.

    Args:
        times_us: of each call of `record`, in microseconds.
        writer_us: of the log's thread for an event, in microseconds of processor time.
    """

    times_us: list[float]
    writer_us: float


async def flushed(log: UsageLog) -> None:
    """Wait until all that was recorded is written, or lost for good."""
    while log.n_written + log.n_lost < log.n_recorded:  # noqa: ASYNC110 - the log has no event for it
        await asyncio.sleep(0.001)


async def measure_record(path: Path, n: int, *, runs: bool) -> Recorded:
    """Return what logging takes.

    Args:
        path: the log.
        n: how many calls.
        runs: whether the log is written meanwhile; else its queue is soon full, as on a disk that hangs.
    """
    log = UsageLog(path, UsageBounds())
    log.batch_s = 0.0
    task = asyncio.create_task(log.run()) if runs else None
    times, others_s = [], time.process_time() - time.thread_time()
    for number in range(n):
        started = time.perf_counter_ns()
        log.record(Call(number, "demo", "ping", session="one", turn=number, request="list all open issues"))
        times.append((time.perf_counter_ns() - started) / 1000)
        if runs and number % _BATCH == 0:
            await flushed(log)
    if task is not None:
        await flushed(log)
        task.cancel()
        await asyncio.wait([task])
    return Recorded(times, 1e6 * (time.process_time() - time.thread_time() - others_s) / n)


async def measure_calls(folder: Path, n_rounds: int, n_calls: int) -> Lanes:
    """Return the blocks of servers that log and one that does not; they take turns in an order drawn anew."""
    from fastmcp import Client

    lanes = Lanes({lane: [] for lane in (OFF, *LOGGED)})
    async with AsyncExitStack() as stack:
        clients = {
            lane: await stack.enter_async_context(Client(made(lane, folder / f"{lane}.db"))) for lane in lanes.blocks
        }
        order = list(clients)
        for number in range(n_rounds + 1):
            for lane in order:
                block = await _block(clients[lane], n_calls)
                if number:  # the first warms up
                    lanes.blocks[lane].append(block)
            Random(number).shuffle(order)
    return lanes


def made(lane: str, file: Path) -> Any:
    """Return a server with one small tool."""
    from agent_utilities import create_mcp_server

    usage = lane.partition(" ")[0]
    environ = {"MCP_GRAPH": "off", "MCP_RANKER": "off", "MCP_USAGE": usage, "MCP_USAGE_FILE": str(file)}
    server = create_mcp_server("usage", environ=environ)
    server.tool(_echo, name="echo")
    return server


def _echo(text: str) -> str:
    """Return the text."""
    return text


async def _block(client: Any, n_calls: int) -> Block:
    cpu_s, started = time.thread_time(), time.perf_counter()
    for _ in range(n_calls):
        await client.call_tool("echo", {"text": "hello"})
    return Block((time.perf_counter() - started) / n_calls, (time.thread_time() - cpu_s) / n_calls)


def show_record(console: Console, results: dict[str, Recorded]) -> bool:
    """Print what logging takes, and return whether the goal is met."""
    columns = ("the log", "record p50 µs", "p99 µs", "the log's thread, processor µs")
    table = Table(*columns, title="one call is logged", title_justify="left")
    for name, recorded in results.items():
        cells = (*(quantile(recorded.times_us, q) for q in (0.5, 0.99)), recorded.writer_us)
        table.add_row(name, *(f"{each:.1f}" for each in cells))
    console.print(table)
    return all(quantile(recorded.times_us, 0.5) <= RECORD_US for recorded in results.values())


def show_calls(console: Console, lanes: Lanes, writer_s: float) -> bool | None:
    """Print what calls take beside those of a server that logs nothing; return whether the goal is met, where clear."""
    title = "tools/call in one process with its client, beside MCP_USAGE=off"
    columns = ("MCP_USAGE", "calls/s", "processor time", "rounds")
    table = Table(*columns, title=title, title_justify="left")
    table.add_row(OFF, f"{lanes.per_s(OFF):.0f}", "", str(len(lanes.blocks[OFF])))
    verdicts = []
    for lane in LOGGED:
        more = lanes.more(lane, 0.0 if lane.startswith(OFF) else writer_s)
        cell = f"{100 * more.median:+.2f} % [{100 * more.low:+.2f}, {100 * more.high:+.2f}]"
        table.add_row(lane, f"{lanes.per_s(lane):.0f}", cell, str(more.n))
        if not lane.startswith(OFF):
            verdicts.append(True if more.high <= SHARE else False if more.low > SHARE else None)
    console.print(table)
    return False if False in verdicts else None if None in verdicts else True


def main(argv: Sequence[str]) -> None:
    """Measure what the arguments name, and print it with the goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls and rounds")
    parser.add_argument("--only", choices=["record"])
    options = parser.parse_args(argv)
    console = Console()
    goals: list[tuple[str, bool | None]] = []
    with tempfile.TemporaryDirectory() as folder:
        n = 20_000 if options.quick else 200_000
        results = {
            name: asyncio.run(measure_record(Path(folder) / f"{name}.db", n, runs=name == "is written"))
            for name in ("is written", "can't be written")
        }
        goals.append((f"record ≤ {RECORD_US:g} µs p50", show_record(console, results)))
        if options.only != "record":
            lanes = asyncio.run(measure_calls(Path(folder), 60 if options.quick else 600, _CALLS))
            is_met = show_calls(console, lanes, results["is written"].writer_us / 1e6)
            goals.append((f"calls ≤ {100 * SHARE:g} % dearer", is_met))
    for name, is_met in goals:
        verdict = "UNCLEAR: within the noise" if is_met is None else "met" if is_met else "MISSED"
        console.print(f"{name}: {verdict}", style="green" if is_met else "red", highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:])
