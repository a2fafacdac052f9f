"""`agent-utilities eval`: how well a ranker finds the tools that answer requests, and what each part of usage adds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio

from agent_utilities.cli.asking import ServerError, mcp_url
from agent_utilities.cli.evaluation.data import Request, Tool, listed_tools, read_requests, read_tools
from agent_utilities.cli.evaluation.learned import (
    N_FOUND,
    PARTS,
    Part,
    Session,
    edges_of,
    near,
    neighbours_learned,
    only,
    parts_of,
    read_parts,
    read_sessions,
    read_usage,
    taught_by,
    taught_without,
    together,
)
from agent_utilities.cli.evaluation.ranking import N_RANKED, EvaluatedCatalog, measure
from agent_utilities.cli.evaluation.report import Figures, plot, print_ablation, print_table, write_ranks
from agent_utilities.errors import InputError
from agent_utilities.ranking.open import open_ranker
from agent_utilities.resolution.prior import Prior, neighbour_shares, with_prior

N_NEXT = 5
"""The next tool is to be among so many of those not called yet."""
NEXT_TOOL = f"next tool hit@{N_NEXT}"


@dataclass(frozen=True, slots=True)
class Files:
    """What an evaluation reads; all but the last are files of JSON lines.

    Args:
        tools: the tools, or what a server's `--list --json` printed; None for a running server's.
        server: any URL of a running server whose tools are ranked, in place of a file.
        queries: requests and the tools that answer them; None for none.
        negatives: requests that no tool need answer.
        sessions: the words that each session came with, and the tools that it called in order.
        usage: past requests and the tools that answered them, or a server's usage log.
    """

    tools: Path | None = None
    server: str | None = None
    queries: Path | None = None
    negatives: Path | None = None
    sessions: Path | None = None
    usage: Path | None = None

    @property
    def title(self) -> str:
        """What is evaluated, for people."""
        asked = self.queries or self.sessions
        return f"{self.tools.parent.name if self.tools else self.server}/{asked.stem if asked else ''}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a catalog: requests that tools answer, others that none need answer, sessions' next tools."""

    requests: tuple[Request, ...] = ()
    negatives: tuple[Request, ...] = ()
    sessions: tuple[Session, ...] = ()


def evaluate(
    files: Files,
    *,
    without: Sequence[str] = (),
    ranker: str = "hybrid",
    provider: str = "minilm",
    cache: Path | None = None,
    top_k: int = 15,
    ranks_out: Path | None = None,
    plot_to: Path | None = None,
    as_json: bool = False,
) -> None:
    """Rank every request, ask every session for its next tools, and print how well."""
    parts = read_parts(without)
    tools = _read_catalog(files.tools, files.server)
    asked = _read_asked(files, tools)
    catalog = EvaluatedCatalog(tools, open_ranker(ranker, provider, cache), read_usage(files.usage, tools))
    answerable, unanswerable = catalog.rank(asked.requests, parts), catalog.rank(asked.negatives, parts)
    cause = catalog.index(parts).cause
    name = "lexical" if cause else ranker
    if ranks_out:
        write_ranks(ranks_out, [*answerable, *unanswerable])
    if plot_to and not asked.requests:
        raise InputError("no requests to plot", str(plot_to), "--plot", "give --queries")
    if plot_to:
        plot(plot_to, f"{name} on {files.title}", answerable, unanswerable, N_RANKED)
    measures = measure(answerable, unanswerable, tools, top_k)
    if asked.sessions:
        measures |= _next_tools(catalog, asked.sessions, parts)
    rows = _ablation(catalog, asked, parts)
    if as_json:
        learned = {"ablation": rows} if rows else {}
        print(json.dumps({"ranker": name, "cause": cause, **measures, **learned}))
    else:
        print_table(f"{name} on {files.title}", measures)
        print_ablation(rows)


def _read_asked(files: Files, tools: Sequence[Tool]) -> Asked:
    if files.queries is None and files.sessions is None:
        raise InputError("nothing to ask", "", "command line", "give --queries, --sessions or both")
    return Asked(
        tuple(read_requests(files.queries, tools)) if files.queries else (),
        tuple(read_requests(files.negatives)) if files.negatives else (),
        tuple(read_sessions(files.sessions, tools)) if files.sessions else (),
    )


def _read_catalog(tools: Path | None, server: str | None) -> list[Tool]:
    if (tools is None) == (server is None):
        raise InputError("not one catalog", tools or server or "", "command line", "give either --tools or --server")
    catalog = read_tools(tools) if tools else listed_tools(*anyio.run(_list_tools, mcp_url(str(server))))
    if not catalog:
        raise InputError("no tools to rank", str(tools or server), "command line", "give at least one")
    return catalog


async def _list_tools(url: str) -> tuple[list[dict[str, Any]], str]:
    """Return a server's tools, and its name."""
    from fastmcp import Client

    try:
        async with Client(url) as client:
            tools = [tool.model_dump(mode="json", by_alias=True) for tool in await client.list_tools()]
            return tools, client.server_info.name if client.server_info else ""
    except Exception as error:
        raise ServerError(f"can't list the tools of {url!r}: {error or type(error).__name__}") from None


def _next_tools(catalog: EvaluatedCatalog, sessions: Sequence[Session], parts: frozenset[Part]) -> Figures:
    """Return how often the next tool of a session is found, taught by all others and by nothing of its own.

    Asked are those that have words and several tools. Linked is a tool that went with one called before elsewhere.
    """
    asked = [session for session in sessions if session.query and session.steps]
    all_taught, search = taught_by(sessions), catalog.search(parts)
    n_steps = n_hits = n_linked = 0
    for session in asked:
        learned = only(together([catalog.learned, taught_without(session, all_taught)]), parts)
        edges, prior, found = neighbours_learned(learned), Prior(learned.uses), search(session.query)
        for called, wanted in session.steps:
            shares = neighbour_shares(edges_of(edges, called), near(called), catalog.ids)
            answer = with_prior(replace(found, neighbours=shares), prior, catalog.ids, N_FOUND)
            n_steps += 1
            n_hits += wanted in [name for name in answer.names if name not in called][:N_NEXT]
            n_linked += any(name == wanted for name, _ in shares)
    shares_of = {"of them linked": n_linked / max(1, n_steps), NEXT_TOOL: n_hits / max(1, n_steps)}
    return {"sessions": float(len(asked)), "next tools": float(n_steps), **shares_of}


def _ablation(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> dict[str, Figures]:
    """Return the figures by words alone, with each part of what was learned alone, with all, and with all but each.

    Nothing where nothing was learned, or all of it is left out.
    """
    taught = parts_of(catalog.learned)
    if asked.sessions:
        taught |= {"recency", "used_with", "followed_by"}
    else:
        taught -= {"used_with", "followed_by"}  # of which requests that stand alone learn nothing
    whole = taught & parts
    if not whole or not (asked.requests or asked.sessions):
        return {}
    ordered = [part for part in PARTS if part in whole]
    wanted = {"words alone": frozenset[Part]()}
    if len(ordered) > 1:
        wanted |= {f"words and {part}": frozenset((part,)) for part in ordered}
    wanted["words and all parts" if len(ordered) > 1 else f"words and {ordered[0]}"] = whole
    if len(ordered) > 2:
        wanted |= {f"all without {part}": whole - {part} for part in ordered}
    return {name: _figures(catalog, asked, chosen) for name, chosen in wanted.items()}


def _figures(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> Figures:
    figures: Figures = {}
    if asked.requests:
        ranked = catalog.rank(asked.requests, parts)
        figures["hit@1"] = fmean(request.reciprocal_rank(1) for request in ranked)
        figures["recall@5"] = fmean(request.recall(5) for request in ranked)
    if asked.sessions:
        figures[NEXT_TOOL] = _next_tools(catalog, asked.sessions, parts)[NEXT_TOOL]
    return figures
