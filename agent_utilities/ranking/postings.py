"""BM25 over weighted fields: each term's weight in each tool, worked out once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.text import content_words, stem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.5
B = 0.5
SURFACE_WEIGHT = 0.3
FIELD_WEIGHTS: Mapping[str, float] = {
    "name": 4,
    "title": 2,
    "description": 1,
    "hints": 1,
    "parameters": 1,
    "parameter_descriptions": 0.5,
    "tags": 1,
    "server": 1,
    "triggers": 0.4,
}
_WEIGHTS = tuple(FIELD_WEIGHTS.values())

TermCounts = tuple[tuple[str, ...], bytes, bytes]
"""The terms of a tool, field after field; how often it has each, as float64; how many each field has, as int64.

Bytes, so that the garbage collector has next to nothing to walk: a collection over an object for each term of a large
catalog stops every thread for longer than a request takes.
"""


def count_terms(document: ToolDocument) -> TermCounts:
    """Return the terms of each field, in the order of `FIELD_WEIGHTS`: words as they stand, and their stems."""
    texts = document.fields()
    terms: list[str] = []
    counts, sizes = array("d"), array("q")
    for name in FIELD_WEIGHTS:
        counted = _counted(texts[name])
        terms.extend(counted)
        counts.extend(counted.values())
        sizes.append(len(counted))
    return tuple(terms), counts.tobytes(), sizes.tobytes()


def _counted(text: str) -> dict[str, float]:
    counts: dict[str, float] = {}
    for word in content_words(text) if text else ():
        stemmed = stem(word)
        counts[word] = counts.get(word, 0) + SURFACE_WEIGHT
        counts[stemmed] = counts.get(stemmed, 0) + 1
    return counts


@dataclass(frozen=True, eq=False)
class Postings:
    """For each term, the tools that have it and its weight in each.

    Args:
        rows: the place of each term in `starts` and `idf`.
        starts: (n_terms + 1,) where a term's tools begin.
        places: (n_postings,) tools in catalog order, term after term.
        weights: (n_postings,) aligned with `places`.
        idf: (n_terms,) how telling a term is.
        max_idf: that of a term that no tool has.
    """

    rows: Mapping[str, int]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: NDArray[np.float32]
    idf: NDArray[np.float32]
    max_idf: float

    def of(self, row: int) -> slice:
        """Return where a term's tools stand."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))


def make_postings(counted: Sequence[TermCounts]) -> Postings:
    """Return the postings of a catalog.

    Args:
        counted: the terms of each tool, in catalog order, by `count_terms`.
    """
    import numpy as np

    n_tools, n_fields = len(counted), len(_WEIGHTS)
    rows: dict[str, int] = {}
    terms = array("q")
    for names, _, _ in counted:
        for name in names:
            terms.append(rows.setdefault(name, len(rows)))
    amounts = np.array(np.frombuffer(b"".join(counts for _, counts, _ in counted), dtype=np.float64))
    sizes = np.frombuffer(b"".join(each for _, _, each in counted), dtype=np.int64)
    cells = np.repeat(np.arange(n_tools * n_fields), sizes)
    lengths = np.bincount(cells, weights=amounts, minlength=n_tools * n_fields).reshape(n_tools, n_fields)
    present = np.maximum((lengths > 0).sum(axis=0), 1)
    means = np.maximum(lengths.sum(axis=0) / present, 1e-9)
    scale = np.array(_WEIGHTS) / (1 - B + B * lengths / means)
    amounts *= scale.ravel()[cells]

    keys = np.frombuffer(terms, dtype=np.int64) * max(1, n_tools) + cells // n_fields
    unique, inverse = np.unique(keys, return_inverse=True)
    frequency = np.bincount(inverse, weights=amounts, minlength=len(unique))
    term_of, place_of = np.divmod(unique, max(1, n_tools))
    n_having = np.bincount(term_of, minlength=len(rows))
    idf = np.log1p((n_tools - n_having + 0.5) / (n_having + 0.5))
    weights = idf[term_of] * frequency * (K1 + 1) / (frequency + K1)
    return Postings(
        rows=rows,
        starts=np.concatenate([[0], np.cumsum(n_having)]).astype(np.int64),
        places=place_of.astype(np.int32),
        weights=weights.astype(np.float32),
        idf=idf.astype(np.float32),
        max_idf=float(np.log1p((n_tools + 0.5) / 0.5)),
    )
