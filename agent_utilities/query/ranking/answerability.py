"""Cosines of requests to tools and past requests, and the cut below which a request counts as not answered.

The distance of requests that a catalog can't answer depends on the catalog and on the model, so the cut is measured on
the permitted tools.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_utilities.catalog.words import stopwords_of, words
from agent_utilities.query.ranking.arrays import NDArray, Places, Scores, Vectors, np, single_blas_thread, unit_vectors
from agent_utilities.query.ranking.base import N_DECIMALS
from agent_utilities.query.ranking.embedding import Embedder
from agent_utilities.query.ranking.terms import SURFACE_WEIGHT, Postings, TermWeights, stem

CENTRING = 0.5
"""The share of the catalog's mean vector that is subtracted: what all tools have in common says nothing."""
N_NEIGHBOURS = 32
"""A tool's text is compared with the thirty-second nearest other tool: nearer ones may be of the same server, or do the
same under another name. Whether a smaller catalog is about one thing can't be measured."""
NEIGHBOUR_SHARE = 32
"""The same for a large catalog: one tool in so many."""
OWN_WEIGHT = 2.0
FOREIGN_SPREADS = 1.7
MOST_SPREADS = 5.5
COVERAGE_SPREADS = 3.0
PART_SPREADS = 6.0
"""How much more evidence a part of a request must give than the whole: of many parts some is near a tool by chance."""
_LEAST_LENGTH = 1e-3
_N_NEAREST_UNANSWERABLE = 16
_N_SAMPLE_CELLS = 4_000_000
_N_SAMPLE = 256
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Answerability:
    """The vectors of the permitted tools, and the cut for the evidence that they answer a request.

    Args:
        vectors: (n_documents, n_dimensions), of unit length, one for each different document, so that equal tools
            score equal to the last bit.
        rows: (n_tools,) the row of each tool's document.
        mean: (n_dimensions,) `CENTRING` times the mean vector.
        scale: (n_documents,) makes the centred vectors unit length.
        unanswerable: (n, n_dimensions) vectors of requests that no tool need answer.
        spread: the downward deviation of such requests' evidence from their median, on this catalog and model: the unit
            of what words add, so that no model's scale is built in.
        cut: the least evidence that claims anything.
    """

    vectors: Vectors
    rows: Places
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    unanswerable: Vectors
    spread: float
    cut: float

    @classmethod
    def of(cls, vectors: Vectors, rows: Places, unanswerable: Vectors) -> Answerability:
        """Measure spread and cut on the tools of a catalog, or of a part of one; rows are in order of first place.

        The cut is to lose one answerable request in a hundred: the unanswerable requests' median evidence and 1.7
        spreads, measured on their lower half, since a catalog may well answer some. In a catalog about one thing every
        request is near to many tools: the cut rises by twice the excess of the median evidence of tools' own vectors
        against the thirty-second nearest other tool, up to five and a half spreads over the median.
        """
        mean = CENTRING * vectors.mean(axis=0)
        squares = np.einsum("ij,ij->i", vectors, vectors) - 2 * (vectors @ mean) + mean @ mean
        with single_blas_thread():
            nearest = (unanswerable @ vectors.T).max(axis=1)
            among_themselves = unanswerable @ unanswerable.T
        np.fill_diagonal(among_themselves, -np.inf)
        foreign = nearest - _mean_of_nearest(among_themselves)
        median = float(np.median(foreign))
        below = foreign[foreign <= median] - median
        spread = max(_LEAST_SPREAD, float(np.sqrt(np.mean(below * below))))
        cut = median + FOREIGN_SPREADS * spread
        if len(vectors) > N_NEIGHBOURS:
            own = float(np.median(_evidence_of_own(vectors, unanswerable)))
            cut = min(cut + OWN_WEIGHT * max(0.0, own - cut), median + MOST_SPREADS * spread)
        scale = 1 / np.maximum(np.sqrt(np.maximum(squares, 0)), _LEAST_LENGTH)
        return cls(vectors, rows, mean, scale, unanswerable, round(spread, N_DECIMALS), round(cut, N_DECIMALS))

    @property
    def n_bytes(self) -> int:
        return self.vectors.nbytes + self.scale.nbytes + self.mean.nbytes + 2 * self.rows.nbytes

    def within(self, places: Places) -> Answerability:
        """Return that of a catalog of the tools at these places, ascending, alone."""
        old_rows, firsts, rows = np.unique(self.rows[places], return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        return self.of(self.vectors[old_rows[order]], np.argsort(order)[rows], self.unanswerable)

    def cosines(self, queries: Vectors) -> tuple[Vectors, Vectors]:
        """Return the cosines of texts, (n_texts, n_dimensions), to the tools, plain and centred: (n_texts, n_tools)."""
        with single_blas_thread():
            cosines = queries @ self.vectors.T
        centred = cosines - (queries @ self.mean)[:, None]
        centred *= self.scale
        if len(self.vectors) == len(self.rows):  # no two are equal
            return cosines, centred
        return cosines[:, self.rows], centred[:, self.rows]

    def evidence(self, queries: Vectors, cosines: Vectors, coverage: Vectors | float) -> float:
        """Return how well a request is answered, to compare with the cut: by the whole, or clearly by a part of it.

        A vector of two hundred words is near no tool, though one sentence of them may be. The gap between first and
        second says nothing, since catalogs have tools that are much alike.

        Args:
            queries: (n_texts, n_dimensions) of the whole request first, then of its parts.
            cosines: (n_texts, n_tools) plain.
            coverage: (n_texts, n_tools) the share of each text's words that each tool has, weighted by idf.
        """
        best = (cosines + COVERAGE_SPREADS * self.spread * coverage).max(axis=1)
        with single_blas_thread():
            gaps = best - _mean_of_nearest(queries @ self.unanswerable.T)
        gaps[1:] -= PART_SPREADS * self.spread
        return float(np.max(gaps))

    def gap(self, query: NDArray[np.float32], best: float) -> float:
        """Return how much nearer a request is to its best answer than to requests that no tool need answer."""
        return best - float(_mean_of_nearest((self.unanswerable @ query)[None, :])[0])


def _mean_of_nearest(cosines: Vectors) -> Scores:
    """Return the mean cosine to the nearest unanswerable requests, for each text."""
    means: Scores = np.sort(cosines, axis=1)[:, -_N_NEAREST_UNANSWERABLE:].mean(axis=1)
    return means


def _evidence_of_own(vectors: Vectors, unanswerable: Vectors) -> Scores:
    """Return the evidence of tools' own vectors against the nth nearest other tool: (n_sampled,), sampled evenly."""
    n_tools = len(vectors)
    n_sampled = min(n_tools, _N_SAMPLE, max(2 * N_NEIGHBOURS, _N_SAMPLE_CELLS // n_tools))
    sample = np.linspace(0, n_tools - 1, n_sampled).astype(np.intp)
    with single_blas_thread():
        cosines = vectors[sample] @ vectors.T
        to_unanswerable = vectors[sample] @ unanswerable.T
    cosines[np.arange(n_sampled), sample] = -np.inf
    nth = n_tools - max(N_NEIGHBOURS, n_tools // NEIGHBOUR_SHARE)
    evidence: Scores = np.partition(cosines, nth, axis=1)[:, nth] - _mean_of_nearest(to_unanswerable)
    return evidence


N_REQUESTS = 20
"""The most past requests of one tool that count, the newest."""
N_HALF = 2
"""The number of requests that count half: one request is no habit."""
WORD_WEIGHT = 0.3
"""The weight of past requests' words, beside those of the tool's own text."""
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
        confidence: (n_learned,) 0 to 1, rising with their number.
        shares: the saturated share of each tool's requests that have a term, 0 to 1.
    """

    places: Places
    texts: tuple[tuple[str, ...], ...]
    confidence: Scores
    shares: TermWeights

    @classmethod
    def of(cls, requests: Mapping[int, Sequence[str]]) -> PastRequests:
        """Read requests by the tool's place, oldest first; processor work, for a thread."""
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
        """About its size, without the texts, which their source holds too."""
        n_texts = sum(map(len, self.texts))
        return _TEXT_BYTES * n_texts + self.shares.n_bytes + self.places.nbytes + self.confidence.nbytes

    def word_scores(self, query: str, postings: Postings) -> Scores:
        """Score a request's words for each of the tools: (n_learned,), on the scale of BM25; idf is of `postings`."""
        terms = list(_count_terms(query[:_N_QUERY_CHARACTERS]))[:_N_QUERY_TERMS]
        rarities = {term: _idf(term, postings) for term in terms if term in self.shares.rows}
        word_scores: Scores = WORD_WEIGHT * self.confidence * self.shares.scores(rarities)
        return word_scores


def _count_terms(text: str) -> dict[str, float]:
    """Return how often a text has each term: words as they stand, and their stems."""
    stopwords = stopwords_of(text)
    counts: defaultdict[str, float] = defaultdict(float)
    for word in words(text):
        if word not in stopwords:
            counts[word] += SURFACE_WEIGHT
            counts[stem(word)] += 1
    return counts


def _idf(term: str, postings: Postings) -> float:
    row = postings.row(term)
    return postings.max_idf if row is None else float(postings.idf[row])


def _shares(texts: Sequence[str]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for text in texts:
        for term, count in _count_terms(text).items():
            sums[term] = sums.get(term, 0.0) + min(count, _MAX_COUNT)
    means = {term: total / len(texts) for term, total in sums.items()}
    return {term: mean * (1 + _SATURATION) / (mean + _SATURATION) for term, mean in means.items()}


BLEND_WEIGHT = 2.4
"""The weight of the mean of many past requests in a tool's vector, beside 1 for its text."""
SUBJECT_WEIGHT = 0.5
"""The weight of the cosine to centred past requests, beside that to the blended vector."""
_N_AT_A_TIME = 256


@dataclass(frozen=True, eq=False)
class PastVectors:
    """The vectors of the past requests of some tools: two for each tool, however many requests it has.

    Args:
        places: (n_learned,) of the tools in the catalog, ascending.
        blended: (n_learned, n_dimensions) of the tool's text and its past requests together, of unit length.
        subjects: (n_learned, n_dimensions) of the centred past requests, times their confidence.
        common: (n_dimensions,) the mean of requests.
    """

    places: Places
    blended: Vectors
    subjects: Vectors
    common: NDArray[np.float32]

    @classmethod
    def of(cls, past: PastRequests, texts: Vectors, embedder: Embedder, unanswerable: Vectors) -> PastVectors:
        """Embed past requests, in batches, for a thread; `common` is the mean of the unanswerable ones.

        `texts` are (n_learned, n_dimensions) of the tools' own texts, of unit length.
        """
        common = unanswerable.mean(axis=0)
        sums, subjects = np.zeros_like(texts), np.zeros_like(texts)
        owned = [(owner, text) for owner, requests in enumerate(past.texts) for text in requests]
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

        The last digit of a matrix product depends on its size, so tools that a caller may not use must not be in it.
        """
        if len(learned) == len(self.blended):
            return self
        return PastVectors(self.places[learned], self.blended[learned], self.subjects[learned], self.common)

    @property
    def n_bytes(self) -> int:
        return self.blended.nbytes + self.subjects.nbytes + self.common.nbytes

    def nearness(self, queries: Vectors, mean: NDArray[np.float32]) -> tuple[Vectors, Vectors]:
        """Return the cosines of requests to the blended vectors, and their scores: both (n_texts, n_learned).

        The gain of a tool is its score less the centred cosine to its own text.

        Args:
            queries: (n_texts, n_dimensions) of the whole request first, then of its parts.
            mean: (n_dimensions,) as of `Answerability`; it is subtracted here alike.
        """
        with single_blas_thread():
            cosines = queries @ self.blended.T
            squares = 1 - 2 * (self.blended @ mean) + mean @ mean
            particular = unit_vectors(queries - self.common) @ self.subjects.T
        lengths = np.maximum(np.sqrt(np.maximum(squares, 0)), _LEAST_LENGTH)
        return cosines, (cosines - (queries @ mean)[:, None]) / lengths + particular
