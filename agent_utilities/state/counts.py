"""Counts in windows of time, of which as many begin anew as there is no room for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import monotonic

from cachetools import LRUCache


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be counted, unless there is as much already as may be.

    Args:
        of: for whom it counts.
        what: of theirs.
        n: how much; 0 to ask alone whether there may be any more.
        limit: the count from which on nothing more is counted; None where nothing bounds it.
    """

    of: str
    what: str
    n: int
    limit: int | None = None


class Counts:
    """What one process counts: a window begins with the first that is counted in it.

    Args:
        window_s: the seconds of a window.
        most: how many counts are kept; of more, the one that was not asked for the longest begins anew.
    """

    def __init__(self, window_s: int, most: int) -> None:
        self.window_s = window_s
        self._kept: LRUCache[tuple[str, str], tuple[int, float]] = LRUCache(most)

    def full(self, wanted: Collection[Wanted]) -> Mapping[Wanted, float]:
        """Return of what there may be no more, with the seconds until its window ends."""
        counts = {one: self._count(one) for one in wanted}
        return {one: left_s for one, (n, left_s) in counts.items() if one.limit is not None and n >= one.limit}

    async def take(self, wanted: Collection[Wanted]) -> Mapping[Wanted, float]:
        """Count all, or nothing where any is full; return those that are, with the seconds until their windows end."""
        if not (full := self.full(wanted)):
            for one in wanted:
                n, left_s = self._count(one)
                self._keep(one, n + one.n, left_s or self.window_s)
        return full

    def _count(self, one: Wanted) -> tuple[int, float]:
        """Return a count and the seconds that are left of its window, both 0 where it has none."""
        n, ends_s = self._kept.get((one.of, one.what), (0, 0.0))
        left_s = ends_s - monotonic()
        return (n, left_s) if left_s > 0 else (0, 0.0)

    def _keep(self, one: Wanted, n: int, left_s: float) -> None:
        if n:  # else its window has not begun
            self._kept[one.of, one.what] = n, monotonic() + left_s
