"""Scores a user's message for each capability, by the triggers of the capabilities that they may use.

`is postgres better than mysql in your opinion` is as near to a database's triggers as a request to query it; only its
phrasing distinguishes them.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log
from operator import attrgetter
from pathlib import Path

from cachetools import LRUCache, cachedmethod

from agent_utilities.catalog.words import STOPWORDS, words
from agent_utilities.query.ranking.arrays import Places, Scores, Vectors, np, single_blas_thread
from agent_utilities.query.ranking.base import N_DECIMALS
from agent_utilities.query.ranking.terms import SURFACE_WEIGHT, TermWeights, stem

# Sentences to compare requests with: those that no tool need answer, and pairs of talk and request on one subject.
# They come from no data set, and their subjects are none that a capability is likely to be for.
_SENTENCES = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))

UNANSWERABLE: tuple[str, ...] = tuple(_SENTENCES["unanswerable"])
_TALK, _REQUESTS = zip(*_SENTENCES["talk_and_requests"], strict=True)
TALK: tuple[str, ...] = (*UNANSWERABLE, *_SENTENCES["patterns"], *_TALK)
"""Messages that call for no tool: opinions, comparisons, theory, jokes, remarks."""
EXAMPLES: tuple[str, ...] = (*TALK, *_REQUESTS)
"""Embedded once, beside triggers."""

STOPWORD_WEIGHT = 0.25
"""The weight of a stop word, beside 1: `what did I tell you` calls for a memory."""
NAME_WEIGHT = 0.2
"""The weight of a word of the capability's name, beside 1 where all of its triggers have it."""
BEGINNING_WEIGHT = 0.7
"""The weight of a prefix match for a word that no trigger has: `insta` for `instagram`."""
COVERAGE_POWER = 0.4
"""How much more longer texts must share: 0 for not at all, 1 for the same share of their words."""
BACKGROUND_SHARE = 0.25
"""The weight of an unanswerable request in idf, beside 1 for a capability: few capabilities alone say little.

With 58 it makes no difference; with one, a word that it has would be worth a third."""
PAIR_WEIGHT = 0.5
"""The weight of two adjacent words: `better than` says more than `better`."""
TALK_COVERAGE_POWER = 0.3
_HALF_SHARE = 0.15
_MAX_COUNT = 1.3
_N_LETTERS = 4
_N_CHARACTERS = 8_000


@dataclass(frozen=True, eq=False)
class TriggerWords:
    """The words of some capabilities' triggers.

    Args:
        weights: of each term in each capability, 0 to about 1.
        idf: of each known term.
        max_idf: of a term that none has.
        vocabulary: their words of four letters and more, ascending.
        talk_idf: of each term in triggers and requests, 0 to 1; 1 for all others.
    """

    weights: TermWeights
    idf: Mapping[str, float]
    max_idf: float
    vocabulary: Sequence[str]
    talk_idf: Mapping[str, float]

    @classmethod
    def of(cls, triggers: Mapping[str, Sequence[str]]) -> TriggerWords:
        """Index the triggers of capabilities; processor work."""
        weights = TermWeights.of_owners([_weights(name, texts) for name, texts in triggers.items()])
        n = len(triggers) + BACKGROUND_SHARE * len(UNANSWERABLE)
        n_having = Counter(_background())
        n_having.update(dict(zip(weights.rows, np.diff(weights.starts).tolist(), strict=True)))
        return cls(
            weights=weights,
            idf={term: _idf(n, n_term) for term, n_term in n_having.items()},
            max_idf=_idf(n, 0),
            vocabulary=sorted(term for term in weights.rows if term[0] != "~" and len(term) >= _N_LETTERS),
            talk_idf=_talk_idf(text for texts in triggers.values() for text in texts),
        )

    def scores(self, text: str) -> Scores:
        """Score a text's words for each capability: (n_capabilities,), 0 for none shared.

        The sum of the shared words' weights times their idf, over a power of the sum of all words' idf.
        """
        counts = self._with_beginnings(_counts(text[:_N_CHARACTERS]))
        rarities = {term: min(count, _MAX_COUNT) * self.idf.get(term, self.max_idf) for term, count in counts.items()}
        scores = self.weights.scores(rarities)
        total = sum(rarities.values()) / self.max_idf
        return scores / (self.max_idf * total**COVERAGE_POWER) if total > 0 else scores

    def talk(self, text: str) -> float:
        """Return how much a text shares with the nearest message of general talk; 0 for nothing."""
        counts = _counts(text[:_N_CHARACTERS], in_pairs=True)
        rarities = {term: n * self.talk_idf.get(term, 1.0) for term, n in counts.items()}
        total = sum(rarities.values())
        return float(_talk().scores(rarities).max()) / total**TALK_COVERAGE_POWER if total > 0 else 0.0

    def _with_beginnings(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Return terms, with prefix matches of words that no trigger has."""
        extended = dict(counts)
        for word in counts:
            if word.startswith("~") or word in self.weights.rows or stem(word) in self.weights.rows:
                continue
            begun = list(self._beginning_alike(word))
            for term in map(stem, begun):
                extended[term] = extended.get(term, 0.0) + BEGINNING_WEIGHT / len(begun)
        return extended

    def _beginning_alike(self, word: str) -> Iterator[str]:
        """Yield the words that begin with a word, and the known beginnings of it."""
        if len(word) < _N_LETTERS:
            return
        known = self.vocabulary
        for place in range(bisect_left(known, word), len(known)):
            if not known[place].startswith(word):
                break
            yield known[place]
        for end in range(_N_LETTERS, len(word)):
            if word[:end] in self.weights.rows:
                yield word[:end]


@cache
def _background() -> Mapping[str, float]:
    """Return the weighted frequency of each term in unanswerable requests."""
    n_having = Counter(term for text in UNANSWERABLE for term in _counts(text))
    return {term: BACKGROUND_SHARE * n for term, n in n_having.items()}


def _counts(text: str, *, in_pairs: bool = False) -> dict[str, float]:
    """Count a text's stems, and its content words as written, or else pairs of adjacent stems."""
    counts: dict[str, float] = defaultdict(float)
    stems = []
    for word in words(text):
        is_content = word not in STOPWORDS
        stems.append(stem(word))
        counts[stems[-1]] += 1 if is_content else STOPWORD_WEIGHT
        if is_content and not in_pairs:
            counts[word] += SURFACE_WEIGHT
    for pair in map(" ".join, pairwise(stems)) if in_pairs else ():
        counts[pair] += PAIR_WEIGHT
    return dict(counts)


def _weights(name: str, texts: Sequence[str]) -> dict[str, float]:
    """Return the weight of each term of a capability: the saturated share of its triggers that have it."""
    n_having = Counter(term for text in texts for term in _counts(text))
    shares = {term: n / len(texts) for term, n in n_having.items()}
    weights = {term: share * (1 + _HALF_SHARE) / (share + _HALF_SHARE) for term, share in shares.items()}
    for term in _counts(name):
        weights[term] = weights.get(term, 0.0) + NAME_WEIGHT
    return weights


def _idf(n: float, n_having: float) -> float:
    """Return the idf of a term. Source: Robertson and Spärck Jones, as in BM25."""
    return log(1 + (n - n_having + 0.5) / (n_having + 0.5))


def _talk_idf(triggers: Iterable[str]) -> dict[str, float]:
    """Return the idf of each term in triggers and requests, 0 to 1: their phrasing says nothing of talk."""
    texts = (*triggers, *_REQUESTS)
    n_having = Counter(term for text in texts for term in _counts(text, in_pairs=True))
    most = _idf(len(texts), 0)
    return {term: _idf(len(texts), n) / most for term, n in n_having.items()}


@cache
def _talk() -> TermWeights:
    """Index the messages of general talk; each term weighs 1."""
    return TermWeights.of_owners([dict.fromkeys(_counts(text, in_pairs=True), 1.0) for text in TALK])


_RIDGE = 0.013
"""The ridge, for a mean square of 1. Three times it loses some points of hits."""


def request_direction(examples: Vectors, triggers: Vectors) -> tuple[Vectors, float]:
    """Fit the direction that separates requests from talk, the two kinds weighted equally; processor work.

    Least squares on 1 for requests and -1 for talk, with a ridge: the line of Fisher's discriminant.

    Args:
        examples: (n, n_dimensions) of `EXAMPLES`.
        triggers: (n_triggers, n_dimensions), which are phrased as requests.

    Returns:
        Weights, (n_dimensions,), and an offset: a vector times the weights, plus the offset, is about 1 for a request,
        -1 for talk.
    """
    vectors = np.concatenate([examples, triggers]).astype(np.float64)
    targets = np.ones(len(vectors))
    targets[: len(TALK)] = -1
    shares = np.where(targets < 0, 0.5 / len(TALK), 0.5 / (len(vectors) - len(TALK)))
    mean = shares @ vectors
    centred = vectors - mean
    with single_blas_thread():
        weighted = (centred * shares[:, None]).T
        weights = np.linalg.solve(weighted @ centred + _RIDGE * np.eye(vectors.shape[1]), weighted @ targets)
    return weights.astype(np.float32), -float(mean @ weights)


SOFTNESS = 0.15
"""The temperature of the soft maximum over a capability's triggers: the smaller, the less all but the nearest count."""
REQUEST_WEIGHT = 0.45
"""The weight of a request's phrasing. It also admits messages for a capability that is not there: 0.6 finds two points
more, and refuses seven fewer of those."""


@dataclass(frozen=True, eq=False)
class TriggerVectors:
    """The vectors of some capabilities' triggers, and the direction of requests.

    Args:
        vectors: (n_triggers, n_dimensions), of unit length, capability after capability.
        sizes: (n_capabilities,) how many triggers each has, 1 or more.
        direction, offset: of `request_direction`.
    """

    vectors: Vectors
    sizes: Places
    direction: Vectors
    offset: float

    @classmethod
    def of(cls, vectors: Vectors, sizes: Sequence[int], examples: Vectors) -> TriggerVectors:
        """Prepare the vectors of triggers, capability after capability, and of `EXAMPLES`; processor work."""
        return cls(vectors, np.array(sizes, dtype=np.intp), *request_direction(examples, vectors))

    def scores(self, queries: Vectors) -> Scores:
        """Score a message for each capability, plus its score as a request: (n_capabilities,).

        The best of several sentences counts as much as the whole, where that is more.

        Args:
            queries: (n_texts, n_dimensions) of the whole first, then of its parts.
        """
        with single_blas_thread():
            cosines = queries @ self.vectors.T
        starts = np.cumsum(self.sizes) - self.sizes
        # The soft maximum is between mean and maximum; as it is one of a mean, many triggers are no advantage.
        sums = np.add.reduceat(np.exp(cosines / SOFTNESS), starts, axis=1)
        by_text = SOFTNESS * (np.log(sums) - np.log(self.sizes).astype(np.float32))
        whole, parts = by_text[0], by_text[1:]
        scores: Scores = np.maximum(whole, (whole + parts.max(axis=0)) / 2) if len(parts) else whole
        scores += np.float32(REQUEST_WEIGHT * (float(queries[0] @ self.direction) + self.offset))
        return scores


WORDS_WEIGHT = 0.3
"""The weight of the score by words, beside that by vectors."""
TALK_WEIGHT = 0.45
"""The weight of a message's likeness to general talk."""

Scored = tuple[tuple[str, float], ...]
"""Name and score of each capability, best first; equal ones by name."""


@dataclass(frozen=True, eq=False)
class TriggerView:
    """The triggers of the capabilities that a caller may use; without vectors words alone are compared."""

    names: tuple[str, ...]
    n_triggers: int
    words: TriggerWords
    vectors: TriggerVectors | None = None

    def evidence(self, text: str) -> float:
        """Quickly score the best capability by words, to choose parts of a long request by."""
        return float(self.words.scores(text).max(initial=0.0))

    def by_words(self, text: str) -> Scored:
        """Score each capability by words alone."""
        return self._ranked(self.words.scores(text) - TALK_WEIGHT * self.words.talk(text))

    def by_meaning(self, text: str, queries: Vectors) -> Scored:
        """Score each capability by vectors and words; by words where there are no vectors.

        `queries` are (n_texts, n_dimensions), of the whole first, then of its parts.
        """
        if self.vectors is None:
            return self.by_words(text)
        by_words = WORDS_WEIGHT * self.words.scores(text) - TALK_WEIGHT * self.words.talk(text)
        return self._ranked(self.vectors.scores(queries) + by_words)

    def _ranked(self, scores: Scores) -> Scored:
        named = zip(self.names, scores.astype(float).round(N_DECIMALS).tolist(), strict=True)
        return tuple(sorted(named, key=lambda item: (-item[1], item[0])))


_N_TRIGGERS_IN_VIEWS = 12_000
"""The most triggers of all cached views: each takes some 2.5 KB with a vector of 384 dimensions."""
_OVERHEAD = 150
"""A view's fixed size, in triggers: some 300 KB of words of talk and requests."""


class TriggerIndex:
    """Triggers by capability, with a view for each set of usable ones.

    Each view's idf is of the usable triggers alone: other capabilities must not move their scores.

    Args:
        embed: returns the vectors of texts, (n_texts, n_dimensions); None to compare words alone.

    Raises:
        RankerError: they can't be embedded.
    """

    def __init__(
        self, triggers: Mapping[str, Sequence[str]], embed: Callable[[Sequence[str]], Vectors] | None = None
    ) -> None:
        self.triggers = {name: tuple(dict.fromkeys(triggers[name])) for name in sorted(triggers) if triggers[name]}
        texts = list(dict.fromkeys(text for owned in self.triggers.values() for text in owned))
        self._vectors = dict(zip(texts, embed(texts), strict=True)) if embed is not None and texts else {}
        self._examples = embed(EXAMPLES) if embed is not None and texts else None
        self._lock = threading.Lock()
        self._views = LRUCache[frozenset[str], TriggerView](
            _N_TRIGGERS_IN_VIEWS, lambda view: view.n_triggers + _OVERHEAD
        )

    @cachedmethod(attrgetter("_views"), lambda self, usable: usable.intersection(self.triggers), attrgetter("_lock"))
    def view(self, usable: frozenset[str]) -> TriggerView:
        """Return the view of the usable capabilities alone; processor work the first time."""
        triggers = {name: texts for name, texts in self.triggers.items() if name in usable}
        sizes = list(map(len, triggers.values()))
        vectors = None
        if sizes and self._examples is not None:
            of_triggers = np.stack([self._vectors[text] for texts in triggers.values() for text in texts])
            vectors = TriggerVectors.of(of_triggers, sizes, self._examples)
        return TriggerView(tuple(triggers), sum(sizes), TriggerWords.of(triggers), vectors)
