"""How much things may take: the one place where a query's time is divided and background work is limited."""

from __future__ import annotations

from dataclasses import dataclass

from agent_utilities.runtime.deadline import Deadline

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
