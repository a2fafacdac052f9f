"""Measure how queries are resolved: on both graphs, beside FastMCP's search and the released agent-utilities 1.x.

python benchmarks/resolution.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console

from benchmarks.contenders import OURS, Contender, ContenderError, released
from benchmarks.resolution_process import (
    Neo4jServer,
    ResolvingProcess,
    neo4j_server,
    released_with_engine,
    why_unresolved,
)
from benchmarks.resolution_results import AGAIN, WITH, WITHOUT, Resolved, Results, goals, show
from benchmarks.resolution_startup import startup_rounds
from benchmarks.resolution_worker import EVERYWHERE, NOUNS, described, tool_name

WIDTH = 130
"""Columns that the tables need; narrower terminals wrap them."""

BM25 = Contender("BM25SearchTransform", "bm25")


@dataclass(frozen=True)
class Plan:
    """How much to run.

    Args:
        sizes: catalog sizes.
        n_processes: fresh processes for each size and backend.
        n_queries: queries of each kind in each process, at most 50.
        n_lists: lists with and without a query, in each process.
        n_beside: queries put to each contender.
        starts: catalog sizes for start-up, with how many fresh processes of each lane.
    """

    sizes: tuple[int, ...]
    n_processes: int
    n_queries: int
    n_lists: int
    n_beside: int
    starts: dict[int, int]


FULL = Plan((100, 1000, 10_000), n_processes=1, n_queries=40, n_lists=300, n_beside=12, starts={100: 25, 1000: 9})
QUICK = Plan((100, 10_000), n_processes=1, n_queries=12, n_lists=100, n_beside=6, starts={100: 5})


def queries(n_tools: int, n: int) -> dict[str, list[str]]:
    """Return queries by kind, none twice; the last two kinds are the most that one can ask of a graph.

    Args:
        n_tools: the catalog's size.
        n: how many of each kind, at most 50.
    """
    chosen = [(i * 61 + 17) % n_tools for i in range(n)]
    slices = [EVERYWHERE[start:] for start in range(len(EVERYWHERE)) if EVERYWHERE[start] != " "]
    return {
        "a phrase, one tool": [f"account {i:05}" for i in chosen],
        "a word, some tools": list(NOUNS[:n]),
        "words apart": [f"{NOUNS[(3 * i + 1) % len(NOUNS)]} {NOUNS[(7 * i + 5) % len(NOUNS)]} {i}" for i in range(n)],
        "no tool": [f"xylophone{i}" for i in range(n)],
        "words apart, two of them on every tool": [f"date of entries {i:05}" for i in chosen],
        "a phrase on every tool": slices[:n],
    }


def lag_queries(n: int) -> dict[str, list[str]]:
    """Return the loads that the event loop is watched under, with queries that `queries` does not hold."""
    usual = [(f"trade_{noun}", f"{noun} {NOUNS[i - 7]} again", f"marimba{i}") for i, noun in enumerate(NOUNS[:n])]
    return {
        "idle": [],
        "cold": [text for texts in usual for text in texts],
        "cold, words on every tool": [f"entries, date {i}" for i in range(n // 2)],
        "refresh": [],
        "stampede, 1,000 callers at once": [f"glockenspiel{i}" for i in range(50)],
        "stampede, the same queries again": [f"glockenspiel{i}" for i in range(50)],
    }


def measure_graph(results: Results, graph: Neo4jServer | Literal["embedded"], n_tools: int, plan: Plan) -> None:
    """Measure one backend at one size: its answers, its lag and, on the embedded one, what it adds to a list."""
    backend = "neo4j" if isinstance(graph, Neo4jServer) else graph
    resolved = results.resolved.setdefault(backend, {}).setdefault(n_tools, {})
    lags = results.lags.setdefault(backend, {}).setdefault(n_tools, {})
    for _ in range(plan.n_processes):
        if isinstance(graph, Neo4jServer):
            graph.forget()
        variables = graph.variables if isinstance(graph, Neo4jServer) else {"MCP_GRAPH": graph}
        with ResolvingProcess(OURS, variables) as process:
            _add_lag(lags, "fill", process.ask("build", n_tools=n_tools)["lag"])
            asked = {"the first of a process": ["zzz first"], **queries(n_tools, plan.n_queries)}
            for kind, texts in asked.items():
                answer = process.ask("resolve", queries=texts, n_warm=20)
                resolved.setdefault(kind, Resolved()).extend(**answer)
            for load, texts in lag_queries(plan.n_queries).items():
                _add_lag(lags, load, process.ask("lag", load=load.partition(",")[0], queries=texts))
            if backend == "embedded":
                _measure_added(results, process, n_tools, plan)


def _add_lag(lags: dict[str, dict[str, Any]], load: str, found: dict[str, Any]) -> None:
    held = lags.setdefault(load, {"late_s": [], "blocked_s": [], "longest_collection_s": 0.0})
    for key in ("n_unanswered", "n_queries"):
        held[key] = held.get(key, 0) + found.get(key, 0)
    held["late_s"] += found["late_s"]
    held["blocked_s"] += found["blocked_s"]
    held["longest_collection_s"] = max(held["longest_collection_s"], found["longest_collection_s"])


def _measure_added(results: Results, process: ResolvingProcess, n_tools: int, plan: Plan) -> None:
    """A query against none: whole lists of the same length, and the steps that a query has a part in."""
    one = {"x-mcp-enabled-tools": tool_name(7)}, {"x-mcp-query": f"account {7:05}"}
    nothing: dict[str, str] = {}
    part, half = (nothing, {"x-mcp-query": "trade_invoice"}), (nothing, {"x-mcp-query": "write"})
    added = results.added.setdefault(n_tools, {})
    for what, op, (none, query) in (
        ("a whole list, one tool visible", "lists", one),
        ("verdict and decision, 1 in 50 visible", "decisions", part),
        ("verdict and decision, half visible", "decisions", half),
    ):
        answer = process.ask(op, lanes={WITHOUT: none, AGAIN: none, WITH: query}, n_calls=plan.n_lists)
        if op == "lists" and len(set(answer["n_tools"].values())) != 1:
            raise ContenderError(f"{what}: not the same number of tools visible: {answer['n_tools']}")
        lanes = added.setdefault(what, {})
        for lane, pairs in answer["timings"].items():
            lanes.setdefault(lane, []).extend(pairs)


def measure_beside(
    results: Results, n_tools: int, plan: Plan, others: list[Contender], variables: Mapping[str, str]
) -> None:
    """Put the same queries to every contender, in turns, each query twice."""
    kinds = queries(n_tools, plan.n_beside)
    texts = [text for pair in zip(kinds["a phrase, one tool"], kinds["words apart"], strict=True) for text in pair]
    found = results.beside.setdefault(n_tools, {})
    with ExitStack() as stack:
        running = []
        for each in (OURS, BM25, *others):
            environ = {"ours": {"MCP_GRAPH": "embedded"}, "released-graph": variables}.get(each.kind, {})
            running.append(stack.enter_context(ResolvingProcess(each, environ)))
        for process in running:
            process.order("build", n_tools=n_tools)
        for process in running:
            process.answer()
        for process in running:  # its first answer, which makes what it needs
            process.ask("answers", queries=["account zzz"])
        for start in range(0, len(texts), 4):
            for process in running:
                _put(found, process, texts[start : start + 4], n_tools, is_first_block=start == 0)


def _put(
    found: dict[str, Any], process: ResolvingProcess, texts: list[str], n_tools: int, *, is_first_block: bool
) -> None:
    who, lane = process.contender, process.contender.lane
    if who.kind == "released" and n_tools > 1000 and not is_first_block:
        return
    for again in (False, True) if who is OURS else (False,):
        answer = process.ask("answers", queries=texts)
        shown = sorted(set(answer["n_tools"]))
        text = "5 tools at most" if who is BM25 else f"{shown[0]:,} to {shown[-1]:,} tools"
        text = "all tools, whatever is asked" if shown == [n_tools] else text
        name = f"{lane}, tools/{'call search_tools' if who is BM25 else 'list'}"
        name += "" if who is not OURS else ", asked before" if again else ", first time"
        found.setdefault(name, ([], text))[0].extend(answer["timings"])
    if who is BM25:
        found.setdefault(f"{lane}, the search alone", ([], "5 tools at most"))[0].extend(
            process.ask("search", queries=texts)["timings"]
        )


def run(plan: Plan, console: Console) -> Results:
    """Measure everything in a plan; what can't be run is named in the notes and left out."""
    results = Results()
    with console.status("preparing") as status, neo4j_server() as neo4j:
        if isinstance(neo4j, str):
            results.notes.append(f"Neo4j is left out: {neo4j}")
        else:
            results.notes.append(f"Neo4j is {neo4j.version()}")
        others, engine = _others(results, has_neo4j=isinstance(neo4j, Neo4jServer))
        variables = neo4j.variables if isinstance(neo4j, Neo4jServer) else None
        for n_tools, n_rounds in plan.starts.items():
            status.update(f"start-up, {n_tools:,} tools")
            results.starts[n_tools] = startup_rounds(n_tools, n_rounds, variables)
        for n_tools in plan.sizes:
            status.update(f"{n_tools:,} tools, embedded")
            measure_graph(results, "embedded", n_tools, plan)
            if isinstance(neo4j, Neo4jServer):
                status.update(f"{n_tools:,} tools, Neo4j")
                measure_graph(results, neo4j, n_tools, plan)
            status.update(f"{n_tools:,} tools, beside others")
            released_on: dict[str, str] = {}
            if engine is not None and isinstance(neo4j, Neo4jServer):
                neo4j.fill_as_released([{"name": tool_name(i), "description": described(i)} for i in range(n_tools)])
                released_on = _as_released_reads(neo4j.variables)
            contenders = [*others, *([engine] if engine is not None else [])]
            measure_beside(results, n_tools, plan, contenders, released_on)
    return results


def _others(results: Results, *, has_neo4j: bool) -> tuple[list[Contender], Contender | None]:
    try:
        installed = released()
    except ContenderError as error:
        results.notes.append(str(error))
        return [], None
    said = why_unresolved(installed)
    results.notes.append(f"{installed.lane} as installed resolves no ?q=: its graph's import ends with {said!r}")
    if not has_neo4j:
        results.notes.append(f"{installed.lane} with an engine is left out: its own default graph rejects its query")
        return [installed], None
    try:
        return [installed], released_with_engine()
    except ContenderError as error:
        results.notes.append(str(error))
        return [installed], None


def _as_released_reads(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        "GRAPH_BACKEND": "neo4j",
        "GRAPH_DB_URI": variables["NEO4J_URI"],
        "GRAPH_DB_USER": variables.get("NEO4J_USERNAME", "neo4j"),
        "GRAPH_DB_PASSWORD": variables.get("NEO4J_PASSWORD", ""),
    }


def main() -> None:
    """Run, print the tables, and write the numbers where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no 1,000 tools")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write goals and every timing to a file")
    given = parser.parse_args()
    console = Console()
    console = console if console.width >= WIDTH else Console(width=WIDTH)
    started = time.perf_counter()
    results = run(QUICK if given.quick else FULL, console)
    show(results, console)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    console.print(f"{time.perf_counter() - started:.0f} s; {machine}", highlight=False)
    if given.json:
        document = {"machine": machine, "goals": [asdict(each) for each in goals(results)], **results.as_dict()}
        given.json.write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main()
