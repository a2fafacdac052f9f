"""Rate-limit counters in windows of time; the least recently used are evicted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import monotonic

from cachetools import LRUCache


@dataclass(frozen=True, slots=True)
class Wanted:
    """An amount to count, unless its limit is reached.

    Args:
        of: whose counter.
        what: which counter of theirs.
        n: how much; 0 only checks the limit.
        limit: the count from which on it is refused; None for no limit.
    """

    of: str
    what: str
    n: int
    limit: int | None = None


class Counts:
    """The counters of one process; a window begins with the first amount in it.

    Args:
        window_s: the seconds of a window.
        most: how many counters are kept; the least recently used is evicted, and so begins anew.
    """

    def __init__(self, window_s: int, most: int) -> None:
        self.window_s = window_s
        self._kept: LRUCache[tuple[str, str], tuple[int, float]] = LRUCache(most)

    def full(self, wanted: Collection[Wanted]) -> Mapping[Wanted, float]:
        """Return those whose limit is reached, each with the seconds until its window ends."""
        counts = {one: self._count(one) for one in wanted}
        return {one: left_s for one, (n, left_s) in counts.items() if one.limit is not None and n >= one.limit}

    async def take(self, wanted: Collection[Wanted]) -> Mapping[Wanted, float]:
        """Count all, or nothing where a limit is reached; return those, with the seconds until their windows end."""
        if not (full := self.full(wanted)):
            for one in wanted:
                n, left_s = self._count(one)
                self._keep(one, n + one.n, left_s or self.window_s)
        return full

    def _count(self, one: Wanted) -> tuple[int, float]:
        """Return a count and the seconds left in its window; both 0 where it has none."""
        n, ends_s = self._kept.get((one.of, one.what), (0, 0.0))
        left_s = ends_s - monotonic()
        return (n, left_s) if left_s > 0 else (0, 0.0)

    def _keep(self, one: Wanted, n: int, left_s: float) -> None:
        if n:  # else its window has not begun
            self._kept[one.of, one.what] = n, monotonic() + left_s
