"""Whether the machine's clock may be believed, before what it calls old is deleted.

A clock that is wrong for a while, ahead by years or back at the epoch, must not cost anybody the log. So nothing is
deleted for its age until the clock has gone on for an hour without a jump, by whatever processes looked at it.
"""

from __future__ import annotations

from dataclasses import dataclass

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_EARLIEST_MS = 1_735_689_600_000
"""The beginning of 2025: a clock that shows less was never set."""


@dataclass(frozen=True, slots=True)
class ClockSeen:
    """What the processes that share a log saw of the clock, in UTC epoch milliseconds.

    Args:
        since_ms: from when on it went without a jump.
        last_ms: when it was looked at last.
    """

    since_ms: int
    last_ms: int

    def seen_at(self, now_ms: int, days: int) -> ClockSeen:
        """Return what is known once the clock was looked at again.

        Args:
            now_ms: what it shows.
            days: how long the log keeps rows. Nobody looks while no server runs, so that only a step of half of that
                is a jump: one that is less can't cost more than the older half of the log.
        """
        is_steady = self.last_ms - HOUR_MS <= now_ms <= self.last_ms + days * DAY_MS // 2
        return ClockSeen(self.since_ms if is_steady else now_ms, now_ms)

    def oldest_kept_ms(self, days: int) -> int | None:
        """Return the time before which rows are too old, or None where the clock is not believed."""
        if self.since_ms < _EARLIEST_MS or self.last_ms - self.since_ms < HOUR_MS:
            return None
        return self.last_ms - days * DAY_MS
