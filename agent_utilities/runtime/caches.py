"""Caches bounded by weight, so that callers can't exhaust memory, and the share of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from operator import itemgetter
from typing import Generic, Literal, TypeVar

from cachetools import LRUCache

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def key_of(*parts: object) -> bytes:
    """Return a cache key: equal for equal parts, and of a length that no caller chooses."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=20).digest()


class BoundedCache(Generic[_K, _V]):
    """An LRU cache whose entries together weigh no more than a bound; one over `heaviest` is not kept."""

    def __init__(self, max_weight: int, weigh: Callable[[_K, _V], int], *, heaviest: int | None = None) -> None:
        self._weigh = weigh
        self._heaviest = max_weight if heaviest is None else min(heaviest, max_weight)
        self._entries: LRUCache[_K, tuple[_V, int]] = LRUCache(max_weight, getsizeof=itemgetter(1))

    def get(self, key: _K) -> _V | None:
        """Return the value of a key, or None; it is then the most recently used."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def keep(self, key: _K, value: _V) -> None:
        """Store a value; evicts the least recently used."""
        weight = self._weigh(key, value)
        if weight > self._heaviest:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value, weight

    def clear(self) -> None:
        self._entries.clear()

    @property
    def weight(self) -> float:
        """The weight of all entries."""
        return self._entries.currsize

    def __len__(self) -> int:
        return len(self._entries)


Memo = Literal["requests", "merged", "decisions", "resolution"]

_SHARES: dict[Memo, float] = {"requests": 0.06, "merged": 0.10, "decisions": 0.26, "resolution": 0.20}
"""The rest is for the caches of a ranker's index: views, vectors of requests, late answers. The index bounds them, at
24 MiB together."""

LONGEST_KEPT = 32 << 10
"""The longest selection of a caller that is cached, in bytes: some two hundred names. A longer one is parsed and
decided at each request: few of them would evict all else, and an allocator returns their memory late."""


def cache_bytes(cache_mb: int, memo: Memo) -> int:
    """Return the bytes that one cache may take, of the MiB of all; 0 keeps nothing."""
    return int((cache_mb << 20) * _SHARES[memo])
