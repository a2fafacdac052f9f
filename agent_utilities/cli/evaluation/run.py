"""`agent-utilities eval`: how well a ranker finds the tools that answer requests, and what each part of usage adds."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import anyio
from rich.console import Console

from agent_utilities.cli.asking import ServerError, mcp_url
from agent_utilities.cli.evaluation.data import (
    Request,
    Session,
    Tool,
    listed_tools,
    read_requests,
    read_sessions,
    read_tools,
    read_usage,
    together,
)
from agent_utilities.cli.evaluation.measures import RankedRequest, measure
from agent_utilities.cli.evaluation.report import Figures, plot, print_ablation, print_table, write_ranks
from agent_utilities.errors import InputError
from agent_utilities.graph.matching import Neighbour
from agent_utilities.ranking.base import Index, LearningIndex, Ranker, Ranking
from agent_utilities.ranking.open import open_ranker
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.resolution.prior import NO_PRIOR, Prior, neighbour_shares, with_prior
from agent_utilities.selection.model import RankedTool, Resolution, nearest
from agent_utilities.usage.learning import Step, sequences
from agent_utilities.usage.model import N_NEAR, Learned

N_RANKED = 25
N_FOUND = 10
"""The most tools that a search names where nobody says how many."""
N_NEXT = 5
"""The next tool is to be among so many of those not called yet."""
NEXT_TOOL = f"next tool hit@{N_NEXT}"

Part = Literal["past_requests", "recency", "used_with", "followed_by"]
"""`past_requests`: requests that each tool answered · `recency`: how much each was used of late · `used_with`: tools
that sessions called together · `followed_by`: the tool that was called next."""
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order in which they are told."""


def _field(part: Part) -> str:
    """Return the field of `Learned` that a part is."""
    return "uses" if part == "recency" else part


def _read_parts(without: Iterable[str]) -> frozenset[Part]:
    """Return the parts that are left over."""
    left_out = frozenset(without)
    for name in sorted(left_out.difference(PARTS)):
        near = nearest(name, PARTS)
        hint = f"did you mean {near}? " if near else ""
        raise InputError("nothing that is learned has this name", name, "--without", f"{hint}one of {', '.join(PARTS)}")
    return frozenset(part for part in PARTS if part not in left_out)


def _only(learned: Learned, parts: frozenset[Part]) -> Learned:
    left_out: dict[str, Any] = {_field(part): {} for part in PARTS if part not in parts}
    return replace(learned, **left_out)


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
    parts = _read_parts(without)
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


class EvaluatedCatalog:
    """Tools, ranked with as much of what was learned as is asked for; indexes are made when they are first needed."""

    def __init__(self, tools: Sequence[Tool], ranker: Ranker, learned: Learned) -> None:
        self.tools = tools
        self.ids = frozenset(tool.id for tool in tools)
        self.learned = learned
        self._ranker = ranker
        self._indexes: dict[bool, Index] = {}

    def index(self, parts: frozenset[Part]) -> Index:
        """Return the index with or without past requests."""
        with_requests = "past_requests" in parts and bool(self.learned.past_requests)
        if with_requests not in self._indexes:
            self._indexes[with_requests] = self._taught(self.index(frozenset())) if with_requests else self._made()
        return self._indexes[with_requests]

    def _taught(self, index: Index) -> Index:
        past = self.learned.past_requests
        answered = {place: past[tool.id] for place, tool in enumerate(self.tools) if tool.id in past}
        return index.learn(PastRequests.of(answered)) if isinstance(index, LearningIndex) else index

    def _made(self) -> Index:
        notes = Console(stderr=True)
        with notes.status(f"indexing {len(self.tools)} tools"):
            index = self._ranker.index([tool.document for tool in self.tools])
        if index.cause:
            notes.print(f"[yellow]{index.cause}[/]", highlight=False)
        return index

    def rank(self, requests: Sequence[Request], parts: frozenset[Part]) -> list[RankedRequest]:
        """Rank requests as a server would answer them, one after the other."""
        index = self.index(parts)
        prior = Prior(self.learned.uses) if "recency" in parts else NO_PRIOR
        ranked = []
        for request in requests:
            started = time.perf_counter()
            ranking = index.rank(request.query, limit=N_RANKED)
            tools = self._moved(self._tools(ranking), ranking.n_claimed, prior)
            ms = 1000 * (time.perf_counter() - started)
            ids, scores = tuple(tool.name for tool in tools), tuple(tool.score or 0.0 for tool in tools)
            ranked.append(RankedRequest(request, ids, scores, ranking.abstained, ms, n_claimed=ranking.n_claimed))
        return ranked

    def search(self, query: str, parts: frozenset[Part]) -> Resolution:
        """Return what `tool_search` finds, before it is cut to what is asked for."""
        tools = self._tools(self.index(parts).rank(query, limit=N_RANKED + N_FOUND))
        return Resolution("ranked" if tools else "no_match", tuple(tools))

    def _moved(self, tools: list[RankedTool], n_claimed: int, prior: Prior) -> list[RankedTool]:
        """Return ranked tools moved by a prior: those that are claimed among themselves, and so the others."""
        if not prior.uses:
            return tools
        moved: list[RankedTool] = []
        for part in (tools[:n_claimed], tools[n_claimed:]):
            moved += with_prior(Resolution("ranked", tuple(part)), prior, self.ids, len(part)).tools
        return moved

    def _tools(self, ranking: Ranking) -> list[RankedTool]:
        places = zip(ranking.indexes, ranking.scores, strict=True)
        return [RankedTool(self.tools[place].id, score) for place, score in places]


def taught_by(sessions: Sequence[Session]) -> Learned:
    """Return what sessions teach; one counts once for each tool, however often it called it."""
    steps = (Step(str(place), 0, call) for place, session in enumerate(sessions) for call in session.calls)
    return replace(sequences(steps), uses=Counter(call for session in sessions for call in set(session.calls)))


def taught_without(session: Session, taught: Learned) -> Learned:
    """Return what is left of what was taught without one of the sessions that taught it."""
    own = taught_by([session])
    return replace(
        taught,
        uses=Counter(taught.uses) - Counter(own.uses),
        used_with=Counter(taught.used_with) - Counter(own.used_with),
        followed_by=Counter(taught.followed_by) - Counter(own.followed_by),
    )


def _next_tools(catalog: EvaluatedCatalog, sessions: Sequence[Session], parts: frozenset[Part]) -> Figures:
    """Return how often the next tool of a session is found, taught by all others and by nothing of its own.

    Asked are those that have words and several tools. Linked is a tool that went with one called before elsewhere.
    """
    asked = [session for session in sessions if session.query and session.steps]
    taught = together([catalog.learned, taught_by(sessions)])
    n_steps = n_hits = n_linked = 0
    for session in asked:
        learned = _only(taught_without(session, taught), parts)
        edges, prior, found = _edges(learned), Prior(learned.uses), catalog.search(session.query, parts)
        for called, wanted in session.steps:
            near = tuple(dict.fromkeys(reversed(called)))[:N_NEAR]  # as a session's trail has them
            neighbours = [edge for name in near for edge in edges.get(name, ())]
            shares = neighbour_shares(neighbours, near, catalog.ids)
            answer = with_prior(replace(found, neighbours=shares), prior, catalog.ids, N_FOUND)
            n_steps += 1
            n_hits += wanted in [name for name in answer.names if name not in called][:N_NEXT]
            n_linked += any(name == wanted for name, _ in shares)
    shares_of = {"of them linked": n_linked / max(1, n_steps), NEXT_TOOL: n_hits / max(1, n_steps)}
    return {"sessions": float(len(asked)), "next tools": float(n_steps), **shares_of}


def _edges(learned: Learned) -> dict[str, list[Neighbour]]:
    """Return what went with each tool, by its name; pairs that were used together go both ways."""
    edges: dict[str, list[Neighbour]] = {}
    for (first, second), n in learned.used_with.items():
        edges.setdefault(first, []).append(Neighbour(first, second, "used_with", n))
        edges.setdefault(second, []).append(Neighbour(second, first, "used_with", n))
    for (first, second), n in learned.followed_by.items():
        edges.setdefault(first, []).append(Neighbour(first, second, "followed_by", n))
    return edges


def _ablation(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> dict[str, Figures]:
    """Return the figures by words alone, with each part of what was learned alone, with all, and with all but each.

    Nothing where nothing was learned, or all of it is left out.
    """
    taught = frozenset(part for part in PARTS if getattr(catalog.learned, _field(part)))
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
