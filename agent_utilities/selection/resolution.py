"""The answer to a query, as data: only `decide` chooses what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["off", "fresh", "stale", "ranked", "no_match", "unavailable"]
"""`off`: nothing was asked, or queries are off · `fresh`, `stale`: answered by graph and ranker · `ranked`: answered by
the ranker alone, since the graph is not there · `no_match`, `unavailable`: show all."""

ANSWERED: frozenset[Status] = frozenset(("fresh", "stale", "ranked"))
"""The statuses of answers that narrow what is shown."""
UNANSWERED: frozenset[Status] = frozenset(("no_match", "unavailable"))
"""Those of queries that were asked and could not be answered, so that everything permitted is shown."""


@dataclass(frozen=True, slots=True)
class RankedTool:
    """A tool that answers a query.

    Args:
        name: the tool's name.
        score: what the ranker gives it; None where only the graph found it.
        words: the words of the query that the ranker found in it, in the query's order.
        by_usage: whether it stands here for what was called before, and not for the query's words.
    """

    name: str
    score: float | None = None
    words: tuple[str, ...] = ()
    by_usage: bool = False


@dataclass(frozen=True, slots=True)
class Resolution:
    """An answer to one query on one server.

    Args:
        status: how the answer came about.
        tools: those that answer the query, best first; they count only where `answered`.
        cause: for people, why there is no answer, or less of one than there could be; empty where it is whole.
        n_left_out: how many more tools answer, beyond the `top_k` that were asked for.
        is_temporary: whether the next request may get a better answer, so that this one is not kept.
        neighbours: tools that usually go with those that the caller is at, most usual first, whatever was asked; the
            share of the sessions with those that had it, 0 to 1. They count only as a prior.
    """

    status: Status = "off"
    tools: tuple[RankedTool, ...] = ()
    cause: str = ""
    n_left_out: int = 0
    is_temporary: bool = False
    neighbours: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of_names(cls, status: Status, names: Iterable[str], cause: str = "") -> Resolution:
        """Return an answer of which nothing but the names is known, best first."""
        return cls(status, tuple(map(RankedTool, names)), cause)

    @property
    def answered(self) -> bool:
        """Whether `tools` narrows what is shown."""
        return self.status in ANSWERED

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that answer, best first."""
        return tuple(tool.name for tool in self.tools)

    @property
    def ranks(self) -> dict[str, int]:
        """The place of each tool that answers, by name, from 0; a name that stands twice has its better place."""
        return {tool.name: place for place, tool in reversed(list(enumerate(self.tools)))}


UNRESOLVED = Resolution()
"""The answer where nothing was asked, or nothing can answer."""
