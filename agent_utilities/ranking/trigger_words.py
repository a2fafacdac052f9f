"""How well a text fits capabilities by the words of their triggers, and how much it is put as talk that calls for none.

`is postgres better than mysql in your opinion` is as near to a database's triggers as a request to query it; only how
it is put tells them apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log

from agent_utilities.ranking.arrays import NDArray, Scores, np
from agent_utilities.ranking.examples import PATTERNS, REQUESTS, TALK, UNANSWERABLE
from agent_utilities.ranking.terms import SURFACE_WEIGHT
from agent_utilities.ranking.text import is_content_word, stem, words

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
_TERM_BYTES = 200


@dataclass(frozen=True, eq=False)
class TriggerWords:
    """What each word is worth to each of some capabilities.

    Args:
        n_capabilities: how many those are.
        idf: how rare each known term is among them.
        max_idf: of a term that none has.
        slices: of each term that a capability has, where in `owners` and `weights` it stands.
        owners, weights: (n_entries,) the capabilities that have it, and what it is worth to each, 0 to about 1.
        vocabulary: their words of four letters and more, ascending.
    """

    n_capabilities: int
    idf: Mapping[str, float]
    max_idf: float
    slices: Mapping[str, tuple[int, int]]
    owners: NDArray[np.int32]
    weights: NDArray[np.float32]
    vocabulary: Sequence[str]

    @classmethod
    def of(cls, triggers: Mapping[str, Sequence[str]]) -> TriggerWords:
        """Return them for capabilities in order of the mapping; processor work."""
        entries: dict[str, list[tuple[int, float]]] = {}
        for owner, (name, texts) in enumerate(triggers.items()):
            for term, weight in _weights(name, texts).items():
                entries.setdefault(term, []).append((owner, weight))
        n = len(triggers) + BACKGROUND_WEIGHT * len(UNANSWERABLE)
        n_having = dict(_background())
        for term, having in entries.items():
            n_having[term] = n_having.get(term, 0.0) + len(having)
        slices, end = {}, 0
        for term, having in entries.items():
            slices[term] = end, end + len(having)
            end += len(having)
        flat = [entry for having in entries.values() for entry in having]
        return cls(
            n_capabilities=len(triggers),
            idf={term: _idf(n, n_term) for term, n_term in n_having.items()},
            max_idf=_idf(n, 0),
            slices=slices,
            owners=np.array([owner for owner, _ in flat], dtype=np.int32),
            weights=np.array([weight for _, weight in flat], dtype=np.float32),
            vocabulary=sorted(term for term in entries if not term.startswith("~") and len(term) >= _N_LETTERS),
        )

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        return self.owners.nbytes + self.weights.nbytes + _TERM_BYTES * (len(self.slices) + len(self.idf))

    def scores(self, text: str) -> Scores:
        """Return how well a text fits each capability by its words: (n_capabilities,), 0 for none shared.

        The sum of what shared words are worth, the rarer the more, over a power of what all words of the text are.
        """
        counts = self._with_beginnings(_counts(text[:_N_CHARACTERS]))
        rarities = {term: min(count, _MAX_COUNT) * self.idf.get(term, self.max_idf) for term, count in counts.items()}
        known = [(rarity, slice(*self.slices[term])) for term, rarity in rarities.items() if term in self.slices]
        if not known:
            return np.zeros(self.n_capabilities, dtype=np.float32)
        owners = np.concatenate([self.owners[entries] for _, entries in known])
        weights = np.concatenate([rarity * self.weights[entries] for rarity, entries in known])
        scores = np.bincount(owners, weights=weights, minlength=self.n_capabilities).astype(np.float32)
        total = sum(rarities.values()) / self.max_idf
        by_words: Scores = scores / (self.max_idf * total**COVERAGE_POWER)
        return by_words

    def _with_beginnings(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Return terms, and those of words that begin as one does which no trigger has."""
        extended = dict(counts)
        for word in counts:
            if word.startswith("~") or word in self.slices or stem(word) in self.slices:
                continue
            begun = list(self._beginning_alike(word))
            for known in begun:
                term = stem(known)
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
            if word[:end] in self.slices:
                yield word[:end]


@cache
def _background() -> Mapping[str, float]:
    """Return how common each term is among requests that call for nothing, counted as they count."""
    n_having: dict[str, float] = {}
    for text in UNANSWERABLE:
        for term in _counts(text):
            n_having[term] = n_having.get(term, 0.0) + BACKGROUND_WEIGHT
    return n_having


def _counts(text: str) -> dict[str, float]:
    """Return how often a text has each stem, and each content word as it stands."""
    counts: dict[str, float] = {}
    for word in words(text):
        is_content = is_content_word(word)
        stemmed = stem(word)
        counts[stemmed] = counts.get(stemmed, 0.0) + (1 if is_content else STOPWORD_WEIGHT)
        if is_content:
            counts[word] = counts.get(word, 0.0) + SURFACE_WEIGHT
    return counts


def _weights(name: str, texts: Sequence[str]) -> dict[str, float]:
    """Return what each term of a capability is worth to it: the more of its triggers have it, rising fast at first."""
    n_having: dict[str, int] = {}
    for text in texts:
        for term in _counts(text):
            n_having[term] = n_having.get(term, 0) + 1
    shares = {term: n / len(texts) for term, n in n_having.items()}
    weights = {term: share * (1 + _HALF_SHARE) / (share + _HALF_SHARE) for term, share in shares.items()}
    for term in _counts(name):
        weights[term] = weights.get(term, 0.0) + NAME_WEIGHT
    return weights


def _idf(n: float, n_having: float) -> float:
    """Return how rare a term is. Source: Robertson and Spärck Jones, as BM25 has it."""
    return log(1 + (n - n_having + 0.5) / (n_having + 0.5))


@dataclass(frozen=True, eq=False)
class GeneralTalk:
    """The words of general talk, and how rare each is among requests.

    Args:
        n_patterns: how many such messages there are.
        idf: of each term that triggers or requests have, 0 to 1; any other has 1.
        owners: of each term, the messages that have it.
    """

    n_patterns: int
    idf: Mapping[str, float]
    owners: Mapping[str, NDArray[np.intp]]

    @classmethod
    def of(cls, triggers: Iterable[str]) -> GeneralTalk:
        """Return it beside triggers: how they and requests are put tells nothing."""
        n_having: dict[str, int] = {}
        n_triggers = 0
        for trigger in (*triggers, *REQUESTS):
            n_triggers += 1
            for term in _pair_counts(trigger):
                n_having[term] = n_having.get(term, 0) + 1
        most = log(1 + (n_triggers + 0.5) / 0.5)
        return cls(
            n_patterns=len(_ALL_TALK),
            idf={term: log(1 + (n_triggers - n + 0.5) / (n + 0.5)) / most for term, n in n_having.items()},
            owners=_owners_by_term(),
        )

    def score(self, text: str) -> float:
        """Return how much a text shares with the most alike of such messages; 0 for nothing."""
        rarities = {term: n * self.idf.get(term, 1.0) for term, n in _pair_counts(text[:_N_CHARACTERS]).items()}
        shared = np.zeros(self.n_patterns)
        for term, rarity in rarities.items():
            if (having := self.owners.get(term)) is not None:
                shared[having] += rarity
        total = sum(rarities.values())
        return float(shared.max()) / total**TALK_COVERAGE_POWER if total > 0 else 0.0


@cache
def _owners_by_term() -> Mapping[str, NDArray[np.intp]]:
    owners: dict[str, list[int]] = {}
    for owner, pattern in enumerate(_ALL_TALK):
        for term in _pair_counts(pattern):
            owners.setdefault(term, []).append(owner)
    return {term: np.array(having, dtype=np.intp) for term, having in owners.items()}


def _pair_counts(text: str) -> dict[str, float]:
    """Return how often a text has each stem, and each two beside each other."""
    counts: dict[str, float] = {}
    stems = []
    for word in words(text):
        stemmed = stem(word)
        stems.append(stemmed)
        counts[stemmed] = counts.get(stemmed, 0.0) + (1 if is_content_word(word) else STOPWORD_WEIGHT)
    for first, second in pairwise(stems):
        pair = f"{first} {second}"
        counts[pair] = counts.get(pair, 0.0) + PAIR_WEIGHT
    return counts
