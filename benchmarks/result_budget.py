"""Results over their budget: whether an answer is shown or can be read, what that takes, and what bounding costs.

    python benchmarks/result_budget.py            # 200 results, 300 questions
    python benchmarks/result_budget.py --quick    # a tenth of them; --only reach, time or memory: that alone
    python benchmarks/result_budget.py --misses   # and each question of the development half that was not answered

A reader by rules (`result_reader.py`) derives calls of `read_result` from a question and what was shown. Beside it is
FastMCP's `ResponseLimitingMiddleware` at the same size: what it cuts is lost. Tokens are bytes over 3.8; those of a
question are what the prompt has of the result: what was shown, the calls, and their answers.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.server.middleware.response_limiting import ResponseLimitingMiddleware
from fastmcp.tools.base import ToolResult
from mcp_types import CallToolRequestParams
from rich.console import Console
from rich.table import Table

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.results.bounded import BoundedResults, Wanted
from agent_utilities.results.content import Whole, tokens_of, whole_of
from agent_utilities.results.kept import ALL_BYTES, Kept, Owner
from agent_utilities.results.reading import read
from agent_utilities.results.shape import Shown, shortened
from benchmarks.result_data import BYTES_PER_TOKEN, HALVES, N_RESULTS, Half, Question, results, sized
from benchmarks.result_reader import next_read

BUDGETS = (8_000, 2_000)
N_READS = 2
N_CALLERS = 200
LOST = N_READS + 1
LARGEST = 16_000_000
HANDLE = "r_" + "a7" * 13


@dataclass(frozen=True, slots=True)
class Reached:
    """How one question was answered.

    Args:
        n_reads: calls of `read_result` until the answer stood in the prompt; `LOST` where it never did.
        share: tokens of the prompt, as a share of those of the whole.
        cut_share: the tokens that FastMCP leaves, as a share of those of the whole.
        in_cut: whether the answer is among them.
        calls: what was read, for those who look into a miss.
    """

    half: Half
    kind: str
    budget: int
    question: Question
    n_reads: int
    share: float
    cut_share: float
    in_cut: bool
    calls: Sequence[dict[str, Any]]


def asked(whole: Whole, shown: Shown, question: Question, budget: int) -> tuple[int, int, list[dict[str, Any]]]:
    """Return how many reads answer a question, the tokens in the prompt by then, and the calls that were derived."""
    prompt, spent, calls = [shown.blocks], shown.n_tokens, list[dict[str, Any]]()
    while not any(question.gold in text for text in prompt[-1]):
        if len(calls) == N_READS or (arguments := next_read(question.text, prompt, calls)) is None:
            return LOST, spent, calls
        calls.append(arguments)
        try:
            prompt.append(read(whole, arguments, budget, HANDLE).blocks)
        except InputError as refused:
            prompt.append((str(refused),))
        spent += n_tokens(json.dumps(arguments, ensure_ascii=False)) + n_tokens("\n".join(prompt[-1]))
    return len(calls), spent, calls


async def cut(result: dict[str, Any], budget: int) -> str:
    """Return the text that FastMCP's middleware leaves of a result."""
    whole = ToolResult(content=result["content"], structured_content=result.get("structuredContent"))

    async def call(context: MiddlewareContext[CallToolRequestParams]) -> ToolResult:
        return whole

    limit = ResponseLimitingMiddleware(max_size=int(budget * BYTES_PER_TOKEN))
    left = await limit.on_call_tool(MiddlewareContext(message=CallToolRequestParams(name="tool")), call)
    return "\n".join(block.text for block in left.content if block.type == "text")


async def reach(n: int) -> list[Reached]:
    """Return how each question of so many results a half is answered, at each budget."""
    answers = []
    for half in HALVES:
        for made in results(half, n):
            whole, n_whole = whole_of(made.result), tokens_of(made.result)
            for budget in BUDGETS:
                shown, left = shortened(whole, budget, HANDLE), await cut(made.result, budget)
                for question in made.questions:
                    n_reads, spent, calls = asked(whole, shown, question, budget)
                    shares = spent / n_whole, n_tokens(left) / n_whole
                    in_cut = question.gold in left
                    answers.append(Reached(half, made.kind, budget, question, n_reads, *shares, in_cut, calls))
    return answers


# -- what it costs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """What bounding one result takes.

    Args:
        cpu_s: seconds of processor time in all threads, which other load on the machine does not add to.
        hold_s: the longest for which the event loop stood still: the least of all rounds, since other load adds to it.
    """

    name: str
    n_bytes: int
    wall_s: float
    cpu_s: float
    hold_s: float = 0


async def _longest_hold(done: asyncio.Event) -> float:
    longest = 0.0
    while not done.is_set():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - before - 0.001)
    return longest


async def _bounded(result: dict[str, Any], n_rounds: int) -> tuple[float, float]:
    """Return the median seconds that bounding takes: that went by, and of processor time."""
    bounded, took = BoundedResults(Kept()), list[tuple[float, float]]()
    for _ in range(n_rounds):
        before, cpu = time.perf_counter(), time.process_time()
        await bounded.fitted(result, Wanted(8_000), Owner("handle"), "tool")
        took.append((time.perf_counter() - before, time.process_time() - cpu))
    return median(wall for wall, _ in took), median(cpu for _, cpu in took)


async def costs(*, quick: bool) -> list[Cost]:
    """Return what it costs to leave a result as it is, and to shorten and keep a large one."""
    n_calls, kinds = 200 if quick else 2_000, ("issues", "log")
    found = [Cost(f"{kind}, under", 10_000, *await _bounded(sized(kind, 10_000), n_calls)) for kind in kinds]
    for n_bytes, n_rounds in ((1_000_000, 9), *(() if quick else ((LARGEST, 3),))):
        for kind in ("issues", "log", "minified script", "metrics"):
            large, holds = sized(kind, n_bytes), list[float]()
            for _ in range(n_rounds):
                gc.collect()
                done = asyncio.Event()
                ticker = asyncio.ensure_future(_longest_hold(done))
                await asyncio.sleep(0.01)
                await _bounded(large, 1)
                done.set()
                holds.append(await ticker)
            found.append(Cost(f"{kind}, over", n_bytes, *await _bounded(large, n_rounds), min(holds)))
    return found


async def resident() -> float:
    """Return how many MiB the process grows by when 200 callers keep all that they may; what is free is given back."""
    large = [sized(kind, 1_500_000) for kind in ("issues", "log", "CSV", "HTML")]
    for each in large:
        await _bounded(each, 1)
    before, kept = _resident_mib(), Kept()
    for i in range(N_CALLERS):
        await BoundedResults(kept).fitted(large[i % len(large)], Wanted(8_000), Owner("subject", (str(i),)), "tool")
    return _resident_mib() - before


def _resident_mib() -> float:
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return float(psutil.Process().memory_info().rss / 2**20)


# -- what is printed ---------------------------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, heading in enumerate(columns):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table


def _percent(values: Iterable[float]) -> str:
    return f"{100 * fmean(values):.1f}"


def _reached(answers: Sequence[Reached]) -> Table:
    columns = ("questions", "shown", "by one read", "by two", "tokens, of the whole", "FastMCP: left", "tokens")
    table = _table("answers shown or reached, %; tokens in the prompt, mean share of the whole's, %", "", *columns)
    for budget in BUDGETS:
        for half in HALVES:
            of = [one for one in answers if (one.half, one.budget) == (half, budget)]
            by = (_percent(one.n_reads <= n for one in of) for n in range(LOST))
            fastmcp = (_percent(one.in_cut for one in of), _percent(one.cut_share for one in of))
            table.add_row(f"{budget:,}, {half}", str(len(of)), *by, _percent(one.share for one in of), *fastmcp)
    return table


def _kinds(answers: Sequence[Reached]) -> Table:
    budgets = (f"{budget:,}" for budget in BUDGETS)
    table = _table("development half: not reached by one read, of the questions", "kind", *budgets)
    own = [one for one in answers if one.half == "development"]
    for kind in sorted({one.kind for one in own if one.n_reads > 1}):
        of = ([one.n_reads > 1 for one in own if (one.kind, one.budget) == (kind, budget)] for budget in BUDGETS)
        table.add_row(kind, *(f"{sum(missed)} of {len(missed)}" for missed in of))
    return table


def _goals(answers: Sequence[Reached], found: Sequence[Cost], grown_mib: float | None) -> Table:
    table = _table("goals", "goal", "limit", "measured", "met?")

    def row(name: str, limit: str, measured: str, met: bool) -> None:
        table.add_row(name, limit, measured, "[green]yes[/]" if met else "[red]no[/]")

    for half in HALVES:
        for budget, n_reads, least in ((8_000, 1, 0.97), (8_000, 2, 0.995), (2_000, 1, 0.9)):
            if of := [one.n_reads <= n_reads for one in answers if (one.half, one.budget) == (half, budget)]:
                name = f"reached by {n_reads} at {budget:,}, {half}"
                row(name, f"≥ {100 * least:g} %", f"{_percent(of)} %", fmean(of) >= least)
        if shares := [one.share for one in answers if (one.half, one.budget) == (half, 8_000)]:
            row(f"tokens at 8,000, {half}", "≤ 12 %", f"{_percent(shares)} %", fmean(shares) <= 0.12)
    for n_bytes, most_s in ((10_000, 60e-6), (1_000_000, 0.04), (LARGEST, 1.0)):
        if of_size := [cost for cost in found if cost.n_bytes == n_bytes]:
            slowest, hold_s = max(cost.cpu_s for cost in of_size), max(cost.hold_s for cost in of_size)
            row(f"{n_bytes:,} bytes", f"≤ {_time(most_s)}", _time(slowest), slowest <= most_s)
            if hold_s:
                row("  the loop's longest hold", "≤ 60 ms", _time(hold_s), hold_s <= 0.06)
    if grown_mib is not None:
        most = ALL_BYTES / 2**20 * 1.1
        row(f"{N_CALLERS} callers", f"≤ {most:.0f} MiB", f"{grown_mib:.0f} MiB", grown_mib <= most)
    return table


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:,.1f} ms"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--only", choices=("reach", "time", "memory", "resident"))
    arguments = parser.parse_args()
    if arguments.only == "resident":
        print(asyncio.run(resident()))
        return
    logging.getLogger("fastmcp").setLevel(logging.ERROR)
    console, only = Console(width=140), arguments.only
    answers, found = list[Reached](), list[Cost]()
    if only in (None, "reach"):
        answers = asyncio.run(reach(N_RESULTS // 2 // (10 if arguments.quick else 1)))
        console.print(_reached(answers), _kinds(answers))
    if only in (None, "time"):
        found = asyncio.run(costs(quick=arguments.quick))
        table = _table("time of one result", "", "bytes", "wall", "processor", "the loop's longest hold")
        for cost in found:
            table.add_row(cost.name, f"{cost.n_bytes:,}", *map(_time, (cost.wall_s, cost.cpu_s, cost.hold_s)))
        console.print(table)
    grown_mib = None
    if only in (None, "memory"):
        command = [sys.executable, __file__, "--only", "resident"]  # a process of its own, with no heap from before
        grown_mib = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    console.print(_goals(answers, found, grown_mib))
    if arguments.misses:
        for one in answers:
            if one.half == "development" and one.n_reads > 1:
                print(one.budget, one.kind, one.question, one.n_reads, json.dumps(one.calls, ensure_ascii=False))


if __name__ == "__main__":
    main()
