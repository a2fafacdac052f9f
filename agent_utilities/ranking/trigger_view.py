"""The triggers that one caller may use, and how well what he says fits each capability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.general_talk import GeneralTalk
from agent_utilities.ranking.scoring import N_DECIMALS
from agent_utilities.ranking.trigger_vectors import TriggerVectors
from agent_utilities.ranking.trigger_words import TriggerWords

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Scores, Vectors

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
        words: of their triggers.
        talk: how messages are put that call for nothing.
        vectors: of their triggers; None where words alone are compared.
    """

    names: tuple[str, ...]
    words: TriggerWords
    talk: GeneralTalk
    vectors: TriggerVectors | None = None

    @classmethod
    def of(
        cls, triggers: Mapping[str, Sequence[str]], vectors: Vectors | None = None, examples: Vectors | None = None
    ) -> TriggerView:
        """Return it; processor work.

        Args:
            triggers: by capability, ascending by name, each with one at least.
            vectors: (n_triggers, n_dimensions), capability after capability; None for none.
            examples: (n, n_dimensions) of `request_direction.EXAMPLES`; None without `vectors`.
        """
        by_meaning = None
        if vectors is not None and examples is not None and triggers:
            by_meaning = TriggerVectors.of(vectors, list(map(len, triggers.values())), examples)
        talk = GeneralTalk.of(text for texts in triggers.values() for text in texts)
        return cls(tuple(triggers), TriggerWords.of(triggers), talk, by_meaning)

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        return self.words.n_bytes + (0 if self.vectors is None else self.vectors.n_bytes)

    def evidence(self, text: str) -> float:
        """Return how well the best capability fits a text by words: quick, to choose parts of a long request by."""
        return float(self.words.scores(text).max(initial=0.0))

    def by_words(self, text: str) -> Scored:
        """Return how well a text fits each capability by its words alone."""
        return self._ranked(self.words.scores(text) - TALK_WEIGHT_BY_WORDS * self.talk.score(text))

    def by_meaning(self, text: str, queries: Vectors) -> Scored:
        """Return how well a text fits each capability by vectors and words; by words where there are no vectors.

        Args:
            text: what is said.
            queries: (n_texts, n_dimensions) of all of it first, then of its parts.

        Raises:
            RankerError: the queries are of another model.
        """
        if self.vectors is None:
            return self.by_words(text)
        by_words = WORDS_WEIGHT * self.words.scores(text) - TALK_WEIGHT * self.talk.score(text)
        return self._ranked(self.vectors.scores(queries) + by_words)

    def _ranked(self, scores: Scores) -> Scored:
        named = zip(self.names, scores.astype(float).round(N_DECIMALS).tolist(), strict=True)
        return tuple(sorted(named, key=lambda item: (-item[1], item[0])))
