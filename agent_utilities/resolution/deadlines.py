"""How a query's time is divided, and how long what is done behind may take."""

from __future__ import annotations

from dataclasses import dataclass

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
    refresh_s: float = 60.0
    refresh_gap_s: float = 1.0
    close_s: float = 1.5
    settle_s: float | None = 0.0
    cache_bytes: int = 16 << 20
    retry_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
