"""How well a text fits capabilities by the words of their triggers, and how much it is put as talk that calls for none.

`is postgres better than mysql in your opinion` is as near to a database's triggers as a request to query it; only how
it is put tells them apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log

from agent_utilities.ranking.arrays import Scores, np
from agent_utilities.ranking.examples import PATTERNS, REQUESTS, TALK, UNANSWERABLE
from agent_utilities.ranking.terms import SURFACE_WEIGHT, TermWeights, is_content_word, stem, words

STOPWORD_WEIGHT = 0.25
"""Of a word that says nothing by itself, beside 1: `what did I tell you` calls for a memory."""
NAME_WEIGHT = 0.2
"""Of a word of the capability's name, beside 1 where all of its triggers have it."""
BEGINNING_WEIGHT = 0.7
"""Of words that begin as one does that no trigger has: `insta` as `instagram`."""
COVERAGE_POWER = 0.4
"""How much longer texts must share more: 0 for not at all, 1 for the same share of their words."""
BACKGROUND_WEIGHT = 0.25
"""Of a request that calls for nothing, beside a capability, in how common a word is: few capabilities tell little."""
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
        n = len(triggers) + BACKGROUND_WEIGHT * len(UNANSWERABLE)
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
    return {term: BACKGROUND_WEIGHT * n for term, n in n_having.items()}


def _counts(text: str, *, in_pairs: bool = False) -> dict[str, float]:
    """Return how often a text has each stem, and each content word as it stands; or else each two stems together."""
    counts: dict[str, float] = defaultdict(float)
    stems = []
    for word in words(text):
        is_content = is_content_word(word)
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
