"""Past requests that tools of one catalog answered, and the words of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from agent_utilities.ranking.fields import count_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places, Scores
    from agent_utilities.ranking.postings import Postings

N_REQUESTS = 20
"""The most that count of one tool, the newest."""
N_HALF = 2
"""With so many requests, what they say counts half: one request is no habit."""
WORD_WEIGHT = 0.3
"""Of the words of past requests, beside those of the tool's own text."""
_SATURATION = 0.5
_MAX_COUNT = 1.3
_N_CHARACTERS = 2_000
_N_QUERY_TERMS = 512


@dataclass(frozen=True, eq=False)
class PastRequests:
    """Past requests that tools of one catalog answered.

    Args:
        places: (n_learned,) of the tools that have any, ascending.
        texts: of each, oldest first.
        confidence: (n_learned,) what they count, 0 to 1: the more of them, the more.
        slices: of each term of theirs, where in `owners` and `shares` its tools are.
        owners: (n_entries,) positions in `places`.
        shares: (n_entries,) how much of the tool's requests have the term, 0 to 1, rising fast at first.
    """

    places: Places
    texts: tuple[tuple[str, ...], ...]
    confidence: Scores
    slices: Mapping[str, tuple[int, int]]
    owners: NDArray[np.int32]
    shares: NDArray[np.float32]

    @classmethod
    def of(cls, requests: Mapping[int, Sequence[str]]) -> PastRequests:
        """Return those of a catalog; processor work, for a thread.

        Args:
            requests: by the tool's place, oldest first.
        """
        import numpy as np

        places = sorted(place for place, texts in requests.items() if texts)
        texts = tuple(tuple(text[:_N_CHARACTERS] for text in requests[place][-N_REQUESTS:]) for place in places)
        n_requests = np.array(list(map(len, texts)), dtype=np.float32)
        entries: dict[str, list[tuple[int, float]]] = {}
        for owner, owned in enumerate(texts):
            for term, share in _shares(owned).items():
                entries.setdefault(term, []).append((owner, share))
        slices, end = {}, 0
        for term, having in entries.items():
            slices[term] = end, end + len(having)
            end += len(having)
        flat = list(chain.from_iterable(entries.values()))
        return cls(
            places=np.array(places, dtype=np.intp),
            texts=texts,
            confidence=n_requests / (n_requests + N_HALF),
            slices=slices,
            owners=np.array([owner for owner, _ in flat], dtype=np.int32),
            shares=np.array([share for _, share in flat], dtype=np.float32),
        )

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        of_texts = sum(60 + 2 * len(text) for texts in self.texts for text in texts)
        arrays = (self.places, self.confidence, self.owners, self.shares)
        return of_texts + 200 * len(self.slices) + sum(array.nbytes for array in arrays)

    def word_scores(self, query: str, postings: Postings) -> Scores:
        """Return what a request's words are worth to each of the tools: (n_learned,), on the scale of BM25.

        How rare a word is, is a matter of the permitted tools' own texts.

        Args:
            query: the request.
            postings: the words of the permitted tools.
        """
        import numpy as np

        scores = np.zeros(len(self.places), dtype=np.float32)
        for term in list(count_terms(query[:_N_CHARACTERS]))[:_N_QUERY_TERMS]:
            if term in self.slices:
                entries = slice(*self.slices[term])
                row = postings.row(term)
                idf = postings.max_idf if row is None else postings.idf[row]
                scores[self.owners[entries]] += idf * self.shares[entries]
        word_scores: Scores = WORD_WEIGHT * self.confidence * scores
        return word_scores


def _shares(texts: Sequence[str]) -> dict[str, float]:
    """Return how much of some requests have each term of theirs."""
    sums: dict[str, float] = {}
    for text in texts:
        for term, count in count_terms(text).items():
            sums[term] = sums.get(term, 0.0) + min(count, _MAX_COUNT)
    means = {term: total / len(texts) for term, total in sums.items()}
    return {term: mean * (1 + _SATURATION) / (mean + _SATURATION) for term, mean in means.items()}
