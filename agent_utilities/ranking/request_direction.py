"""Which way the vectors of requests lie from those of talk: whether something is to be done at all.

A message about a thing is as near to a capability's triggers as a request on it; only how it is put tells them apart,
and vectors have that too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.blas import single_blas_thread
from agent_utilities.ranking.general_talk import PATTERNS
from agent_utilities.ranking.talk_and_requests import REQUESTS, TALK
from agent_utilities.ranking.unanswerable import UNANSWERABLE

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Vectors

EXAMPLES: tuple[str, ...] = (*UNANSWERABLE, *PATTERNS, *TALK, *REQUESTS)
"""What is embedded once, beside the triggers: talk first, requests last."""
N_UNANSWERABLE = len(UNANSWERABLE)
N_TALK = len(EXAMPLES) - len(REQUESTS)

_RIDGE = 0.013
"""Of a mean square of 1: how little one dimension may say. Three times it loses some points of hits."""


@dataclass(frozen=True, eq=False)
class RequestDirection:
    """A line through the space of vectors, from talk to requests.

    Args:
        weights: (n_dimensions,)
        offset: added to what they come to.
    """

    weights: Vectors
    offset: float

    @classmethod
    def of(cls, examples: Vectors, triggers: Vectors) -> RequestDirection:
        """Return the line that tells talk from requests best, each kind as a whole counting the same; processor work.

        Least squares on 1 for requests and -1 for talk, with a ridge: the line of Fisher's discriminant.

        Args:
            examples: (n, n_dimensions) of `EXAMPLES`.
            triggers: (n_triggers, n_dimensions), which are put as requests are.
        """
        import numpy as np

        vectors = np.concatenate([examples, triggers]).astype(np.float64)
        targets = np.ones(len(vectors))
        targets[:N_TALK] = -1
        n_requests = len(vectors) - N_TALK
        shares = np.where(targets < 0, 0.5 / N_TALK, 0.5 / n_requests)
        mean = shares @ vectors
        centred = vectors - mean
        with single_blas_thread():
            weighted = (centred * shares[:, None]).T
            ridge = _RIDGE * np.eye(vectors.shape[1])
            weights = np.linalg.solve(weighted @ centred + ridge, weighted @ targets)
        return cls(weights.astype(np.float32), -float(mean @ weights))

    def score(self, query: Vectors) -> float:
        """Return how much a message is put as requests are: about 1 for one, -1 for talk.

        Args:
            query: (n_dimensions,)
        """
        return float(query @ self.weights) + self.offset
