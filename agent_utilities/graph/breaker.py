"""A circuit breaker: a graph that keeps failing is left alone for a while, then tried by one request."""

from __future__ import annotations

from collections.abc import Callable

from agent_utilities.graph.base import Cause

_LOST_PROBE_S = 30.0
"""Seconds after which a probe of which nothing was heard counts as lost: it must not keep a graph shut for good."""


class Breaker:
    """Closed while calls succeed; open after `threshold` failures in a row; half open after `cooldown_s`.

    Half open, it lets one call through as a probe, and no other before it is told the probe's outcome.

    Args:
        threshold: failures in a row that open it, > 0.
        cooldown_s: seconds to wait before one call is let through.
        clock: monotonic seconds.
    """

    def __init__(self, threshold: int, cooldown_s: float, clock: Callable[[], float]) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._n_failures = 0
        self._retry_at = 0.0
        self.cause: Cause | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are held back."""
        return self._n_failures >= self._threshold

    def allows(self) -> bool:
        """Whether a call may be made now; where it is half open, this one is the probe.

        Whoever is let through tells the outcome by `succeeded` or `failed`.
        """
        if not self.is_open:
            return True
        now_s = self._clock()
        if now_s < self._retry_at:
            return False
        self._retry_at = now_s + _LOST_PROBE_S
        return True

    def succeeded(self) -> None:
        """Close it."""
        self._n_failures, self.cause = 0, None

    def failed(self, cause: Cause) -> None:
        """Count a failure."""
        self._n_failures += 1
        self.cause = cause
        if self.is_open:
            self._retry_at = self._clock() + self._cooldown_s
