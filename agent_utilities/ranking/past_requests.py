"""Past requests that tools of one catalog answered: their words, and how near a request is to them by vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_utilities.ranking.arrays import NDArray, Places, Scores, Vectors, np, single_blas_thread, unit_vectors
from agent_utilities.ranking.embedding import Embedder
from agent_utilities.ranking.terms import Postings, TermWeights, count_terms

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


@dataclass(frozen=True, eq=False)
class PastRequests:
    """Past requests that tools of one catalog answered.

    Args:
        places: (n_learned,) of the tools that have any, ascending.
        texts: of each, oldest first.
        confidence: (n_learned,) what they count, 0 to 1: the more of them, the more.
        shares: how much of each tool's requests have a term, 0 to 1, rising fast at first.
    """

    places: Places
    texts: tuple[tuple[str, ...], ...]
    confidence: Scores
    shares: TermWeights

    @classmethod
    def of(cls, requests: Mapping[int, Sequence[str]]) -> PastRequests:
        """Return those of a catalog, given by the tool's place, oldest first; processor work, for a thread."""
        places = sorted(place for place, texts in requests.items() if texts)
        texts = tuple(tuple(text[:_N_CHARACTERS] for text in requests[place][-N_REQUESTS:]) for place in places)
        n_requests = np.array(list(map(len, texts)), dtype=np.float32)
        return cls(
            places=np.array(places, dtype=np.intp),
            texts=texts,
            confidence=n_requests / (n_requests + N_HALF),
            shares=TermWeights.of_owners(list(map(_shares, texts))),
        )

    @property
    def n_bytes(self) -> int:
        """About what it takes, without the texts themselves, which whoever gave them holds too."""
        n_texts = sum(map(len, self.texts))
        return _TEXT_BYTES * n_texts + self.shares.n_bytes + self.places.nbytes + self.confidence.nbytes

    def word_scores(self, query: str, postings: Postings) -> Scores:
        """Return what a request's words are worth to each of the tools: (n_learned,), on the scale of BM25.

        How rare a word is, is a matter of the permitted tools' own texts: of their `postings`.
        """
        terms = list(count_terms(query[:_N_QUERY_CHARACTERS]))[:_N_QUERY_TERMS]
        rarities = {term: _idf(term, postings) for term in terms if term in self.shares.rows}
        word_scores: Scores = WORD_WEIGHT * self.confidence * self.shares.scores(rarities)
        return word_scores


def _idf(term: str, postings: Postings) -> float:
    row = postings.row(term)
    return postings.max_idf if row is None else float(postings.idf[row])


def _shares(texts: Sequence[str]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for text in texts:
        for term, count in count_terms(text).items():
            sums[term] = sums.get(term, 0.0) + min(count, _MAX_COUNT)
    means = {term: total / len(texts) for term, total in sums.items()}
    return {term: mean * (1 + _SATURATION) / (mean + _SATURATION) for term, mean in means.items()}


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
        places: (n_learned,) of the tools in the catalog, ascending.
        blended: (n_learned, n_dimensions) of the tool's text and its past requests together, of unit length.
        subjects: (n_learned, n_dimensions) of what is particular to the past requests, times what they count.
        common: (n_dimensions,) what requests have in common.
    """

    places: Places
    blended: Vectors
    subjects: Vectors
    common: NDArray[np.float32]

    @classmethod
    def of(cls, past: PastRequests, texts: Vectors, embedder: Embedder, unanswerable: Vectors) -> PastVectors:
        """Return them; the requests are embedded some at a time, for a thread.

        Args:
            texts: (n_learned, n_dimensions) of the tools' own texts, of unit length.
            unanswerable: (n, n_dimensions) of requests that no tool need answer: what they have in common, all have.
        """
        common = unanswerable.mean(axis=0)
        sums, subjects = np.zeros_like(texts), np.zeros_like(texts)
        owned = [(owner, text) for owner, asked in enumerate(past.texts) for text in asked]
        for start in range(0, len(owned), _N_AT_A_TIME):
            owners, some = map(list, zip(*owned[start : start + _N_AT_A_TIME], strict=True))
            vectors = embedder.embed(some, "query")
            np.add.at(sums, owners, vectors)
            np.add.at(subjects, owners, unit_vectors(vectors - common))
        n_requests = np.array([[len(owned)] for owned in past.texts], dtype=np.float32)
        confidence = past.confidence[:, None]
        blended = unit_vectors(texts + BLEND_WEIGHT * confidence / n_requests * sums)
        return cls(past.places, blended, SUBJECT_WEIGHT * confidence * unit_vectors(subjects), common)

    def within(self, learned: Places) -> PastVectors:
        """Return those of the tools at some positions among these, ascending, alone.

        A product of vectors depends in its last digit on how many others are multiplied with them: what a caller may
        not use must not be among them.
        """
        if len(learned) == len(self.blended):
            return self
        return PastVectors(self.places[learned], self.blended[learned], self.subjects[learned], self.common)

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self.blended.nbytes + self.subjects.nbytes + self.common.nbytes

    def nearness(self, queries: Vectors, mean: NDArray[np.float32]) -> tuple[Vectors, Vectors]:
        """Return how near requests are to each tool's text and past requests together, and what those are worth.

        Both are (n_texts, n_learned). To be taken from the latter is how near the requests are to the tool's own text.

        Args:
            queries: (n_texts, n_dimensions) of the whole request first, then of its parts.
            mean: (n_dimensions,) what is taken out of the permitted tools' vectors, and of these alike.
        """
        with single_blas_thread():
            cosines = queries @ self.blended.T
            squares = 1 - 2 * (self.blended @ mean) + mean @ mean
            particular = unit_vectors(queries - self.common) @ self.subjects.T
        lengths = np.maximum(np.sqrt(np.maximum(squares, 0)), _LEAST_LENGTH)
        return cosines, (cosines - (queries @ mean)[:, None]) / lengths + particular
