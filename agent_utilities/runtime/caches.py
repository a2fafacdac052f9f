"""Memory that callers can't grow without end: caches bounded by weight, and what each of them may take."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Generic, Literal, TypeVar

from cachetools import LRUCache

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class BoundedCache(Generic[_K, _V]):
    """Keeps the values used last, as many as weigh no more together than a bound.

    An entry that is heavier than the bound by itself is not kept, and puts nothing else out.

    Args:
        heaviest: the most that one entry may weigh to be kept; all that there is room for where None.
    """

    def __init__(self, max_weight: int, weigh: Callable[[_K, _V], int], *, heaviest: int | None = None) -> None:
        self._weigh = weigh
        self._heaviest = max_weight if heaviest is None else min(heaviest, max_weight)
        self._entries: LRUCache[_K, tuple[_V, int]] = LRUCache(max_weight, getsizeof=itemgetter(1))

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and count it as used now, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def keep(self, key: _K, value: _V) -> None:
        """Keep a value; those used least recently go where there is no room."""
        weight = self._weigh(key, value)
        if weight > self._heaviest:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value, weight

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    @property
    def weight(self) -> float:
        """What all entries weigh together."""
        return self._entries.currsize

    def __len__(self) -> int:
        return len(self._entries)


Memo = Literal["requests", "merged", "decisions", "resolution"]

_SHARES: dict[Memo, float] = {"requests": 0.06, "merged": 0.10, "decisions": 0.26, "resolution": 0.20}
"""The rest is for what a ranker's index remembers: views of what callers may use, vectors of requests, late answers.
That is bounded where the index is made, at 24 MiB together."""

LONGEST_KEPT = 32 << 10
"""What one caller's selection may take to be remembered, in bytes: some two hundred names. A longer one is read and
decided at each request: few of them would put out all else, and an allocator gives their memory back late."""


def cache_bytes(cache_mb: int, memo: Memo) -> int:
    """Return how many bytes a memo may take, of what all may take together in MiB; 0 keeps nothing."""
    return int((cache_mb << 20) * _SHARES[memo])
