"""The triggers that one caller may use, and how well what he says fits each capability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.blas import single_blas_thread
from agent_utilities.ranking.fields import count_terms

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores, Vectors

N_NEAREST = 3
_N_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class TriggerView:
    """The triggers of the capabilities that may be used.

    Args:
        names: of the capabilities, ascending.
        starts: (n_capabilities,) where the triggers of each begin.
        terms: of each trigger, its terms.
        vectors: (n_triggers, n_dimensions), capability after capability; None for none.
        unanswerable: (n, n_dimensions) of requests that call for nothing; None without `vectors`.
    """

    names: tuple[str, ...]
    starts: Places
    terms: tuple[frozenset[str], ...]
    vectors: Vectors | None = None
    unanswerable: Vectors | None = None

    @classmethod
    def of(
        cls, triggers: Mapping[str, Sequence[str]], vectors: Vectors | None = None, unanswerable: Vectors | None = None
    ) -> TriggerView:
        """Return it for some capabilities, in order of their names."""
        import numpy as np

        n_triggers = [len(texts) for texts in triggers.values()]
        terms = tuple(frozenset(count_terms(text)) for texts in triggers.values() for text in texts)
        starts = np.concatenate([[0], np.cumsum(n_triggers)[:-1]]).astype(np.intp) if n_triggers else np.zeros(0, int)
        return cls(tuple(triggers), starts, terms, vectors, unanswerable)

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return 0 if self.vectors is None else self.vectors.nbytes

    def evidence(self, text: str) -> float:
        """Return how many of a text's terms the trigger has that shares most with it: quick, to choose parts by."""
        terms = frozenset(count_terms(text))
        return float(max((len(terms & trigger) for trigger in self.terms), default=0))

    def by_words(self, text: str) -> tuple[tuple[str, float], ...]:
        """Return how well a text fits each capability by its words: best first, equal ones by name."""
        import numpy as np

        terms = frozenset(count_terms(text))
        n = max(1, len(terms))
        return self._ranked(np.array([len(terms & trigger) / n for trigger in self.terms], dtype=np.float32))

    def by_meaning(self, text: str, vectors: Vectors) -> tuple[tuple[str, float], ...]:
        """Return how well a text fits each capability: best first, equal ones by name.

        Args:
            text: what the user says.
            vectors: (n_texts, n_dimensions) of all of it first, then of its parts.
        """
        assert self.vectors is not None
        with single_blas_thread():
            cosines = self.vectors @ vectors[0]
        return self._ranked(cosines)

    def _ranked(self, by_trigger: Scores) -> tuple[tuple[str, float], ...]:
        import numpy as np

        ends = np.append(self.starts[1:], len(by_trigger))
        scores = [
            float(np.sort(by_trigger[start:end])[-N_NEAREST:].mean())
            for start, end in zip(self.starts, ends, strict=True)
        ]
        named = zip(self.names, (round(score, _N_DECIMALS) for score in scores), strict=True)
        return tuple(sorted(named, key=lambda item: (-item[1], item[0])))
