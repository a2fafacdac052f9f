"""How old a graph's tools are, and what `/ready` tells of it."""

from __future__ import annotations

from typing import Any

from agent_utilities.graph.base import Cause, ServerState

_HOUR_S = 3600
_CLOCK_SKEW_S = 5 * 60


def is_stale(state: ServerState, now_s: float, ttl_hours: float) -> bool:
    """Whether tools are older than they should be; a time stamp from the future, after a clock was set back, is old.

    Args:
        state: of the server.
        now_s: UTC epoch seconds.
        ttl_hours: the age from which they are.
    """
    age_s = now_s - state.updated_at_ms / 1000
    return age_s > ttl_hours * _HOUR_S or age_s < -_CLOCK_SKEW_S


def graph_health(backend: str, state: ServerState | None, cause: Cause | None, now_s: float) -> dict[str, Any]:
    """Return what `/ready` tells of a graph.

    Args:
        backend: what keeps it.
        state: of the server; None until the graph holds it.
        cause: why it does not answer, or None while it does.
        now_s: UTC epoch seconds.
    """
    health: dict[str, Any] = {"backend": backend, "status": "ready" if state else "filling"}
    if cause is not None and cause != "being filled":
        health |= {"status": "unavailable", "cause": cause}
    if state is not None:
        health |= {"age_s": max(0, round(now_s - state.updated_at_ms / 1000))}
    return health
