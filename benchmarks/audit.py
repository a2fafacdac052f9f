"""What a record of calls costs: the event loop's share of a line and of a call, and what the record's thread takes.

python benchmarks/audit.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from agent_utilities import create_mcp_server
from agent_utilities.access.record.chain import n_bytes_of
from agent_utilities.access.record.record import Record
from agent_utilities.seam.host import CallRecord, find
from benchmarks.measure import quantile

LINE_US = 20.0
_BATCH = 100
"""Calls between which the thread may write all that waits."""


@dataclass
class Taken:
    """What lines took.

    Args:
        lines_us: of the event loop for each line, in microseconds of processor time, by calls.
        thread_us: of the record's thread for a line, in microseconds of processor time.
        calls_us: of the event loop for a whole call in one process with its client.
    """

    lines_us: list[float]
    thread_us: float
    calls_us: list[float]


class Stopwatch:
    """Takes the time of what the record does on the event loop, and not of what it waits for, nor of the call."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take the time of each record's work while the block runs."""
        began, ended = Record.began, Record.ended

        async def stepped(coroutine: Coroutine[Any, Any, Any]) -> Any:
            while True:
                started_s = time.thread_time()
                try:
                    waits = coroutine.send(None)
                except StopIteration as stopped:
                    return stopped.value
                finally:
                    self.spent_s += time.thread_time() - started_s
                await _Awaited(waits)

        def timed_ended(record: Record, *given: Any) -> None:
            started_s = time.thread_time()
            ended(record, *given)
            self.spent_s += time.thread_time() - started_s

        with (
            patch.object(Record, "began", lambda *given: stepped(began(*given))),
            patch.object(Record, "ended", timed_ended),
            patch("agent_utilities.access.record.record.n_bytes_of", lambda result: stepped(n_bytes_of(result))),
        ):
            yield


async def measure(path: str, mode: str, n_calls: int, arguments: str = "") -> Taken:
    """Return what the lines of calls took.

    Args:
        path: the record's file; blank for a server that keeps none.
        mode: as `MCP_AUDIT_MODE`.
        n_calls: how many calls.
        arguments: the tools whose arguments are recorded.
    """
    from fastmcp import Client

    environ = {"MCP_GRAPH": "off", "MCP_RANKER": "off", "MCP_USAGE": "off", "MCP_AUDIT_MODE": mode}
    server = create_mcp_server("audit", environ={**environ, "MCP_AUDIT_FILE": path, "MCP_AUDIT_ARGUMENTS": arguments})
    server.tool(_echo, name="echo")
    taken, watch = Taken([], 0.0, []), Stopwatch()
    with watch.running():
        async with Client(server) as client:
            for _ in range(_BATCH):  # warms up
                await client.call_tool("echo", {"text": "hello"})
            others_s = time.process_time() - time.thread_time()
            for number in range(n_calls):
                watch.spent_s, started_s = 0.0, time.perf_counter()
                await client.call_tool("echo", {"text": "hello"})
                taken.calls_us.append(1e6 * (time.perf_counter() - started_s))
                taken.lines_us.append(1e6 * watch.spent_s / 2)
                if number % _BATCH == 0:
                    await _written(find(server, CallRecord))
            await _written(find(server, CallRecord))
            taken.thread_us = 1e6 * (time.process_time() - time.thread_time() - others_s) / (2 * n_calls)
    return taken


class _Awaited:
    """Hands on to the event loop what a coroutine that is stepped by hand waits for."""

    def __init__(self, waits: Any) -> None:
        self._waits = waits

    def __await__(self) -> Any:
        return (yield self._waits)


async def _written(record: CallRecord | None) -> None:
    while isinstance(record, Record) and record.log.n_waiting:  # noqa: ASYNC110 - the record has no event for it
        await asyncio.sleep(0.001)


def _echo(text: str) -> str:
    """Return the text."""
    return text


def main(argv: Sequence[str]) -> None:
    """Measure each kind of record, and print it with the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    n_calls = 500 if parser.parse_args(argv).quick else 5_000
    lanes = {"none": ("best effort", ""), "best effort": ("best effort", "")}
    lanes |= {"required": ("required", ""), "best effort, with arguments": ("best effort", "*")}
    columns = ("the record", "loop's share of a line, p50 µs", "p99 µs", "its thread, µs a line", "a call, p50 µs")
    table, console, is_met = Table(*columns), Console(), True
    with tempfile.TemporaryDirectory() as folder:
        for name, (mode, arguments) in lanes.items():
            path = f"{folder}/{name}.jsonl" if name != "none" else ""
            taken = asyncio.run(measure(path, mode, n_calls, arguments))
            cells = (
                *(quantile(taken.lines_us, q) for q in (0.5, 0.99)),
                taken.thread_us,
                quantile(taken.calls_us, 0.5),
            )
            table.add_row(name, *(f"{each:.1f}" for each in cells))
            is_met = is_met and quantile(taken.lines_us, 0.5) <= LINE_US
    console.print(table)
    verdict = "met" if is_met else "MISSED"
    console.print(f"a line takes ≤ {LINE_US:g} µs of the event loop: {verdict}", style="green" if is_met else "red")


if __name__ == "__main__":
    main(sys.argv[1:])
