"""What one caller asks and is answered, and how much time each part of that may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.graph.base import ToolRecord
from agent_utilities.selection.model import Resolution

_T = TypeVar("_T")


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
        near: names of the tools that they called last, newest first, then of those that are active; at most 8.
    """

    scope: str = ""
    near: tuple[str, ...] = ()


NO_TRAIL = Trail()
"""Of a caller of whom nothing is known."""


@dataclass(frozen=True, slots=True)
class LiveTools:
    """A server's tools as they were just listed, whoever may use them."""

    digest: str
    records: Sequence[ToolRecord]
    documents: Sequence[ToolDocument]


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
        edition: of the server's tools in the graph; empty where they are not there.
        ranker_version: what the ranker answers from; empty while it can't.
    """

    query: str
    text: str
    scope: CallerScope | None = None
    limit: int | None = None
    trail: Trail = NO_TRAIL
    edition: str = ""
    ranker_version: str = ""


Ranked = Callable[[Sequence[str]], Resolution]
"""A ranking, to be made an answer of with the names of the tools in scope that bear the query as it stands."""


def unavailable(cause: str) -> Resolution:
    """Return the answer where neither graph nor ranker can give one."""
    return Resolution("unavailable", cause=cause)


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
