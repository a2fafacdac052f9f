"""Which rows go where a log is full: first those of whoever has most, so that nobody pushes out all others' rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)


def rows_to_take(counts: Mapping[_K, int], n_over: int, share: int) -> dict[_K, int]:
    """Return how many rows to take from each, the greediest first, until enough are gone or nobody has too many.

    Those who have most are brought down to one level, and none below the share: up to that nobody is greedy.

    Args:
        counts: how many rows each has.
        n_over: how many rows must go in all; fewer go where only shares are left.
        share: how many rows anybody may have.
    """
    level = _level(sorted((n for n in counts.values() if n > share), reverse=True), n_over, share)
    taken: dict[_K, int] = {}
    for key, n in sorted(counts.items(), key=lambda item: -item[1]):
        n_taken = min(n - level, n_over - sum(taken.values()))
        if n <= level or n_taken <= 0:
            break
        taken[key] = n_taken
    return taken


def _level(greedy: list[int], n_over: int, share: int) -> int:
    """Return the number of rows that nobody keeps more than: what is above it are at least `n_over`, if they can be."""
    total = 0
    for place, n in enumerate(greedy, start=1):
        total += n
        below = greedy[place] if place < len(greedy) else share
        if total - place * below >= n_over:
            return max(share, (total - n_over) // place)
    return share
