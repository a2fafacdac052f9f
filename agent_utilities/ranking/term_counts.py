"""How often each tool of a catalog has each term, as arrays that tools can be taken out of without reading again."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.fields import FIELD_WEIGHTS, count_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places

_N_FIELDS = len(FIELD_WEIGHTS)


class DocumentTerms(NamedTuple):
    """The terms of one tool, field after field in the order of `FIELD_WEIGHTS`.

    They are bytes, so that the garbage collector has next to nothing to walk: a collection over an object for each
    term of a large catalog stops every thread for longer than a request takes.

    Args:
        terms: their numbers, int32.
        amounts: how often the field has each, float32, aligned with `terms`.
        n_by_field: how many of `terms` each field has, int32.
    """

    terms: bytes
    amounts: bytes
    n_by_field: bytes


def read_document(document: ToolDocument, term_numbers: dict[str, int]) -> DocumentTerms:
    """Return how often a tool has each term.

    Args:
        document: the tool.
        term_numbers: of the terms known so far; new ones are added.
    """
    texts = document.fields()
    terms, amounts, n_by_field = array("i"), array("f"), array("i")
    for name in FIELD_WEIGHTS:
        counts = count_terms(texts[name])
        for term, amount in counts.items():
            terms.append(term_numbers.setdefault(term, len(term_numbers)))
            amounts.append(amount)
        n_by_field.append(len(counts))
    return DocumentTerms(terms.tobytes(), amounts.tobytes(), n_by_field.tobytes())


@dataclass(frozen=True, eq=False)
class TermCounts:
    """How often each tool has each term in each field: an entry for each of the three, ordered by them.

    Args:
        term_numbers: the number of each term; it may know later terms than there are here.
        n_terms: how many of the numbers may occur here.
        terms: (n_entries,)
        places: (n_entries,) of the tools.
        fields: (n_entries,)
        amounts: (n_entries,)
        lengths: (n_tools, n_fields) the sum of the amounts.
    """

    term_numbers: Mapping[str, int]
    n_terms: int
    terms: NDArray[np.int32]
    places: NDArray[np.int32]
    fields: NDArray[np.int8]
    amounts: NDArray[np.float32]
    lengths: NDArray[np.float64]

    @classmethod
    def of(cls, documents: Sequence[DocumentTerms], term_numbers: Mapping[str, int]) -> TermCounts:
        """Return those of a catalog.

        Args:
            documents: the terms of each tool, in catalog order.
            term_numbers: the number of each term.
        """
        import numpy as np

        n_cells = len(documents) * _N_FIELDS
        terms = np.frombuffer(b"".join(document.terms for document in documents), dtype=np.int32)
        amounts = np.frombuffer(b"".join(document.amounts for document in documents), dtype=np.float32)
        n_by_cell = np.frombuffer(b"".join(document.n_by_field for document in documents), dtype=np.int32)
        cells = np.repeat(np.arange(n_cells), n_by_cell)
        lengths = np.bincount(cells, weights=amounts, minlength=n_cells).astype(np.float64)
        order = np.argsort(terms * np.int64(max(1, n_cells)) + cells)
        places, fields = np.divmod(cells[order], _N_FIELDS)
        return cls(
            term_numbers=term_numbers,
            n_terms=len(term_numbers),
            terms=terms[order],
            places=places.astype(np.int32),
            fields=fields.astype(np.int8),
            amounts=amounts[order],
            lengths=lengths.reshape(len(documents), _N_FIELDS),
        )

    def within(self, places: Places) -> TermCounts:
        """Return those of some of the tools, whose places are then those among them.

        Args:
            places: where they stand, ascending.
        """
        import numpy as np

        new_places = np.full(len(self.lengths), -1, dtype=np.int32)
        new_places[places] = np.arange(len(places))
        entry_places = new_places[self.places]
        remaining = np.flatnonzero(entry_places >= 0)
        return TermCounts(
            term_numbers=self.term_numbers,
            n_terms=self.n_terms,
            terms=self.terms[remaining],
            places=entry_places[remaining],
            fields=self.fields[remaining],
            amounts=self.amounts[remaining],
            lengths=self.lengths[places],
        )
