"""The vectors of capabilities' triggers, and how near what is said is to each capability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.blas import single_blas_thread

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores, Vectors

N_NEAREST = 3
"""The nearest triggers whose mean cosine says how near a capability is."""
N_NEAREST_UNANSWERABLE = 16
BACKGROUND_WEIGHT = 0.5
"""Of how near what is said is to requests that call for nothing."""
SIZE_WEIGHT = 0.03
"""Of the logarithm of how many triggers a capability has: of many, some are near anything by chance."""
TYPICAL_SIZE = 9.0
"""Triggers of a capability, to which that is nothing."""


@dataclass(frozen=True, eq=False)
class TriggerVectors:
    """The triggers of some capabilities, one capability after the other.

    Args:
        vectors: (n_triggers, n_dimensions), of unit length.
        owners: (n_triggers,) the capability of each, ascending.
        nearest: (n_capabilities, 3) where its nearest triggers stand once they are in order; the last repeated.
        counted: (n_capabilities, 3) what each of them counts in the mean.
        size_penalty: (n_capabilities,)
        unanswerable: (n, n_dimensions) of requests that call for nothing.
    """

    vectors: Vectors
    owners: Places
    nearest: Places
    counted: Scores
    size_penalty: Scores
    unanswerable: Vectors

    @classmethod
    def of(cls, vectors: Vectors, n_triggers: Sequence[int], unanswerable: Vectors) -> TriggerVectors:
        """Return them.

        Args:
            vectors: (n_triggers, n_dimensions), capability after capability.
            n_triggers: of each capability, 1 or more.
            unanswerable: (n, n_dimensions) of requests that call for nothing.
        """
        import numpy as np

        sizes = np.array(n_triggers, dtype=np.intp)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        n_counted = np.minimum(sizes, N_NEAREST)[:, None]
        ranks = np.arange(N_NEAREST)[None, :]
        return cls(
            vectors=vectors,
            owners=np.repeat(np.arange(len(sizes)), sizes),
            nearest=starts[:, None] + np.minimum(ranks, n_counted - 1),
            counted=((ranks < n_counted) / n_counted).astype(np.float32),
            size_penalty=(SIZE_WEIGHT * np.log(sizes / TYPICAL_SIZE)).astype(np.float32),
            unanswerable=unanswerable,
        )

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self.vectors.nbytes + self.owners.nbytes + self.nearest.nbytes + self.counted.nbytes

    def scores(self, queries: Vectors) -> Scores:
        """Return how near what is said is to each capability, less how near to what calls for nothing.

        Of several sentences the best counts as much as the whole, where that is more.

        Args:
            queries: (n_texts, n_dimensions) of the whole first, then of its parts.

        Returns:
            (n_capabilities,)

        Raises:
            RankerError: the queries are of another model.
        """
        import numpy as np

        if queries.shape[1] != self.vectors.shape[1]:
            raise RankerError(f"{queries.shape[1]} dimensions instead of {self.vectors.shape[1]}")
        with single_blas_thread():
            cosines = queries @ self.vectors.T
            foreign = queries @ self.unanswerable.T
        background = np.sort(foreign, axis=1)[:, -N_NEAREST_UNANSWERABLE:].mean(axis=1)
        by_text = np.stack([self._nearness(row) for row in cosines]) - BACKGROUND_WEIGHT * background[:, None]
        whole, parts = by_text[0], by_text[1:]
        scores: Scores = np.maximum(whole, (whole + parts.max(axis=0)) / 2) if len(parts) else whole
        return scores - self.size_penalty

    def _nearness(self, cosines: Scores) -> Scores:
        """Return the mean of the three nearest triggers' cosines for each capability."""
        import numpy as np

        ordered = cosines[np.lexsort((-cosines, self.owners))]
        nearness: Scores = (ordered[self.nearest] * self.counted).sum(axis=1)
        return nearness
