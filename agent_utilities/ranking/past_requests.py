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
_N_CHARACTERS = 500
_N_QUERY_CHARACTERS = 8_000
_N_QUERY_TERMS = 512
_TEXT_BYTES = 8
_TERM_BYTES = 200


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
        texts = tuple(newest(requests[place]) for place in places)
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
        """About what it takes, without the texts themselves, which whoever gave them holds too."""
        arrays = (self.places, self.confidence, self.owners, self.shares)
        n_texts = sum(map(len, self.texts))
        return _TEXT_BYTES * n_texts + _TERM_BYTES * len(self.slices) + sum(array.nbytes for array in arrays)

    def word_scores(self, query: str, postings: Postings) -> Scores:
        """Return what a request's words are worth to each of the tools: (n_learned,), on the scale of BM25.

        How rare a word is, is a matter of the permitted tools' own texts.

        Args:
            query: the request.
            postings: the words of the permitted tools.
        """
        import numpy as np

        terms = list(count_terms(query[:_N_QUERY_CHARACTERS]))[:_N_QUERY_TERMS]
        known = [(term, slice(*self.slices[term])) for term in terms if term in self.slices]
        if not known:
            return np.zeros(len(self.places), dtype=np.float32)
        owners = np.concatenate([self.owners[entries] for _, entries in known])
        weights = np.concatenate([_idf(term, postings) * self.shares[entries] for term, entries in known])
        scores = np.bincount(owners, weights=weights, minlength=len(self.places)).astype(np.float32)
        word_scores: Scores = WORD_WEIGHT * self.confidence * scores
        return word_scores


def newest(texts: Sequence[str]) -> tuple[str, ...]:
    """Return of a tool's past requests what counts: the newest, and their first 500 characters."""
    return tuple(text[:_N_CHARACTERS] for text in texts[-N_REQUESTS:])


def _idf(term: str, postings: Postings) -> float:
    row = postings.row(term)
    return postings.max_idf if row is None else float(postings.idf[row])


def _shares(texts: Sequence[str]) -> dict[str, float]:
    """Return how much of some requests have each term of theirs."""
    sums: dict[str, float] = {}
    for text in texts:
        for term, count in count_terms(text).items():
            sums[term] = sums.get(term, 0.0) + min(count, _MAX_COUNT)
    means = {term: total / len(texts) for term, total in sums.items()}
    return {term: mean * (1 + _SATURATION) / (mean + _SATURATION) for term, mean in means.items()}
