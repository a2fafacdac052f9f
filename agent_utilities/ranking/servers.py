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
        numbers: (n_tools,) the number of each tool's server.
    """

    def __init__(self, numbers: NDArray[np.intp]) -> None:
        import numpy as np

        self.n_tools = len(numbers)
        _, self._of, self._counts = np.unique(numbers, return_inverse=True, return_counts=True)

    @classmethod
    def of(cls, documents: Sequence[ToolDocument]) -> Servers:
        """Return those of a catalog."""
        import numpy as np

        numbers: dict[str, int] = {}
        return cls(np.array([numbers.setdefault(each.server, len(numbers)) for each in documents], dtype=np.intp))

    def within(self, places: NDArray[np.intp]) -> Servers:
        """Return those of some of the tools."""
        return Servers(self._of[places])

    def mean(self, scores: Scores) -> Scores:
        """Return for each tool the mean score of its server's tools: (n_tools,); 0 where there is one server only.

        Args:
            scores: (n_tools,)
        """
        import numpy as np

        if len(self._counts) < 2:
            return np.zeros(self.n_tools, dtype=np.float32)
        means = np.bincount(self._of, weights=scores, minlength=len(self._counts)) / self._counts
        return means.astype(np.float32)[self._of]
