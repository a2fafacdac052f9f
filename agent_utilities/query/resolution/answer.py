"""The values of a query on its way: scope, trail, question, and how its time is divided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.graph.base import ToolRecord
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
    """A caller's recent activity.

    Args:
        scope: whose usage counts: everybody's of the server where empty, else the subject's of this salted hash.
        near: names of the tools that they called last, newest first, then of those that are active; at most 8.
    """

    scope: str = ""
    near: tuple[str, ...] = ()


NO_TRAIL = Trail()
"""The trail of a caller of whom nothing is known."""


@dataclass(frozen=True, slots=True)
class LiveTools:
    """A server's tools at one listing, whoever may use them."""

    digest: str
    records: Sequence[ToolRecord]
    documents: Sequence[ToolDocument]


UNRANKED = "not ranked"
"""The cause that callers read where a ranker did not answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """One caller's query, with all that its answer depends on.

    Args:
        query: the user's words as they came.
        text: the same normalised, as the graph matches it.
        scope: the tools to choose from; None for all.
        limit: the most to name; None for all.
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
"""Makes an answer of a ranking and of the names of the tools in scope that match the query literally."""


# -- how a query's time is divided, and how long what is done behind may take ----------------------------------------

FIRST_FILL_SHARE = 0.5
"""The share of a query's time for waiting on the first fill of the graph; then the ranker alone answers."""
GRAPH_SHARE = 0.7
"""The share of a query's time for the graph, where a ranker can answer without it."""
RANKING_SHARE = 0.8
"""The share of a query's time for the ranker, which runs beside the graph; the rest is for combining both."""
LEAST_RANKING_S = 0.01
VECTORS_SHARE = 0.75
"""The share of a ranking's time for vectors; the rest is for a ranking by words in its place."""
INDEX_SHARE = 0.5
"""The share of a search's time for waiting on vectors of the tools; the rest is for searching."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of background work; no caller waits for it longer than the query's deadline.

    Args:
        statement_s: one statement on the graph, and waiting for a place to run it.
        refresh_s: bringing a server's tools into the graph.
        refresh_gap_s: between the starts of two refreshes.
        close_s: closing the graph at the end.
        settle_s: from the server's start until its graph is opened, unless a query comes; None opens it for a query
            only.
        cache_bytes: the size of the cache of results.
        retry_s: pauses after failures, one after the other.
    """

    statement_s: float = 2.0
    refresh_s: float = 300.0
    refresh_gap_s: float = 1.0
    close_s: float = 1.5
    settle_s: float | None = 0.0
    cache_bytes: int = 16 << 20
    retry_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
