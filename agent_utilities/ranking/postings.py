"""BM25 over weighted fields: each term's weight in each tool, worked out once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.entries import Entries
from agent_utilities.ranking.fields import FIELD_WEIGHTS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.5
B = 0.5
_WEIGHTS = tuple(FIELD_WEIGHTS.values())


@dataclass(frozen=True, eq=False)
class Postings:
    """For each term, the tools that have it and its weight in each.

    Args:
        numbers: the place of each term in `starts` and `idf`; it may know terms that these don't.
        starts: (n_terms + 1,) where a term's tools begin.
        places: (n_postings,) tools in catalog order, term after term.
        weights: (n_postings,) aligned with `places`.
        idf: (n_terms,) how telling a term is.
        max_idf: that of a term that no tool has.
    """

    numbers: Mapping[str, int]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: NDArray[np.float32]
    idf: NDArray[np.float32]
    max_idf: float

    @classmethod
    def of(cls, entries: Entries) -> Postings:
        """Return those of a catalog."""
        import numpy as np

        n_tools, n_terms = len(entries.lengths), entries.n_terms
        present = np.maximum((entries.lengths > 0).sum(axis=0), 1)
        means = np.maximum(entries.lengths.sum(axis=0) / present, 1e-9)
        scale = np.array(_WEIGHTS) / (1 - B + B * entries.lengths / means)
        amounts = entries.amounts * scale[entries.places, entries.fields]

        changes = np.ones(len(amounts), dtype=bool)
        changes[1:] = entries.terms[1:] != entries.terms[:-1]
        changes[1:] |= entries.places[1:] != entries.places[:-1]
        firsts = np.flatnonzero(changes)
        frequency = np.add.reduceat(amounts, firsts) if len(firsts) else amounts
        term_of = entries.terms[firsts]
        n_having = np.bincount(term_of, minlength=n_terms)
        idf = np.log1p((n_tools - n_having + 0.5) / (n_having + 0.5))
        weights = idf[term_of] * frequency * (K1 + 1) / (frequency + K1)
        return cls(
            numbers=entries.numbers,
            starts=np.concatenate([[0], np.cumsum(n_having)]).astype(np.int64),
            places=entries.places[firsts],
            weights=weights.astype(np.float32),
            idf=idf.astype(np.float32),
            max_idf=float(np.log1p((n_tools + 0.5) / 0.5)),
        )

    def row(self, term: str) -> int | None:
        """Return the place of a term, or None where no tool has it."""
        row = self.numbers.get(term)
        if row is None or row >= len(self.idf) or self.starts[row] == self.starts[row + 1]:
            return None
        return row

    def tools(self, row: int) -> slice:
        """Return where a term's tools stand."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))
