"""What was read of a catalog: arrays that some of its tools can be taken out of without reading again."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.fields import FIELD_WEIGHTS, count_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_N_FIELDS = len(FIELD_WEIGHTS)

Read = tuple[bytes, bytes, bytes]
"""The terms of a tool by number, field after field, as int32; how often it has each, as float32; how many each field
has, as int32.

Bytes, so that the garbage collector has next to nothing to walk: a collection over an object for each term of a large
catalog stops every thread for longer than a request takes.
"""


def read(document: ToolDocument, numbers: dict[str, int]) -> Read:
    """Return what a tool has of each term, in the order of `FIELD_WEIGHTS`.

    Args:
        document: the tool.
        numbers: of the terms known so far; new ones are added.
    """
    texts = document.fields()
    terms, amounts, sizes = array("i"), array("f"), array("i")
    for name in FIELD_WEIGHTS:
        counted = count_terms(texts[name])
        for term, amount in counted.items():
            terms.append(numbers.setdefault(term, len(numbers)))
            amounts.append(amount)
        sizes.append(len(counted))
    return terms.tobytes(), amounts.tobytes(), sizes.tobytes()


@dataclass(frozen=True, eq=False)
class Entries:
    """How often each tool has each term in each field, by term, then tool, then field.

    Args:
        numbers: of the terms; it may know later ones than there are here.
        n_terms: how many of the numbers may occur here.
        terms: (n_entries,)
        places: (n_entries,) of the tools.
        fields: (n_entries,)
        amounts: (n_entries,)
        lengths: (n_tools, n_fields) the sum of the amounts.
    """

    numbers: Mapping[str, int]
    n_terms: int
    terms: NDArray[np.int32]
    places: NDArray[np.int32]
    fields: NDArray[np.int8]
    amounts: NDArray[np.float32]
    lengths: NDArray[np.float64]

    @classmethod
    def of(cls, tools: Sequence[Read], numbers: Mapping[str, int]) -> Entries:
        """Return those of a catalog.

        Args:
            tools: what was read of each, in catalog order.
            numbers: of the terms.
        """
        import numpy as np

        n_cells = len(tools) * _N_FIELDS
        terms = np.frombuffer(b"".join(each for each, _, _ in tools), dtype=np.int32)
        amounts = np.frombuffer(b"".join(each for _, each, _ in tools), dtype=np.float32)
        sizes = np.frombuffer(b"".join(each for _, _, each in tools), dtype=np.int32)
        cells = np.repeat(np.arange(n_cells), sizes)
        lengths = np.bincount(cells, weights=amounts, minlength=n_cells).astype(np.float64)
        order = np.argsort(terms * np.int64(max(1, n_cells)) + cells)
        places, fields = np.divmod(cells[order], _N_FIELDS)
        return cls(
            numbers=numbers,
            n_terms=len(numbers),
            terms=terms[order],
            places=places.astype(np.int32),
            fields=fields.astype(np.int8),
            amounts=amounts[order],
            lengths=lengths.reshape(len(tools), _N_FIELDS),
        )

    def within(self, places: NDArray[np.intp]) -> Entries:
        """Return those of some of the tools, whose places are then those among them.

        Args:
            places: where they stand, ascending.
        """
        import numpy as np

        among = np.full(len(self.lengths), -1, dtype=np.int32)
        among[places] = np.arange(len(places))
        moved = among[self.places]
        kept = np.flatnonzero(moved >= 0)
        return Entries(
            numbers=self.numbers,
            n_terms=self.n_terms,
            terms=self.terms[kept],
            places=moved[kept],
            fields=self.fields[kept],
            amounts=self.amounts[kept],
            lengths=self.lengths[places],
        )
