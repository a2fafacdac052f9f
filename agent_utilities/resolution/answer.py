"""What one caller asks and is answered, and how much time each part of that may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import getsizeof
from typing import Any, Protocol

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.graph.base import ToolRecord
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import RankedTool, Resolution


@dataclass(frozen=True, slots=True)
class CallerScope:
    """The tools that one caller may use.

    Args:
        digest: the same for equal scopes, and for no others.
        names: returns their names; called only where no answer in this scope is remembered.
    """

    digest: str
    names: Callable[[], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Trail:
    """What one caller did before.

    Args:
        scope: whose usage counts: everybody's of the server where empty, else the subject's of this salted hash.
        near: names of the tools that he called last, newest first, then of those that are active; at most 8.
    """

    scope: str = ""
    near: tuple[str, ...] = ()


NO_TRAIL = Trail()
"""Of a caller of whom nothing is known."""


@dataclass(frozen=True, slots=True)
class LiveTools:
    """A server's tools as they were just listed, whoever may use them.

    Args:
        digest: the same for equal tool sets.
        records: as the graph keeps them.
        documents: as a ranker reads them, aligned with `records`.
    """

    digest: str
    records: Sequence[ToolRecord]
    documents: Sequence[ToolDocument]


_FILL_SHARE = 0.5
_GRAPH_SHARE = 0.7
_RANKING_SHARE = 0.8
_LEAST_RANKING_S = 0.01
_VECTORS_SHARE = 0.75
_INDEX_SHARE = 0.5


def for_first_fill(query: Deadline) -> Deadline:
    """Return until when a graph that is filled for the first time is waited for; the rest is for the ranker alone."""
    return query.share(_FILL_SHARE)


def for_graph(query: Deadline) -> Deadline:
    """Return until when a graph is waited for where a ranker can answer without it."""
    return query.share(_GRAPH_SHARE)


def for_ranking(query: Deadline) -> Deadline:
    """Return until when a ranker may take, which runs beside the graph; the rest is for putting both together."""
    return query.share(_RANKING_SHARE, least_s=_LEAST_RANKING_S)


def for_vectors(ranking: Deadline) -> Deadline:
    """Return until when a ranking by vectors may take; the rest is for a ranking by words in its place."""
    return ranking.share(_VECTORS_SHARE)


def for_index_by_vectors(search: Deadline) -> Deadline:
    """Return until when a search waits for vectors of the tools; the rest is for searching, by words if need be."""
    return search.share(_INDEX_SHARE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What background work may take, mostly in seconds; no caller waits for it longer than the query's deadline.

    Args:
        statement_s: one statement on the graph, and waiting for a place to run it.
        probe_s: a statement that anything alive answers, asked after one that took too long.
        refresh_s: bringing a server's tools into the graph.
        refresh_gap_s: between the starts of two refreshes that follow changes.
        close_s: letting go of the graph at the end.
        settle_s: how long a server is left alone after its start before its graph is opened, unless a query comes;
            None opens it for a query only.
        cache_bytes: what is remembered of queries may take, for answers and for matches half of it each; not a time.
        retry_s: pauses between tries to fill the graph; the last also between refreshes after one that failed.
    """

    statement_s: float = 2.0
    probe_s: float = 0.25
    refresh_s: float = 60.0
    refresh_gap_s: float = 1.0
    close_s: float = 1.5
    settle_s: float | None = 0.0
    cache_bytes: int = 16 << 20
    retry_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


NO_EDITION = ""
"""The edition of a graph that is not there."""

UNRANKED = "not ranked"
"""What callers are told where a ranker is there and has not answered."""


@dataclass(frozen=True, slots=True)
class Question:
    """What one caller asks, on its way down.

    Args:
        query: the user's words as they came.
        text: the same normalised, as the graph is asked.
        scope: the tools to choose from; None for all.
        limit: the most to name; None for all.
        trail: what the caller did before.
    """

    query: str
    text: str
    scope: CallerScope | None = None
    limit: int | None = None
    trail: Trail = NO_TRAIL


@dataclass(frozen=True, slots=True)
class Asked:
    """What one answer is an answer to; equal for callers who may be given the same.

    Args:
        server: whose tools.
        text: the normalised query.
        edition: of the server's tools in the graph; `NO_EDITION` for an answer without it.
        scope_digest: of the tools that the caller may use; empty for all.
        ranker_version: what the ranker answers from; empty while it can't.
        limit: the most to name.
        trail: what the caller did before.
    """

    server: str
    text: str
    edition: str
    scope_digest: str
    ranker_version: str
    limit: int | None
    trail: Trail = NO_TRAIL

    def weigh(self, answer: Resolution) -> int:
        """Return about how many bytes an answer takes, with what it is an answer to."""
        texts = (self.text, self.scope_digest, self.trail.scope, *self.trail.near)
        return 800 + sum(map(getsizeof, texts)) + 250 * len(answer.tools) + 150 * len(answer.neighbours)


Ranked = Callable[[Sequence[str]], Resolution]
"""A ranking, to be made an answer of with the names of the tools in scope that bear the query as it stands."""


class ToolRanker(Protocol):
    """Ranks a server's tools: `CatalogRanker`, or a test's own."""

    def version_for(self, scope: str) -> str:
        """Return what it answers from: answers of one version are equal. Empty while it can't rank.

        Args:
            scope: the usage scope that is asked in; no version is that of two scopes, everybody's aside.
        """
        ...

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        """Return what the tools in scope are ranked as; never fails, never waits past the deadline, blocks nothing.

        Args:
            question: what is asked.
            deadline: until when it is waited for.

        Returns:
            None where it can't rank.
        """
        ...


def unavailable(cause: str) -> Resolution:
    """Return the answer where neither graph nor ranker can give one."""
    return Resolution("unavailable", cause=cause)


def literal_answer(literal: Sequence[str], limit: int | None, cause: str = "") -> Resolution:
    """Return the answer that the graph gives by itself.

    Args:
        literal: names of the tools that bear the query, best first.
        limit: the most to name; None for all.
        cause: why there is no more than this for now; empty where nothing better is to come.
    """
    return Resolution(
        "fresh" if literal else "no_match",
        tuple(map(RankedTool, literal[:limit])),
        cause,
        _n_left_out(len(literal), limit),
        is_temporary=bool(cause),
    )


def answer_without_graph(answer: Resolution, cause: str) -> Resolution:
    """Return the answer of a ranker by itself as callers are told it.

    Args:
        answer: what the ranking comes to without literal matches.
        cause: why there is no graph to ask.
    """
    causes = ", ".join(filter(None, (f"graph {cause}", answer.cause)))
    return replace(answer, status="ranked" if answer.tools else "no_match", cause=causes)


def combined_answer(
    question: Question, literal: Sequence[str], ranked: Sequence[RankedTool], n_claimed: int
) -> Resolution:
    """Return the literal matches, the better ranked ones first, and after them what the ranker claims besides.

    The best of those is named however many tools bear the query. A query that is a tool's name asks for no other.

    Args:
        question: what is asked.
        literal: names of the tools that bear the query as it stands.
        ranked: what the ranker found, best first.
        n_claimed: how many of the first of them are said to answer the query.
    """
    bearing, ranked_names = frozenset(literal), frozenset(tool.name for tool in ranked)
    if any(name.lower() == question.text for name in literal):
        n_claimed = 0
    tools = (
        *(tool for tool in ranked if tool.name in bearing),
        *(RankedTool(name) for name in literal if name not in ranked_names),
        *(tool for tool in ranked[:n_claimed] if tool.name not in bearing),
    )
    shown = tools[: question.limit]
    if n_claimed and ranked[0] not in shown:
        shown = (*shown[:-1], ranked[0])
    n_left_out = _n_left_out(len(tools), question.limit)
    return Resolution("fresh" if tools else "no_match", shown, n_left_out=n_left_out)


def _n_left_out(n_tools: int, limit: int | None) -> int:
    return 0 if limit is None else max(0, n_tools - limit)


def reasons_by_name(resolution: Resolution) -> dict[str, dict[str, Any]]:
    """Return for each tool that answers its `rank`, and where a ranker was asked its `score` and `words`.

    A tool that stands there for what was called before bears `by_usage` as well.
    """
    if not resolution.answered:
        return {}
    was_ranked = any(tool.score is not None for tool in resolution.tools)
    reasons: dict[str, dict[str, Any]] = {}
    for place, tool in enumerate(resolution.tools, 1):
        ranked = {"score": tool.score, "words": tool.words} if was_ranked else {}
        used = {"by_usage": True} if tool.by_usage else {}
        reasons.setdefault(tool.name, {"rank": place, **ranked, **used})
    return reasons


def reason_text(reason: Mapping[str, Any]) -> str:
    """Return a reason for people; empty where there is none."""
    if "rank" not in reason:
        return ""
    score, words = reason.get("score"), reason.get("words")
    scored = f", score {score:.2f}" if score is not None else ""
    why = f", for {', '.join(words)}" if words else ", by usage" if reason.get("by_usage") else ""
    return f"rank {reason['rank']}{scored}{why}"


def status_text(status: str, cause: str, n_left_out: int) -> str:
    """Return how a query was answered, and what of that fell short, for people."""
    left_out = f"{n_left_out} more answer it, beyond top_k" if n_left_out else ""
    return ", ".join(note for note in (status, cause, left_out) if note)
