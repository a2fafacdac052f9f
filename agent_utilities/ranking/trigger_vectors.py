"""The vectors of capabilities' triggers, and how near what is said is to each capability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.blas import single_blas_thread
from agent_utilities.ranking.request_direction import N_UNANSWERABLE, RequestDirection

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores, Vectors

SOFTNESS = 0.15
"""Of the soft maximum of a capability's cosines: the smaller, the less its other triggers count beside the nearest."""
N_NEAREST_UNANSWERABLE = 16
BACKGROUND_WEIGHT = 0.5
"""Of how near what is said is to requests that call for nothing."""
REQUEST_WEIGHT = 0.3
"""Of how much it is put as requests are, not as talk is. 0.4 is as good, 0.2 loses five points of hits."""


@dataclass(frozen=True, eq=False)
class TriggerVectors:
    """The triggers of some capabilities, and requests that call for nothing.

    Args:
        vectors: (n_triggers + n_unanswerable, n_dimensions), of unit length, capability after capability.
        starts: (n_capabilities,) where each one's triggers start among them.
        log_sizes: (n_capabilities,) of how many those are.
        n_triggers: of all.
        direction: from talk to requests.
    """

    vectors: Vectors
    starts: Places
    log_sizes: Scores
    n_triggers: int
    direction: RequestDirection

    @classmethod
    def of(cls, vectors: Vectors, sizes: Sequence[int], examples: Vectors) -> TriggerVectors:
        """Return them; processor work.

        Args:
            vectors: (n_triggers, n_dimensions), capability after capability.
            sizes: how many triggers each capability has, 1 or more.
            examples: (n, n_dimensions) of `request_direction.EXAMPLES`.
        """
        import numpy as np

        n = np.array(sizes, dtype=np.intp)
        return cls(
            vectors=np.concatenate([vectors, examples[:N_UNANSWERABLE]]),
            starts=np.concatenate([[0], np.cumsum(n)[:-1]]).astype(np.intp),
            log_sizes=np.log(n).astype(np.float32),
            n_triggers=len(vectors),
            direction=RequestDirection.of(examples, vectors),
        )

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        arrays = (self.vectors, self.starts, self.log_sizes, self.direction.weights)
        return sum(array.nbytes for array in arrays)

    def scores(self, queries: Vectors) -> Scores:
        """Return how near what is said is to each capability, and how much it calls for any at all.

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
        by_text = self._nearness(cosines[:, : self.n_triggers])
        whole, parts = by_text[0], by_text[1:]
        scores: Scores = np.maximum(whole, (whole + parts.max(axis=0)) / 2) if len(parts) else whole
        unanswerable = np.sort(cosines[0, self.n_triggers :])[-N_NEAREST_UNANSWERABLE:].mean()
        calls_for_any = REQUEST_WEIGHT * self.direction.score(queries[0]) - BACKGROUND_WEIGHT * float(unanswerable)
        scores += np.float32(calls_for_any)
        return scores

    def _nearness(self, cosines: Scores) -> Scores:
        """Return the soft maximum of each capability's cosines: between their mean and the nearest one.

        As it is of a mean, many triggers are no advantage over few.

        Args:
            cosines: (n_texts, n_triggers)

        Returns:
            (n_texts, n_capabilities)
        """
        import numpy as np

        sums = np.add.reduceat(np.exp(cosines / SOFTNESS), self.starts, axis=1)
        nearness: Scores = SOFTNESS * (np.log(sums) - self.log_sizes)
        return nearness
