"""Vectors of past requests: how much nearer a request is to what a tool answered before than to the tool's own text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.blas import single_blas_thread
from agent_utilities.ranking.embedding import Embedder, unit_vectors
from agent_utilities.ranking.past_requests import PastRequests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places, Vectors
    from agent_utilities.ranking.nearness import Nearness

BLEND_WEIGHT = 2.4
"""Of the mean of many past requests in a tool's vector, beside 1 for its text."""
SUBJECT_WEIGHT = 0.5
"""Of the cosine to the past requests less what requests have in common, beside that to the blended vector."""
_N_AT_A_TIME = 256
_LEAST_LENGTH = 1e-3


@dataclass(frozen=True, eq=False)
class PastVectors:
    """The vectors of the past requests of some tools: two for each tool, however many requests it has.

    Args:
        blended: (n_learned, n_dimensions) of the tool's text and its past requests together, of unit length.
        subjects: (n_learned, n_dimensions) of what is particular to the past requests, times what they count.
        common: (n_dimensions,) what requests have in common.
    """

    blended: Vectors
    subjects: Vectors
    common: NDArray[np.float32]

    @classmethod
    def of(cls, past: PastRequests, texts: Vectors, embedder: Embedder, unanswerable: Vectors) -> PastVectors:
        """Return them; the requests are embedded some at a time, for a thread.

        Args:
            past: the requests.
            texts: (n_learned, n_dimensions) of the tools' own texts, of unit length.
            embedder: what embedded those.
            unanswerable: (n, n_dimensions) of requests that no tool need answer: what they have in common, all have.

        Raises:
            RankerError: the provider can't.
        """
        import numpy as np

        common = unanswerable.mean(axis=0)
        sums, subjects = np.zeros_like(texts), np.zeros_like(texts)
        for owners, some in _in_batches(past):
            vectors = embedder.embed(some, "query")
            if vectors.shape[1] != texts.shape[1]:
                raise RankerError(f"past requests have {vectors.shape[1]} dimensions instead of {texts.shape[1]}")
            np.add.at(sums, owners, vectors)
            np.add.at(subjects, owners, unit_vectors(vectors - common))
        n_requests = np.array([[len(owned)] for owned in past.texts], dtype=np.float32)
        confidence = past.confidence[:, None]
        blended = unit_vectors(texts + BLEND_WEIGHT * confidence / n_requests * sums)
        return cls(blended, SUBJECT_WEIGHT * confidence * unit_vectors(subjects), common)

    def within(self, learned: Places) -> PastVectors:
        """Return those of some tools alone.

        A product of vectors depends in its last digit on how many others are multiplied with them: what a caller may
        not use must not be among them.

        Args:
            learned: (n,) positions of the tools among those that learned, ascending.
        """
        if len(learned) == len(self.blended):
            return self
        return PastVectors(self.blended[learned], self.subjects[learned], self.common)

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self.blended.nbytes + self.subjects.nbytes + self.common.nbytes

    def cosines(self, queries: Vectors) -> Vectors:
        """Return how near requests are to each tool's text and past requests together: (n_texts, n_learned).

        Args:
            queries: (n_texts, n_dimensions)
        """
        with single_blas_thread():
            return queries @ self.blended.T

    def gains(self, queries: Vectors, cosines: Vectors, nearness: Nearness) -> Vectors:
        """Return how much nearer requests are for what was asked before: (n_texts, n_learned).

        To be taken from it is how near they are to the tool's own text.

        Args:
            queries: (n_texts, n_dimensions) of the whole request first, then of its parts.
            cosines: as `cosines` gives them.
            nearness: of the permitted tools, whose mean is taken out as it is of theirs.
        """
        import numpy as np

        mean = nearness.mean
        with single_blas_thread():
            squares = 1 - 2 * (self.blended @ mean) + mean @ mean
            particular = unit_vectors(queries - self.common) @ self.subjects.T
        lengths = np.maximum(np.sqrt(np.maximum(squares, 0)), _LEAST_LENGTH)
        gains: Vectors = (cosines - (queries @ mean)[:, None]) / lengths + particular
        return gains


def _in_batches(past: PastRequests) -> Iterator[tuple[list[int], list[str]]]:
    """Yield past requests some at a time: positions of the tools that answered them, and the requests."""
    owned = [(owner, text) for owner, texts in enumerate(past.texts) for text in texts]
    for start in range(0, len(owned), _N_AT_A_TIME):
        some = owned[start : start + _N_AT_A_TIME]
        yield [owner for owner, _ in some], [text for _, text in some]
