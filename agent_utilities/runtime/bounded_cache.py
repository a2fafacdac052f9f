"""Caches that callers can't grow without end: least recently used first out, bounded by what the entries weigh."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Generic, TypeVar

from cachetools import LRUCache

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class BoundedCache(Generic[_K, _V]):
    """Keeps the values used last, as many as weigh no more together than a bound.

    Args:
        max_weight: what all entries may weigh together.
        weigh: returns what a key and its value weigh, > 0, in the same unit. An entry that is heavier than the bound
            by itself is not kept, and puts nothing else out.
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

    def pop(self, key: _K) -> _V | None:
        """Return the value of a key and forget it, or None."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[0]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    @property
    def weight(self) -> float:
        """What all entries weigh together."""
        return self._entries.currsize

    def __len__(self) -> int:
        return len(self._entries)
