"""What a caller may rank of an index: made ready once for each set of permitted tools, and a few kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

V = TypeVar("V")

_N_TOOLS = 20_000
_N_VIEWS = 64


class Views(Generic[V]):
    """Views of an index: what it would be if the catalog had the permitted tools only.

    What is common, rare or long in a catalog is a matter of all its tools, so that a tool which is denied would
    otherwise move the scores of those that are not (law L1). Sets of permitted tools are few, one for each scope of
    callers. The views that were used last are kept, of as many tools together as the catalog has, or 20,000.

    Args:
        n_tools: how many tools the catalog has.
        make: makes a view of the tools at some places, ascending. It should not hold the index that holds the views,
            or a catalog that was swapped out stays in memory until a full garbage collection.
    """

    def __init__(self, n_tools: int, make: Callable[[NDArray[np.intp]], V]) -> None:
        self._n_tools = n_tools
        self._make = make
        self._kept: OrderedDict[tuple[int, ...], V | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, permitted: Sequence[int] | None) -> V | None:
        """Return the view of the permitted tools, or None where that is all of them."""
        import numpy as np

        if permitted is None:
            return None
        key = permitted if isinstance(permitted, tuple) else tuple(permitted)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        places = np.unique(np.array(key, dtype=np.intp))
        made = None if len(places) == self._n_tools else self._make(places)
        with self._lock:
            self._kept[key] = made
            size = sum(map(len, self._kept))
            while len(self._kept) > 1 and (size > max(_N_TOOLS, self._n_tools) or len(self._kept) > _N_VIEWS):
                oldest, _ = self._kept.popitem(last=False)
                size -= len(oldest)
        return made
