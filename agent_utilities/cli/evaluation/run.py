"""`agent-utilities eval`: measure how well tools are ranked for requests, and what each part of usage adds.

And for `agent-utilities capabilities route`: route messages to capabilities by a gateway's own code.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console

from agent_utilities.cli.asking import list_tools
from agent_utilities.cli.evaluation import data
from agent_utilities.cli.evaluation.data import Request, Session, Tool
from agent_utilities.cli.evaluation.report import Figures, RankedRequest, measure, print_report, write_ranks
from agent_utilities.errors import InputError
from agent_utilities.gateway.capabilities.model import Route
from agent_utilities.gateway.capabilities.router import CapabilityRouter
from agent_utilities.gateway.capabilities.tap import folder_named, read_capabilities
from agent_utilities.query.graph.matching import Neighbour
from agent_utilities.query.ranking.answerability import PastRequests
from agent_utilities.query.ranking.base import Ranking
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker
from agent_utilities.query.ranking.open import open_ranker, open_rankers
from agent_utilities.query.resolution.prior import NO_PRIOR, Prior, neighbour_shares, with_prior
from agent_utilities.selection.model import RankedTool, Resolution, nearest
from agent_utilities.server.command_line.terminal import AsJson, in_event_loop
from agent_utilities.settings import Settings
from agent_utilities.settings_file import settings_of
from agent_utilities.usage.learning import Step, sequences
from agent_utilities.usage.model import N_NEAR, Learned

app = typer.Typer(add_completion=False)

N_RANKED = 25
N_FOUND = 10
"""The most tools that a search returns by default."""
N_NEXT = 5
"""The next tool must be among so many of those not called yet."""
NEXT_TOOL = f"next tool hit@{N_NEXT}"
PARTS = {
    "past_requests": "past_requests",  # requests that each tool answered
    "recency": "uses",  # how much each was used of late
    "used_with": "used_with",  # tools that sessions called together
    "followed_by": "followed_by",  # the tool that was called next
}
"""The parts of what usage teaches, in the order of the report, and each part's field of `Learned`."""
_OF_SESSIONS = frozenset(("used_with", "followed_by"))
"""The parts that only requests with calls before them can use."""


@app.command()
def evaluate(
    queries: Path | None = None,
    tools: Path | None = None,
    server: str | None = None,
    negatives: Path | None = None,
    usage: Path | None = None,
    sessions: Path | None = None,
    without: list[str] | None = None,
    ranker: str = "hybrid",
    provider: str = "minilm",
    cache: Path | None = None,
    top_k: Annotated[int, typer.Option(min=1)] = 15,
    ranks_out: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Rank the tools that answer requests, and say how well.

    Args:
        queries: JSON lines of requests: id, query, and relevant tool ids or groups.
        tools: What a server's --list --json prints, or JSON lines: id, name, description, input_schema.
        server: A running server, such as http://127.0.0.1:8001, in place of --tools.
        negatives: Requests that no tool need answer.
        usage: Past requests and the tools that answered them, or a server's usage log.
        sessions: JSON lines of sessions: id, query, calls (tool ids in order); asks each for its next tools.
        without: Leave out past_requests, recency, used_with or followed_by; may be repeated.
        ranker: lexical, embedding or hybrid.
        provider: minilm, fastembed[:MODEL], or an endpoint as URL#MODEL.
        cache: A file to keep vectors in between runs.
        top_k: The most tools an agent is shown, for what is claimed and the tokens saved.
        ranks_out: Write a JSON line for each request here.
    """
    parts, catalog = _parts_left(without or ()), _read_catalog(tools, server)
    requests, unanswerable, past = _read_asked(queries, negatives, sessions, catalog)
    evaluation = Evaluation(catalog, open_ranker(ranker, provider, cache), data.read_usage(usage, catalog), past)
    ranked, rejected = evaluation.rank(requests, parts), evaluation.rank(unanswerable, parts)
    name, file = "lexical" if evaluation.cause else ranker, queries or sessions
    title = f"{name} on {tools.resolve().parent.name if tools else server}" + (f": {file.stem}" if file else "")
    if ranks_out:
        write_ranks(ranks_out, [*ranked, *rejected])
    measures = measure(ranked, rejected, catalog, top_k) | evaluation.next_tools(parts)
    print_report(title, name, evaluation.cause, measures, evaluation.ablation(parts, requests), as_json=as_json)


def _parts_left(without: Sequence[str]) -> frozenset[str]:
    for name in without:
        if name not in PARTS:
            near = nearest(name, PARTS)
            hint = (f"did you mean {near}? " if near else "") + f"one of {', '.join(PARTS)}"
            raise InputError("nothing that is learned has this name", name, "--without", hint)
    return frozenset(PARTS).difference(without)


def _read_catalog(tools: Path | None, server: str | None) -> list[Tool]:
    if (tools is None) == (server is None):
        raise InputError("not one catalog", tools or server or "", "command line", "give either --tools or --server")
    catalog = data.read_tools(tools) if tools else data.listed_tools(*in_event_loop(list_tools)(str(server)))
    if not catalog:
        raise InputError("no tools to rank", str(tools or server), "command line", "give at least one")
    return catalog


def _read_asked(
    queries: Path | None, negatives: Path | None, sessions: Path | None, tools: Sequence[Tool]
) -> tuple[list[Request], list[Request], list[Session]]:
    if queries is None and sessions is None:
        raise InputError("nothing to ask", "", "command line", "give --queries, --sessions or both")
    return (
        data.read_requests(queries, tools) if queries else [],
        data.read_requests(negatives) if negatives else [],
        data.read_sessions(sessions, tools) if sessions else [],
    )


class Evaluation:
    """Ranks tools with chosen parts of what usage and sessions teach."""

    def __init__(
        self, tools: Sequence[Tool], ranker: LexicalRanker | HybridRanker, learned: Learned, sessions: Sequence[Session]
    ) -> None:
        self._tools, self._learned, self._sessions = tools, learned, sessions
        self._ids = frozenset(tool.id for tool in tools)
        notes = Console(stderr=True)
        with notes.status(f"indexing {len(tools)} tools"):
            self._index = self._taught = ranker.index([tool.document for tool in tools])
            past = learned.past_requests
            if past:
                answered = {place: past[tool.id] for place, tool in enumerate(tools) if tool.id in past}
                self._taught = self._index.learn(PastRequests.of(answered))
        self.cause = self._taught.cause
        """Why tools are ranked by less than was configured; empty where they aren't."""
        if self.cause:
            notes.print(f"[yellow]{self.cause}[/]", highlight=False)

    def rank(self, requests: Sequence[Request], parts: frozenset[str]) -> list[RankedRequest]:
        """Rank requests as a server would answer them, one after the other."""
        index = self._taught if "past_requests" in parts else self._index
        prior = Prior(self._learned.uses) if "recency" in parts else NO_PRIOR
        ranked = []
        for request in requests:
            started = time.perf_counter()
            ranking = index.rank(request.query, limit=N_RANKED)
            tools, n = self._named(ranking), ranking.n_claimed
            if prior.uses:  # those that are claimed are moved among themselves, and so are the others
                parted = (tuple(tools[:n]), tuple(tools[n:]))
                moved = [with_prior(Resolution("ranked", part), prior, self._ids, len(part)) for part in parted]
                tools = [tool for each in moved for tool in each.tools]
            ms = 1000 * (time.perf_counter() - started)
            ids, scores = tuple(tool.name for tool in tools), tuple(tool.score or 0.0 for tool in tools)
            ranked.append(RankedRequest(request, ids, scores, ranking.abstained, ms, n))
        return ranked

    def _named(self, ranking: Ranking) -> list[RankedTool]:
        places = zip(ranking.indexes, ranking.scores, strict=True)
        return [RankedTool(self._tools[place].id, score) for place, score in places]

    def next_tools(self, parts: frozenset[str]) -> Figures:
        """Return how often a session's next tool is suggested, taught by all other sessions.

        Sessions with a query and several tools count. A linked tool went with an earlier one in another session.
        """
        if not self._sessions:
            return {}
        queried = [session for session in self._sessions if session.query and session.steps]
        taught = data.together([self._learned, taught_by(self._sessions)])
        left_out: dict[str, Any] = {field: {} for part, field in PARTS.items() if part not in parts}
        index = self._taught if "past_requests" in parts else self._index
        n_steps = n_hits = n_linked = 0
        for session in queried:
            learned = replace(taught_without(session, taught), **left_out)
            edges = [edge for edge in _edges(learned) if edge.of in session.calls]
            prior = Prior(learned.uses)
            tools = tuple(self._named(index.rank(session.query, limit=N_RANKED + N_FOUND)))
            matches = Resolution("ranked" if tools else "no_match", tools)  # what `tool_search` finds, before it is cut
            for called, wanted in session.steps:
                near = tuple(dict.fromkeys(reversed(called)))[:N_NEAR]  # as a session's trail has them
                shares = neighbour_shares(edges, near, self._ids)
                answer = with_prior(replace(matches, neighbours=shares), prior, self._ids, N_FOUND)
                n_steps += 1
                n_hits += wanted in [name for name in answer.names if name not in called][:N_NEXT]
                n_linked += any(name == wanted for name, _ in shares)
        shares_of = {"of them linked": n_linked / max(1, n_steps), NEXT_TOOL: n_hits / max(1, n_steps)}
        return {"sessions": float(len(queried)), "next tools": float(n_steps), **shares_of}

    def ablation(self, parts: frozenset[str], requests: Sequence[Request]) -> dict[str, Figures]:
        """Return the figures by words alone, with each learned part, with all parts, and with all but each.

        Empty where nothing was learned, or all of it is left out.
        """
        taught = {part for part, field in PARTS.items() if getattr(self._learned, field)}
        taught = taught | {"recency", *_OF_SESSIONS} if self._sessions else taught - _OF_SESSIONS
        whole = [part for part in PARTS if part in taught & parts]
        if not whole:
            return {}
        wanted: dict[str, set[str]] = {"words alone": set()}
        if len(whole) > 1:
            wanted |= {f"words and {part}": {part} for part in whole}
        wanted["words and all parts" if len(whole) > 1 else f"words and {whole[0]}"] = set(whole)
        if len(whole) > 2:
            wanted |= {f"all without {part}": {*whole} - {part} for part in whole}
        return {name: self._figures(frozenset(chosen), requests) for name, chosen in wanted.items()}

    def _figures(self, parts: frozenset[str], requests: Sequence[Request]) -> Figures:
        figures: Figures = {}
        if requests:
            ranked = self.rank(requests, parts)
            figures["hit@1"] = fmean(request.reciprocal_rank(1) for request in ranked)
            figures["recall@5"] = fmean(request.recall(5) for request in ranked)
        if self._sessions:
            figures[NEXT_TOOL] = self.next_tools(parts)[NEXT_TOOL]
        return figures


def taught_by(sessions: Sequence[Session]) -> Learned:
    """Return what sessions teach; a session counts once for each tool that it called."""
    steps = (Step(str(place), 0, call) for place, session in enumerate(sessions) for call in session.calls)
    return replace(sequences(steps), uses=Counter(call for session in sessions for call in set(session.calls)))


def taught_without(session: Session, taught: Learned) -> Learned:
    """Return what was taught, without what one of the sessions taught."""
    own = taught_by([session])
    left: dict[str, Any] = {name: Counter(getattr(taught, name)) - Counter(getattr(own, name)) for name in data.COUNTS}
    return replace(taught, **left)


def _edges(learned: Learned) -> list[Neighbour]:
    """Return the edges between tools; those of tools used together go both ways."""
    together = [(*pair, n) for pair, n in learned.used_with.items()]
    edges = [Neighbour(first, second, "used_with", n) for first, second, n in together]
    edges += [Neighbour(second, first, "used_with", n) for first, second, n in together]
    return edges + [Neighbour(*pair, "followed_by", n) for pair, n in learned.followed_by.items()]


class Message(BaseModel):
    """A message, and the capability that it calls for: None for none, unset where that is not known."""

    intent: str
    label: str | None = None


def route_messages(folder: Path, rows_file: Path, out: Path | None, *, by_words: bool = False) -> None:
    """Route messages, write each route, and print how often labelled ones are right.

    Of `rows_file` each line has `intent` and perhaps `label`: a capability's name, or null for none. `out` is
    written, where there is one.
    """
    triggers = read_capabilities([folder_named(str(folder))]).triggers
    if not triggers:
        hint = "name a folder of capabilities that has triggers"
        raise InputError("no capability with triggers", str(folder), "--folder", hint)
    messages = [message for _, message in data.rows(rows_file, Message)]
    settings = settings_of(os.environ)
    if by_words:
        settings = settings.model_copy(update={"ranker": "lexical"})
    cause, routes = in_event_loop(_route_all)(triggers, messages, settings)
    if out is not None:
        pairs = zip(messages, routes, strict=True)
        lines = [{"intent": each.intent, "scores": route.scores, "activated": route.activated} for each, route in pairs]
        data.write_rows(out, lines, "--out")
    if cause:
        print(f"note: {cause}")
    for line in measured(messages, routes):
        print(line)


def measured(messages: Sequence[Message], routes: Sequence[Route]) -> list[str]:
    """Return lines for people on how often routes are right; none where no message is labelled."""
    pairs = list(zip(messages, routes, strict=True))
    calls = [(message.label, route) for message, route in pairs if message.label]
    others = [route for message, route in pairs if "label" in message.model_fields_set and not message.label]
    outcomes = {
        "top-1": [bool(route.scores) and route.scores[0][0] == label for label, route in calls],
        "hit by the gate": [route.activated == label for label, route in calls],
        "another activated": [route.activated not in (label, None) for label, route in calls],
        "abstained by the gate": [route.activated is None for route in others],
    }
    return [
        f"{what:24}{sum(held) / len(held):.3f}  ({sum(held)} of {len(held)})" for what, held in outcomes.items() if held
    ]


async def _route_all(
    triggers: Mapping[str, tuple[str, ...]], messages: Sequence[Message], settings: Settings
) -> tuple[str, list[Route]]:
    """Return each message's route, after why they are routed by less than was configured, if so."""
    router = CapabilityRouter.of(open_rankers(settings))
    try:
        router.use(triggers)
        await router.wait_until_ready()
        routes = [await router.route(message.intent, frozenset(triggers)) for message in messages]
        return router.cause, routes
    finally:
        router.close()
