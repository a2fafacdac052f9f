"""A memory that callers can't grow without end: bounded in entries, and in what they hold together."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Memory(Generic[_K, _V]):
    """Keeps the values used last.

    Args:
        n_entries: the most entries.
        n_names: the most names that they hold together.
    """

    def __init__(self, n_entries: int = 4096, n_names: int = 500_000) -> None:
        self._n_entries, self._n_names = n_entries, n_names
        self._held: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._size = 0

    def get(self, key: _K) -> _V | None:
        """Return the value of a key, and count it as used now."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def keep(self, key: _K, value: _V, n_names: int) -> None:
        """Keep a value that holds so many names; the least used go where there are too many."""
        _, replaced = self._held.pop(key, (None, 0))
        self._held[key] = (value, n_names)
        self._size += n_names - replaced
        while len(self._held) > self._n_entries or (self._size > self._n_names and len(self._held) > 1):
            _, (_, size) = self._held.popitem(last=False)
            self._size -= size

    def __len__(self) -> int:
        return len(self._held)
