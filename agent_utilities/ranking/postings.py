"""BM25 over weighted fields: each term's weight in each tool, worked out once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.fields import FIELD_WEIGHTS
from agent_utilities.ranking.term_counts import TermCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places

K1 = 1.5
B = 0.5
_WEIGHTS = tuple(FIELD_WEIGHTS.values())


@dataclass(frozen=True, eq=False)
class Postings:
    """For each term, the tools that have it and its weight in each.

    Args:
        term_numbers: the row of each term in `starts` and `idf`; it may know terms that these don't.
        starts: (n_terms + 1,) where a term's tools begin.
        places: (n_postings,) tools in catalog order, term after term.
        weights: (n_postings,) aligned with `places`.
        idf: (n_terms,) how rare a term is.
        max_idf: that of a term that no tool has, by which scores of catalogs of any size compare.
    """

    term_numbers: Mapping[str, int]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: NDArray[np.float32]
    idf: NDArray[np.float32]
    max_idf: float

    @classmethod
    def of(cls, counts: TermCounts) -> Postings:
        """Return those of a catalog."""
        import numpy as np

        n_tools, n_terms = len(counts.lengths), counts.n_terms
        present = np.maximum((counts.lengths > 0).sum(axis=0), 1)
        means = np.maximum(counts.lengths.sum(axis=0) / present, 1e-9)
        scale = np.array(_WEIGHTS) / (1 - B + B * counts.lengths / means)
        amounts = counts.amounts * scale[counts.places, counts.fields]

        is_first = np.ones(len(amounts), dtype=bool)
        is_first[1:] = counts.terms[1:] != counts.terms[:-1]
        is_first[1:] |= counts.places[1:] != counts.places[:-1]
        firsts = np.flatnonzero(is_first)
        frequency = np.add.reduceat(amounts, firsts) if len(firsts) else amounts
        term_of = counts.terms[firsts]
        n_having = np.bincount(term_of, minlength=n_terms)
        idf = np.log1p((n_tools - n_having + 0.5) / (n_having + 0.5))
        weights = idf[term_of] * frequency * (K1 + 1) / (frequency + K1)
        return cls(
            term_numbers=counts.term_numbers,
            starts=np.concatenate([[0], np.cumsum(n_having)]).astype(np.int64),
            places=counts.places[firsts],
            weights=weights.astype(np.float32),
            idf=idf.astype(np.float32),
            max_idf=float(np.log1p((n_tools + 0.5) / 0.5)),
        )

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self.starts.nbytes + self.places.nbytes + self.weights.nbytes + self.idf.nbytes

    def row(self, term: str) -> int | None:
        """Return the row of a term, or None where no tool has it."""
        row = self.term_numbers.get(term)
        if row is None or row >= len(self.idf) or self.starts[row] == self.starts[row + 1]:
            return None
        return row

    def slice_of(self, row: int) -> slice:
        """Return which of the postings are a term's."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def rows_of(self, places: Places) -> tuple[Places, Places]:
        """Return the terms that some tools have: the position of a tool in `places`, and the row of a term of it.

        Args:
            places: (n,) of the tools.

        Returns:
            Two arrays of the same length, ordered by the tools.
        """
        import numpy as np

        positions = np.full(int(self.places.max(initial=-1)) + 1, -1, dtype=np.intp)
        present = places[places < len(positions)]
        positions[present] = np.arange(len(present))
        entries = np.flatnonzero(positions[self.places] >= 0)
        tools = positions[self.places[entries]]
        rows = np.searchsorted(self.starts, entries, side="right") - 1
        order = np.argsort(tools, kind="stable")
        return tools[order], rows[order]
