"""`agent-utilities eval`: how well a ranker finds the tools that answer requests."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from agent_utilities.cli.evaluation.data import Request, Tool, listed_tools, past_requests, read_requests, read_tools
from agent_utilities.cli.evaluation.measures import RankedRequest, measure
from agent_utilities.cli.evaluation.report import plot, print_table, write_ranks
from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.ranking.base import Index, LearningIndex, Ranker
from agent_utilities.ranking.open import open_ranker
from agent_utilities.ranking.past_requests import PastRequests

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
        ranker, provider, cache: as for `open_ranker`.
        top_k: how many tools an agent would be shown at most, for what is claimed and the tokens saved.
        ranks_out: where to write the rankings.
        plot_to: where to draw a plot.
        as_json: print JSON in place of a table.

    Raises:
        InputError: a file can't be read, or not exactly one of tools and server is given.
        ServerError: the server could not be asked.
    """
    catalog = _read_catalog(tools, server)
    requests = read_requests(queries, catalog)
    no_tool_requests = read_requests(negatives) if negatives else []
    index = _index(catalog, open_ranker(ranker, provider, cache))
    if usage and isinstance(index, LearningIndex):
        index = index.learn(PastRequests.of(past_requests(catalog, read_requests(usage))))
    answerable = _rank(index, catalog, requests)
    unanswerable = _rank(index, catalog, no_tool_requests)
    name = ranker if not index.cause else "lexical"
    if ranks_out:
        write_ranks(ranks_out, [*answerable, *unanswerable])
    if plot_to:
        plot(plot_to, f"{name}: {queries.stem}", answerable, unanswerable, N_RANKED)
    measures = measure(answerable, unanswerable, catalog, top_k)
    if as_json:
        print(json.dumps({"ranker": name, "cause": index.cause, **measures}))
    else:
        print_table(f"{name} on {tools.parent.name if tools else server}/{queries.stem}", measures)


def _read_catalog(tools: Path | None, server: str | None) -> list[Tool]:
    if (tools is None) == (server is None):
        raise InputError("not one catalog", tools or server or "", "command line", "give either --tools or --server")
    catalog = read_tools(tools) if tools else listed_tools(*anyio.run(_list_tools, str(server)))
    if not catalog:
        raise InputError("no tools to rank", str(tools or server), "command line", "give at least one")
    return catalog


def _index(catalog: Sequence[Tool], ranker: Ranker) -> Index:
    notes = Console(stderr=True)
    with notes.status(f"indexing {len(catalog)} tools"):
        index = ranker.index([tool.document for tool in catalog])
    if index.cause:
        notes.print(f"[yellow]{index.cause}[/]", highlight=False)
    return index


def _rank(index: Index, catalog: Sequence[Tool], requests: Sequence[Request]) -> list[RankedRequest]:
    ranked = []
    for request in requests:
        started = time.perf_counter()
        ranking = index.rank(request.query, limit=N_RANKED)
        ms = 1000 * (time.perf_counter() - started)
        tool_ids = tuple(catalog[place].id for place in ranking.indexes)
        ranked.append(
            RankedRequest(request, tool_ids, ranking.scores, ranking.abstained, ms, n_claimed=ranking.n_claimed)
        )
    return ranked


async def _list_tools(url: str) -> tuple[list[dict[str, Any]], str]:
    """Return a server's tools, and its name."""
    from fastmcp import Client

    try:
        async with Client(url) as client:
            tools = [tool.model_dump(mode="json", by_alias=True) for tool in await client.list_tools()]
            return tools, client.server_info.name if client.server_info else ""
    except Exception as error:
        raise ServerError(f"can't list the tools of {url!r}: {error or type(error).__name__}") from None
