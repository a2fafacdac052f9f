"""When an upstream that failed is tried again: a pure rule, whose dice are given to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffRule:
    """How long to wait after so many failures.

    Args:
        first_s: seconds after the first failure.
        factor: how much longer after each further one.
        limit_s: seconds that are never passed while the breaker is closed.
        n_until_open: failures in a row after which the breaker opens, and only a slow probe is made.
        probe_s: seconds between probes.
        sustained_s: seconds that a connection must have been up for its end to count as the first failure again.
        spread: the share of a wait that the dice move it by, either way.
    """

    first_s: float = 0.5
    factor: float = 2.0
    limit_s: float = 60.0
    n_until_open: int = 10
    probe_s: float = 300.0
    sustained_s: float = 60.0
    spread: float = 0.2

    def wait_s(self, n_failures: int, dice: Callable[[], float]) -> float:
        """Return the seconds until the next try.

        Args:
            n_failures: failures in a row, at least 1.
            dice: gives a number in [0, 1).
        """
        if n_failures >= self.n_until_open:
            wait = self.probe_s
        else:
            wait = min(self.limit_s, self.first_s * self.factor ** min(n_failures - 1, 64))
        return wait * (1 + self.spread * (2 * dice() - 1))


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one upstream in a row. A start resets nothing; only time that a connection was up does.

    Args:
        n_failures: how many there were.
        next_try_s: the clock's time before which there is no other try; None after a success, or before the first.
    """

    n_failures: int = 0
    next_try_s: float | None = None

    def after_failure(
        self, rule: BackoffRule, now_s: float, up_s: float, dice: Callable[[], float], *, is_refused: bool = False
    ) -> Failures:
        """Return what holds after a try or a connection failed.

        Args:
            rule: how long to wait.
            now_s: the clock's time.
            up_s: seconds that the connection had been up; 0 where it never was.
            dice: gives a number in [0, 1).
            is_refused: whether it was told to stay out, which trying again soon does not mend.
        """
        if up_s > 0 and up_s >= rule.sustained_s:
            return Failures(1, now_s)
        n_failures = self.n_failures + 1
        wait_s = rule.wait_s(max(n_failures, rule.n_until_open) if is_refused else n_failures, dice)
        return Failures(n_failures, now_s + wait_s)
