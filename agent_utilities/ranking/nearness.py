"""How near each tool of a catalog is to requests, by their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.blas import single_blas_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places, Vectors

CENTRING = 0.5
_LEAST_LENGTH = 1e-3


class Cosines(NamedTuple):
    """How near tools are to a request.

    Args:
        plain: (n_texts, n_tools) the cosines of the whole request first, then of its parts, as they are.
        centred: (n_texts, n_tools) the same less what all tools have in common.
    """

    plain: Vectors
    centred: Vectors


@dataclass(frozen=True, eq=False)
class Nearness:
    """How near each tool is to requests.

    Args:
        vectors: (n_documents, n_dimensions), of unit length, one for each different document, so that equal tools
            are equally near to the last bit.
        rows: (n_tools,) the place of each tool's document in them, or None where no two are equal.
        mean: (n_dimensions,) half the mean vector: what all tools of the catalog have in common tells nothing.
        scale: (n_documents,) that makes the vectors less that half unit length again.
    """

    vectors: Vectors
    rows: Places | None
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, vectors: Vectors, documents: Sequence[ToolDocument]) -> Nearness:
        """Return it for a catalog.

        Args:
            vectors: (n_documents, n_dimensions) of the different documents, in order of their first place.
            documents: the catalog.
        """
        import numpy as np

        if len(vectors) == len(documents):
            return cls._centred(vectors, None)
        row_of = {document: row for row, document in enumerate(dict.fromkeys(documents))}
        return cls._centred(vectors, np.array([row_of[document] for document in documents], dtype=np.intp))

    @classmethod
    def _centred(cls, vectors: Vectors, rows: Places | None) -> Nearness:
        import numpy as np

        mean = CENTRING * vectors.mean(axis=0)
        squares = np.einsum("ij,ij->i", vectors, vectors) - 2 * (vectors @ mean) + mean @ mean
        return cls(vectors, rows, mean, 1 / np.maximum(np.sqrt(np.maximum(squares, 0)), _LEAST_LENGTH))

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        rows = 0 if self.rows is None else self.rows.nbytes
        return self.vectors.nbytes + self.scale.nbytes + self.mean.nbytes + rows

    def of_tools(self, places: Places) -> Vectors:
        """Return the vectors of some of the tools: (n, n_dimensions)."""
        return self.vectors[places if self.rows is None else self.rows[places]]

    def within(self, places: Places) -> Nearness:
        """Return it for some of the tools, as a catalog of them alone would have it.

        Args:
            places: where they stand, ascending.
        """
        import numpy as np

        if self.rows is None:
            return self._centred(self.vectors[places], None)
        old_rows, firsts, rows = np.unique(self.rows[places], return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        vectors = self.vectors[old_rows[order]]
        return self._centred(vectors, None if len(old_rows) == len(places) else np.argsort(order)[rows])

    def to(self, queries: Vectors) -> Cosines:
        """Return how near the tools are to a request.

        Args:
            queries: (n_texts, n_dimensions) of the whole request first, then of its parts.
        """
        with single_blas_thread():
            cosines = queries @ self.vectors.T
        centred = cosines - (queries @ self.mean)[:, None]
        centred *= self.scale
        return Cosines(cosines, centred) if self.rows is None else Cosines(cosines[:, self.rows], centred[:, self.rows])
