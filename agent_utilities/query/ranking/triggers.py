"""The sentences that call for capabilities, and how well what a user says fits each capability that they may use.

`is postgres better than mysql in your opinion` is as near to a database's triggers as a request to query it; only how
it is put tells them apart.
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

# Sentences that requests are held against: what no tool need answer, and talk about a thing beside requests on it.
# They come from no data set, and the things in them are none that a capability is likely to be for.
_SENTENCES = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))

UNANSWERABLE: tuple[str, ...] = tuple(_SENTENCES["unanswerable"])
PATTERNS: tuple[str, ...] = tuple(_SENTENCES["patterns"])
"""How people put what calls for no tool: opinions, comparisons, theory, jokes, remarks."""
TALK: tuple[str, ...] = tuple(talk for talk, _ in _SENTENCES["talk_and_requests"])
REQUESTS: tuple[str, ...] = tuple(request for _, request in _SENTENCES["talk_and_requests"])
EXAMPLES: tuple[str, ...] = (*UNANSWERABLE, *PATTERNS, *TALK, *REQUESTS)
"""What is embedded once, beside triggers: talk first, requests last."""
N_TALK = len(EXAMPLES) - len(REQUESTS)

STOPWORD_WEIGHT = 0.25
"""Of a word that says nothing by itself, beside 1: `what did I tell you` calls for a memory."""
NAME_WEIGHT = 0.2
"""Of a word of the capability's name, beside 1 where all of its triggers have it."""
BEGINNING_WEIGHT = 0.7
"""Of words that begin as one does that no trigger has: `insta` as `instagram`."""
COVERAGE_POWER = 0.4
"""How much longer texts must share more: 0 for not at all, 1 for the same share of their words."""
BACKGROUND_SHARE = 0.25
"""Of a request that calls for nothing, beside a capability, in how common a word is: few capabilities tell little.

Of 58 it can be left out; of one, a word that it has would be worth a third."""
PAIR_WEIGHT = 0.5
"""Of two words beside each other: `better than` says more than `better`."""
TALK_COVERAGE_POWER = 0.3
_ALL_TALK = (*UNANSWERABLE, *PATTERNS, *TALK)
_HALF_SHARE = 0.15
_MAX_COUNT = 1.3
_N_LETTERS = 4
_N_CHARACTERS = 8_000


@dataclass(frozen=True, eq=False)
class TriggerWords:
    """What each word is worth to each of some capabilities.

    Args:
        weights: of each term that a capability has, 0 to about 1.
        idf: how rare each known term is among them.
        max_idf: of a term that none has.
        vocabulary: their words of four letters and more, ascending.
        talk_idf: how rare terms are in what calls for something, 0 to 1; one that none of it has counts 1.
    """

    weights: TermWeights
    idf: Mapping[str, float]
    max_idf: float
    vocabulary: Sequence[str]
    talk_idf: Mapping[str, float]

    @classmethod
    def of(cls, triggers: Mapping[str, Sequence[str]]) -> TriggerWords:
        """Return them for capabilities in order of the mapping; processor work."""
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
        """Return how well a text fits each capability by its words: (n_capabilities,), 0 for none shared.

        The sum of what shared words are worth, the rarer the more, over a power of what all words of the text are.
        """
        counts = self._with_beginnings(_counts(text[:_N_CHARACTERS]))
        rarities = {term: min(count, _MAX_COUNT) * self.idf.get(term, self.max_idf) for term, count in counts.items()}
        scores = self.weights.scores(rarities)
        total = sum(rarities.values()) / self.max_idf
        return scores / (self.max_idf * total**COVERAGE_POWER) if total > 0 else scores

    def talk(self, text: str) -> float:
        """Return how much a text shares with the most alike message of general talk; 0 for nothing."""
        counts = _counts(text[:_N_CHARACTERS], in_pairs=True)
        rarities = {term: n * self.talk_idf.get(term, 1.0) for term, n in counts.items()}
        total = sum(rarities.values())
        return float(_talk().scores(rarities).max()) / total**TALK_COVERAGE_POWER if total > 0 else 0.0

    def _with_beginnings(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Return terms, and those of words that begin as one does which no trigger has."""
        extended = dict(counts)
        for word in counts:
            if word.startswith("~") or word in self.weights.rows or stem(word) in self.weights.rows:
                continue
            begun = list(self._beginning_alike(word))
            for term in map(stem, begun):
                extended[term] = extended.get(term, 0.0) + BEGINNING_WEIGHT / len(begun)
        return extended

    def _beginning_alike(self, word: str) -> Iterator[str]:
        """Yield the words that begin with a word, and those that it begins with."""
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
    """Return how common each term is among requests that call for nothing, counted as they count."""
    n_having = Counter(term for text in UNANSWERABLE for term in _counts(text))
    return {term: BACKGROUND_SHARE * n for term, n in n_having.items()}


def _counts(text: str, *, in_pairs: bool = False) -> dict[str, float]:
    """Return how often a text has each stem, and each content word as it stands; or else each two stems together."""
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
    """Return what each term of a capability is worth to it: the more of its triggers have it, rising fast at first."""
    n_having = Counter(term for text in texts for term in _counts(text))
    shares = {term: n / len(texts) for term, n in n_having.items()}
    weights = {term: share * (1 + _HALF_SHARE) / (share + _HALF_SHARE) for term, share in shares.items()}
    for term in _counts(name):
        weights[term] = weights.get(term, 0.0) + NAME_WEIGHT
    return weights


def _idf(n: float, n_having: float) -> float:
    """Return how rare a term is. Source: Robertson and Spärck Jones, as BM25 has it."""
    return log(1 + (n - n_having + 0.5) / (n_having + 0.5))


def _talk_idf(triggers: Iterable[str]) -> dict[str, float]:
    """Return how rare each term is in what calls for something, 0 to 1: how that is put tells nothing of talk."""
    texts = (*triggers, *REQUESTS)
    n_having = Counter(term for text in texts for term in _counts(text, in_pairs=True))
    most = _idf(len(texts), 0)
    return {term: _idf(len(texts), n) / most for term, n in n_having.items()}


@cache
def _talk() -> TermWeights:
    """Return the messages that have each term: all are worth the same."""
    return TermWeights.of_owners([dict.fromkeys(_counts(text, in_pairs=True), 1.0) for text in _ALL_TALK])


_RIDGE = 0.013
"""Of a mean square of 1: how little one dimension may say. Three times it loses some points of hits."""


def request_direction(examples: Vectors, triggers: Vectors) -> tuple[Vectors, float]:
    """Return the line that tells talk from requests best, each kind as a whole counting the same; processor work.

    Least squares on 1 for requests and -1 for talk, with a ridge: the line of Fisher's discriminant.

    Args:
        examples: (n, n_dimensions) of `examples.EXAMPLES`.
        triggers: (n_triggers, n_dimensions), which are put as requests are.

    Returns:
        Weights, (n_dimensions,), and an offset: a vector times the weights and the offset are about 1 for a request,
        -1 for talk.
    """
    vectors = np.concatenate([examples, triggers]).astype(np.float64)
    targets = np.ones(len(vectors))
    targets[:N_TALK] = -1
    n_requests = len(vectors) - N_TALK
    shares = np.where(targets < 0, 0.5 / N_TALK, 0.5 / n_requests)
    mean = shares @ vectors
    centred = vectors - mean
    with single_blas_thread():
        weighted = (centred * shares[:, None]).T
        weights = np.linalg.solve(weighted @ centred + _RIDGE * np.eye(vectors.shape[1]), weighted @ targets)
    return weights.astype(np.float32), -float(mean @ weights)


SOFTNESS = 0.15
"""Of the soft maximum of a capability's cosines: the smaller, the less its other triggers count beside the nearest."""
REQUEST_WEIGHT = 0.45
"""Of how much what is said is put as requests are, not as talk is. It lets more through that calls for a capability
which is not among them: 0.6 finds two points more, and refuses seven fewer of those."""


@dataclass(frozen=True, eq=False)
class TriggerVectors:
    """The triggers of some capabilities, and what tells requests from talk.

    Args:
        vectors: (n_triggers, n_dimensions), of unit length, capability after capability.
        sizes: (n_capabilities,) how many triggers each has, 1 or more.
        direction, offset: how much a message is put as requests are, as `request_direction` gives them.
    """

    vectors: Vectors
    sizes: Places
    direction: Vectors
    offset: float

    @classmethod
    def of(cls, vectors: Vectors, sizes: Sequence[int], examples: Vectors) -> TriggerVectors:
        """Return those of triggers, capability after capability, beside the vectors of `EXAMPLES`; processor work."""
        return cls(vectors, np.array(sizes, dtype=np.intp), *request_direction(examples, vectors))

    def scores(self, queries: Vectors) -> Scores:
        """Return how near what is said is to each capability, and how much it calls for any at all: (n_capabilities,).

        Of several sentences the best counts as much as the whole, where that is more.

        Args:
            queries: (n_texts, n_dimensions) of the whole first, then of its parts.
        """
        with single_blas_thread():
            cosines = queries @ self.vectors.T
        starts = np.cumsum(self.sizes) - self.sizes
        # The soft maximum of each capability's cosines lies between their mean and the nearest one: as it is of a mean,
        # many triggers are no advantage over few.
        sums = np.add.reduceat(np.exp(cosines / SOFTNESS), starts, axis=1)
        by_text = SOFTNESS * (np.log(sums) - np.log(self.sizes).astype(np.float32))
        whole, parts = by_text[0], by_text[1:]
        scores: Scores = np.maximum(whole, (whole + parts.max(axis=0)) / 2) if len(parts) else whole
        scores += np.float32(REQUEST_WEIGHT * (float(queries[0] @ self.direction) + self.offset))
        return scores


WORDS_WEIGHT = 0.3
"""Of the score by words, beside that by vectors."""
TALK_WEIGHT = 0.45
"""Of how much a message is put as general talk is."""

Scored = tuple[tuple[str, float], ...]
"""Name and score of each capability, best first; equal ones by name."""


@dataclass(frozen=True, eq=False)
class TriggerView:
    """The triggers of the capabilities that may be used.

    Args:
        names: of the capabilities, ascending.
        n_triggers: how many triggers they have together.
        words: of their triggers.
        vectors: of their triggers; None where words alone are compared.
    """

    names: tuple[str, ...]
    n_triggers: int
    words: TriggerWords
    vectors: TriggerVectors | None = None

    def evidence(self, text: str) -> float:
        """Return how well the best capability fits a text by words: quick, to choose parts of a long request by."""
        return float(self.words.scores(text).max(initial=0.0))

    def by_words(self, text: str) -> Scored:
        """Return how well a text fits each capability by its words alone."""
        return self._ranked(self.words.scores(text) - TALK_WEIGHT * self.words.talk(text))

    def by_meaning(self, text: str, queries: Vectors) -> Scored:
        """Return how well a text fits each capability by vectors and words; by words where there are no vectors.

        `queries` are (n_texts, n_dimensions), of all of it first, then of its parts.
        """
        if self.vectors is None:
            return self.by_words(text)
        by_words = WORDS_WEIGHT * self.words.scores(text) - TALK_WEIGHT * self.words.talk(text)
        return self._ranked(self.vectors.scores(queries) + by_words)

    def _ranked(self, scores: Scores) -> Scored:
        named = zip(self.names, scores.astype(float).round(N_DECIMALS).tolist(), strict=True)
        return tuple(sorted(named, key=lambda item: (-item[1], item[0])))


_N_TRIGGERS_IN_VIEWS = 12_000
"""What all views may have together: each takes some 2.5 KB with a vector of 384 dimensions."""
_OVERHEAD = 150
"""What a view takes beside, in triggers: some 300 KB of words that talk and other requests have."""


class TriggerIndex:
    """Triggers by capability, and what of them callers may use.

    What is common among triggers is a matter of those that a caller may use: a capability that they may not would
    otherwise move the scores of those that they may.

    Args:
        triggers: by capability, each with one at least.
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
        """Return what an index of the usable capabilities alone would have; processor work the first time."""
        triggers = {name: texts for name, texts in self.triggers.items() if name in usable}
        sizes = list(map(len, triggers.values()))
        vectors = None
        if sizes and self._examples is not None:
            of_triggers = np.stack([self._vectors[text] for texts in triggers.values() for text in texts])
            vectors = TriggerVectors.of(of_triggers, sizes, self._examples)
        return TriggerView(tuple(triggers), sum(sizes), TriggerWords.of(triggers), vectors)
