"""Which server each tool comes from: a request that fits a server's tools on the whole likely means one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.base import Scores


class Servers:
    """The servers of a catalog.

    Args:
        documents: the catalog.
    """

    def __init__(self, documents: Sequence[ToolDocument]) -> None:
        import numpy as np

        numbers: dict[str, int] = {}
        self.n_tools = len(documents)
        self._of = np.array([numbers.setdefault(each.server, len(numbers)) for each in documents], dtype=np.int32)
        self._n = len(numbers)

    def mean(self, scores: Scores, allowed: NDArray[np.bool_] | None) -> Scores:
        """Return for each tool the mean score of its server's tools: (n_tools,); 0 where there is one server only.

        Only permitted tools count, so that what is denied moves nothing (law L1).

        Args:
            scores: (n_tools,)
            allowed: (n_tools,), or None for all.
        """
        import numpy as np

        if self._n < 2:
            return np.zeros(self.n_tools, dtype=np.float32)
        counted = np.ones(self.n_tools) if allowed is None else allowed.astype(np.float64)
        total = np.bincount(self._of, weights=scores * counted, minlength=self._n)
        means = total / np.maximum(np.bincount(self._of, weights=counted, minlength=self._n), 1)
        return means[self._of].astype(np.float32)
