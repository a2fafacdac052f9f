"""What one caller asks and is answered, and how much time each part of that may take."""

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


# -- how a query's time is divided, and how long what is done behind may take ----------------------------------------

FIRST_FILL_SHARE = 0.5
"""Of a query's time, what waiting for a graph that is filled for the first time may take; then the ranker is alone."""
GRAPH_SHARE = 0.7
"""Of a query's time, what a graph may take where a ranker can answer without it."""
RANKING_SHARE = 0.8
"""Of a query's time, what a ranker may take, which runs beside the graph; the rest is for putting both together."""
LEAST_RANKING_S = 0.01
VECTORS_SHARE = 0.75
"""Of a ranking's time, what a ranking by vectors may take; the rest is for one by words in its place."""
INDEX_SHARE = 0.5
"""Of a search's time, what waiting for vectors of the tools may take; the rest is for searching."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What background work may take, mostly in seconds; no caller waits for it longer than the query's deadline.

    Args:
        statement_s: one statement on the graph, and waiting for a place to run it.
        refresh_s: bringing a server's tools into the graph.
        refresh_gap_s: between the starts of two refreshes.
        close_s: letting go of the graph at the end.
        settle_s: how long a server is left alone after its start before its graph is opened, unless a query comes;
            None opens it for a query only.
        cache_bytes: what is remembered of queries may take; not a time.
        retry_s: pauses after tries that failed, one after the other.
    """

    statement_s: float = 2.0
    refresh_s: float = 300.0
    refresh_gap_s: float = 1.0
    close_s: float = 1.5
    settle_s: float | None = 0.0
    cache_bytes: int = 16 << 20
    retry_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
