"""An answer made of what the graph holds and what a ranker finds: literal matches first, then ranked ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from sys import getsizeof
from typing import Protocol

from agent_utilities.resolution.scope import CallerScope
from agent_utilities.resolution.trail import NO_TRAIL, Trail
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.selection.resolution import RankedTool, Resolution

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
