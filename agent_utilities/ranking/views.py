"""What a caller may rank of a catalog: made ready once for each set of permitted tools, kept while there is room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from agent_utilities.ranking.arrays import Places, np
from agent_utilities.runtime.caches import BoundedCache

SPARE_BYTES = 8 << 20
"""What views may take beyond what the whole catalog does: about 5,000 tools, or some hundred views of a few."""
_OVERHEAD_BYTES = 4 << 10
"""Of a view's objects, whatever its arrays hold: about 2 KB, in six that the garbage collector walks."""
_PLACE_BYTES = 8


class View(Protocol):
    """Some tools of a catalog, as a catalog of them alone would be."""

    @property
    def n_bytes(self) -> int:
        """What its arrays take."""
        ...


V = TypeVar("V", bound=View)


class Views(Generic[V]):
    """Views of a catalog: what it would be if it had the permitted tools only.

    What is common, rare or long in a catalog is a matter of all its tools, so that a tool which is denied would
    otherwise move the scores of those that are not (law L1). Sets of permitted tools are few, one for each scope of
    callers. The views used last are kept, which take no more together than the whole catalog and `SPARE_BYTES`.

    Args:
        whole: the view of all tools.
        n_tools: how many those are.
        make: makes a view of the tools at some places, ascending. It should not hold what holds the views, or a
            catalog that was swapped out stays in memory until a full garbage collection.
    """

    def __init__(self, whole: V, n_tools: int, make: Callable[[Places], V]) -> None:
        self._whole = whole
        self._n_tools = n_tools
        self._make = make
        self._lock = threading.Lock()

        def weigh(permitted: tuple[int, ...], view: V) -> int:
            n_bytes = 0 if view is whole else view.n_bytes
            return _OVERHEAD_BYTES + _PLACE_BYTES * len(permitted) + n_bytes

        self._cache: BoundedCache[tuple[int, ...], V] = BoundedCache(whole.n_bytes + SPARE_BYTES, weigh)

    def of(self, permitted: Sequence[int] | None) -> V:
        """Return the view of the permitted tools; None permits all."""
        if permitted is None:
            return self._whole
        key = tuple(permitted)
        with self._lock:
            view = self._cache.get(key)
        if view is None:
            places = np.unique(np.array(key, dtype=np.intp))
            view = self._whole if len(places) == self._n_tools else self._make(places)
            with self._lock:
                self._cache.keep(key, view)
        return view
