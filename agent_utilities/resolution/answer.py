"""An answer made of what the graph holds and what a ranker finds: literal matches first, then ranked ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_utilities.selection.resolution import Resolution, Status

UNRANKED = "not ranked"
"""What callers are told where a ranker is there and has not answered."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The tools that one caller may use.

    Args:
        digest: the same for equal scopes.
        names: returns their names; called only where no answer in this scope is remembered.
    """

    digest: str
    names: Callable[[], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a ranker finds for a query among the tools of a scope.

    Args:
        names: names of the tools, best first.
        scores: aligned with `names`.
        words: the words of the query that stand in each, aligned with `names`.
        n_claimed: how many of the first are said to answer the query; the others only come after them.
        cause: for people, why the ranking is less than it could be.
        silence: for people, why it claims nothing; empty where it claims something.
        is_passing: whether that cause may be gone at the next request, so that the ranking should not be kept.
    """

    names: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    n_claimed: int = 0
    cause: str = ""
    silence: str = ""
    is_passing: bool = False


class ToolRanker(Protocol):
    """Ranks a server's tools; made by whoever knows rankers, since this room does not."""

    @property
    def version(self) -> str:
        """What it answers from: rankings of one version are equal. Empty while it can't rank."""
        ...

    async def rank(self, query: str, scope: Scope | None, limit: int, timeout_s: float) -> Ranked | None:
        """Return the tools that answer a query; never fails, never waits past the timeout, blocks nothing.

        Args:
            query: the user's words.
            scope: the tools to choose from; None for all.
            limit: the most to return.
            timeout_s: seconds > 0.

        Returns:
            None where it can't rank.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The tools that answer a query, whatever the graph's age.

    Args:
        names, scores, words, cause, n_left_out: as in `Resolution`.
        is_passing: whether it should not be kept.
    """

    names: tuple[str, ...] = ()
    scores: tuple[float | None, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    cause: str = ""
    n_left_out: int = 0
    is_passing: bool = False

    def resolution(self, status: Status) -> Resolution:
        """Return it as a resolution; `no_match` where no tool answers."""
        if not self.names:
            return Resolution("no_match", cause=self.cause)
        return Resolution(status, self.names, self.cause, self.scores, self.words, self.n_left_out)


def combine(text: str, literal: Sequence[str], ranked: Ranked | None, limit: int | None) -> Answer:
    """Return the literal matches, the better ranked ones first, and after them what the ranker claims besides.

    A query that is a tool's name asks for no other.

    Args:
        text: the query, normalised.
        literal: names of the tools that bear the query as it stands.
        ranked: what the ranker found, or None where it can't rank.
        limit: the most to name; None for all.
    """
    if ranked is None:
        return Answer(tuple(literal[:limit]), n_left_out=_left_out(len(literal), limit))
    bearing, place = set(literal), {name: i for i, name in enumerate(ranked.names)}
    n_claimed = 0 if any(name.lower() == text for name in literal) else ranked.n_claimed
    names = [
        *(name for name in ranked.names if name in bearing),
        *(name for name in literal if name not in place),
        *(name for name in ranked.names[:n_claimed] if name not in bearing),
    ]
    shown = names[:limit]
    silence = "" if names else ranked.silence
    return Answer(
        tuple(shown),
        tuple(ranked.scores[place[name]] if name in place else None for name in shown),
        tuple(ranked.words[place[name]] if name in place else () for name in shown),
        ", ".join(filter(None, (ranked.cause, silence))),
        _left_out(len(names), limit),
        ranked.is_passing,
    )


def _left_out(n: int, limit: int | None) -> int:
    return 0 if limit is None else max(0, n - limit)
