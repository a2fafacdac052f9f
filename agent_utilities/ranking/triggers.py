"""The sentences that call for capabilities, and how well what a user says fits each capability that they may use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from cachetools import LRUCache, cachedmethod

from agent_utilities.ranking.arrays import Places, Scores, Vectors, np, single_blas_thread
from agent_utilities.ranking.base import N_DECIMALS
from agent_utilities.ranking.examples import EXAMPLES, N_TALK, N_UNANSWERABLE
from agent_utilities.ranking.trigger_words import TriggerWords

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
N_NEAREST_UNANSWERABLE = 16
BACKGROUND_WEIGHT = 0.5
"""Of how near what is said is to requests that call for nothing."""
REQUEST_WEIGHT = 0.3
"""Of how much it is put as requests are, not as talk is. 0.4 is as good, 0.2 loses five points of hits."""


@dataclass(frozen=True, eq=False)
class TriggerVectors:
    """The triggers of some capabilities, and requests that call for nothing.

    Args:
        vectors: (n_triggers + n_unanswerable, n_dimensions), of unit length, capability after capability.
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
        with_unanswerable = np.concatenate([vectors, examples[:N_UNANSWERABLE]])
        return cls(with_unanswerable, np.array(sizes, dtype=np.intp), *request_direction(examples, vectors))

    def scores(self, queries: Vectors) -> Scores:
        """Return how near what is said is to each capability, and how much it calls for any at all: (n_capabilities,).

        Of several sentences the best counts as much as the whole, where that is more.

        Args:
            queries: (n_texts, n_dimensions) of the whole first, then of its parts.
        """
        with single_blas_thread():
            cosines = queries @ self.vectors.T
        *starts, n_triggers = np.cumsum([0, *self.sizes.tolist()])
        # The soft maximum of each capability's cosines lies between their mean and the nearest one: as it is of a mean,
        # many triggers are no advantage over few.
        sums = np.add.reduceat(np.exp(cosines[:, :n_triggers] / SOFTNESS), starts, axis=1)
        by_text = SOFTNESS * (np.log(sums) - np.log(self.sizes).astype(np.float32))
        whole, parts = by_text[0], by_text[1:]
        scores: Scores = np.maximum(whole, (whole + parts.max(axis=0)) / 2) if len(parts) else whole
        unanswerable = np.sort(cosines[0, n_triggers:])[-N_NEAREST_UNANSWERABLE:].mean()
        put_as_request = float(queries[0] @ self.direction) + self.offset
        scores += np.float32(REQUEST_WEIGHT * put_as_request - BACKGROUND_WEIGHT * float(unanswerable))
        return scores


WORDS_WEIGHT = 0.3
"""Of the score by words, beside that by vectors."""
TALK_WEIGHT = 0.2
"""Of how much a message is put as general talk is, where vectors are compared."""
TALK_WEIGHT_BY_WORDS = 0.25
"""The same where words alone are."""

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
        return self._ranked(self.words.scores(text) - TALK_WEIGHT_BY_WORDS * self.words.talk(text))

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
