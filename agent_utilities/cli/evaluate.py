"""`agent-utilities eval`: how well a ranker finds the tools that answer requests."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from agent_utilities.cli.evaluation.data import Request, Tool, read_requests, read_tools, remember, tools_of
from agent_utilities.cli.evaluation.measures import Answer, measure
from agent_utilities.cli.evaluation.report import plot, print_table, write_ranks
from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.ranking.base import Index, Ranker
from agent_utilities.ranking.open import open_ranker

N_RANKED = 25


class ServerError(AgentUtilitiesError, ConnectionError):
    """The server could not be asked for its tools."""


def evaluate(
    *,
    tools: Path | None,
    server: str | None,
    queries: Path,
    negatives: Path | None = None,
    usage: Path | None = None,
    ranker: str = "hybrid",
    provider: str = "minilm",
    cache: Path | None = None,
    top_k: int = 15,
    ranks_out: Path | None = None,
    plot_to: Path | None = None,
    as_json: bool = False,
) -> None:
    """Rank every request of a file and print how well.

    Args:
        tools: JSON lines of tools, or None for a server's.
        server: the URL of a running server whose tools are ranked, in place of a file.
        queries: JSON lines of requests and the tools that answer them.
        negatives: JSON lines of requests that no tool need answer.
        usage: JSON lines of past requests and the tools that answered them.
        ranker: lexical, embedding or hybrid.
        provider: what embeds: see `open_provider`.
        cache: the file where vectors are kept, or None.
        top_k: how many tools an agent would be shown at most, for what is claimed and the tokens saved.
        ranks_out: where to write the rankings.
        plot_to: where to draw a plot.
        as_json: print JSON in place of a table.

    Raises:
        InputError: a file can't be read, or not exactly one of tools and server is given.
        ServerError: the server could not be asked.
    """
    catalog = _catalog(tools, server, usage)
    asked = read_requests(queries, catalog)
    unanswerable = read_requests(negatives) if negatives else []
    index = _index(catalog, open_ranker(ranker, provider, cache))
    answers = [_answer(index, catalog, request) for request in asked]
    refused = [_answer(index, catalog, request) for request in unanswerable]
    name = ranker if not index.cause else "lexical"
    if ranks_out:
        write_ranks(ranks_out, [*answers, *refused])
    if plot_to:
        plot(plot_to, f"{name}: {queries.stem}", answers, refused, N_RANKED)
    measures = measure(answers, refused, catalog, top_k)
    if not as_json:
        return print_table(f"{name} on {tools.parent.name if tools else server}/{queries.stem}", measures)
    print(json.dumps({"ranker": name, "cause": index.cause, **measures}))


def _catalog(tools: Path | None, server: str | None, usage: Path | None) -> list[Tool]:
    """Return the tools of a file or of a running server, with the requests that they answered before."""
    if (tools is None) == (server is None):
        raise InputError("not one catalog", tools or server or "", "command line", "give either --tools or --server")
    catalog = read_tools(tools) if tools else tools_of(anyio.run(partial(_listed, str(server))))
    if not catalog:
        raise InputError("no tools to rank", str(tools or server), "command line", "give at least one")
    return remember(catalog, read_requests(usage)) if usage else catalog


def _index(catalog: Sequence[Tool], ranker: Ranker) -> Index:
    """Return the catalog's index; what it lacks is said on stderr."""
    notes = Console(stderr=True)
    with notes.status(f"indexing {len(catalog)} tools"):
        index = ranker.index([tool.document for tool in catalog])
    if index.cause:
        notes.print(f"[yellow]{index.cause}[/]", highlight=False)
    return index


def _answer(index: Index, catalog: Sequence[Tool], request: Request) -> Answer:
    started = time.perf_counter()
    ranking = index.rank(request.query, limit=N_RANKED)
    ms = 1000 * (time.perf_counter() - started)
    ranked = tuple(catalog[place].id for place in ranking.indexes)
    return Answer(request, ranked, ranking.scores, ranking.abstained, ms, ranking.n_claimed)


async def _listed(url: str) -> list[dict[str, Any]]:
    from fastmcp import Client

    try:
        async with Client(url) as client:
            return [tool.model_dump(mode="json", by_alias=True) for tool in await client.list_tools()]
    except Exception as error:
        raise ServerError(f"can't list the tools of {url!r}: {error or type(error).__name__}") from None
