"""Which server each tool comes from: a request that fits a server's tools on the whole likely means one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores


class Servers:
    """The servers of a catalog.

    Args:
        numbers: (n_tools,) the number of each tool's server.
    """

    def __init__(self, numbers: Places) -> None:
        import numpy as np

        self.n_tools = len(numbers)
        _, self._server_of_tool, self._n_tools_of_server = np.unique(numbers, return_inverse=True, return_counts=True)

    @classmethod
    def of(cls, documents: Sequence[ToolDocument]) -> Servers:
        """Return those of a catalog."""
        import numpy as np

        numbers: dict[str, int] = {}
        return cls(np.array([numbers.setdefault(tool.server, len(numbers)) for tool in documents], dtype=np.intp))

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self._server_of_tool.nbytes + self._n_tools_of_server.nbytes

    def within(self, places: Places) -> Servers:
        """Return those of some of the tools."""
        return Servers(self._server_of_tool[places])

    def mean_scores(self, scores: Scores) -> Scores:
        """Return for each tool the mean score of its server's tools: (n_tools,); 0 where there is one server only.

        Args:
            scores: (n_tools,)
        """
        import numpy as np

        n_servers = len(self._n_tools_of_server)
        if n_servers < 2:
            return np.zeros(self.n_tools, dtype=np.float32)
        means = np.bincount(self._server_of_tool, weights=scores, minlength=n_servers) / self._n_tools_of_server
        return means.astype(np.float32)[self._server_of_tool]
