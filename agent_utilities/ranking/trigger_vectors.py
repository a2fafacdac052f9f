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

_ABSENT = -2.0
"""Less than any cosine."""


@dataclass(frozen=True, eq=False)
class TriggerVectors:
    """The triggers of some capabilities, and requests that call for nothing.

    Args:
        vectors: (n_triggers + n_unanswerable, n_dimensions), of unit length.
        places: (n_capabilities, n_most) where each one's triggers stand among them; -1 where it has no more.
        counted: (n_capabilities, 3) what its nearest triggers count, the nearest last.
        size_penalty: (n_capabilities,)
        n_triggers: of all.
    """

    vectors: Vectors
    places: Places
    counted: Scores
    size_penalty: Scores
    n_triggers: int

    @classmethod
    def of(cls, vectors: Vectors, sizes: Sequence[int], unanswerable: Vectors) -> TriggerVectors:
        """Return them.

        Args:
            vectors: (n_triggers, n_dimensions), capability after capability.
            sizes: how many triggers each capability has, 1 or more.
            unanswerable: (n, n_dimensions) of requests that call for nothing.
        """
        import numpy as np

        n = np.array(sizes, dtype=np.intp)
        starts = np.concatenate([[0], np.cumsum(n)[:-1]]).astype(np.intp)
        places = np.full((len(n), max(N_NEAREST, int(n.max()))), -1, dtype=np.intp)
        for row, (start, size) in enumerate(zip(starts, n, strict=True)):
            places[row, :size] = np.arange(start, start + size)
        n_counted = np.minimum(n, N_NEAREST)[:, None]
        is_counted = np.arange(N_NEAREST)[None, ::-1] < n_counted
        return cls(
            vectors=np.concatenate([vectors, unanswerable]),
            places=places,
            counted=(is_counted / n_counted).astype(np.float32),
            size_penalty=(SIZE_WEIGHT * np.log(n / TYPICAL_SIZE)).astype(np.float32),
            n_triggers=len(vectors),
        )

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self.vectors.nbytes + self.places.nbytes + self.counted.nbytes + self.size_penalty.nbytes

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
        by_text = np.stack([self._of_text(row) for row in cosines])
        whole, parts = by_text[0], by_text[1:]
        scores: Scores = np.maximum(whole, (whole + parts.max(axis=0)) / 2) if len(parts) else whole
        return scores - self.size_penalty

    def _of_text(self, cosines: Scores) -> Scores:
        """Return the mean of each capability's nearest triggers' cosines, less what calls for nothing has."""
        import numpy as np

        background = np.sort(cosines[self.n_triggers :])[-N_NEAREST_UNANSWERABLE:].mean()
        own = np.where(self.places < 0, np.float32(_ABSENT), cosines[self.places])
        own.partition(range(own.shape[1] - N_NEAREST, own.shape[1]), axis=1)
        nearness: Scores = (own[:, -N_NEAREST:] * self.counted).sum(axis=1) - BACKGROUND_WEIGHT * background
        return nearness
