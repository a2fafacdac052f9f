"""The words of tools and requests: the terms of each field, how rare they are, and what each weighs in each tool.

BM25 over weighted fields: each term's weight in each tool is worked out once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.arrays import NDArray, Places, Scores, np
from agent_utilities.ranking.text import content_words, humped, humped_words, is_content_word, stem, words

SURFACE_WEIGHT = 0.3
"""Of a word as it stands, beside 1 for its stem."""
FIELD_WEIGHTS: Mapping[str, float] = {
    "name": 4,
    "title": 2,
    "description": 1,
    "hints": 1,
    "parameters": 1,
    "parameter_descriptions": 0.5,
    "tags": 1,
    "server": 1,
    "server_text": 0.15,
}


def count_terms(text: str) -> dict[str, float]:
    """Return how often a text has each term: words as they stand, their stems, and humped words as one."""
    counts: dict[str, float] = {}
    for word in content_words(text) if text else ():
        stemmed = stem(word)
        counts[word] = counts.get(word, 0) + SURFACE_WEIGHT
        counts[stemmed] = counts.get(stemmed, 0) + 1
    for term in humped_words(text):
        counts[term] = counts.get(term, 0) + SURFACE_WEIGHT
    return counts


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
    """Return how often a tool has each term; new terms are added to the numbers of those known so far."""
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
        """Return those of a catalog."""
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
        """Return those of the tools at some places, ascending, whose places are then those among them."""
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
        """Return the terms that some tools have, ordered by the tools: the position of one in `places`, and a row."""
        positions = np.full(int(self.places.max(initial=-1)) + 1, -1, dtype=np.intp)
        present = places[places < len(positions)]
        positions[present] = np.arange(len(present))
        entries = np.flatnonzero(positions[self.places] >= 0)
        tools = positions[self.places[entries]]
        rows = np.searchsorted(self.starts, entries, side="right") - 1
        order = np.argsort(tools, kind="stable")
        return tools[order], rows[order]


_TERM_BYTES = 200


@dataclass(frozen=True, eq=False)
class TermWeights:
    """What each term is worth to each of some owners, such as tools or capabilities.

    Args:
        n_owners: how many those are.
        slices: of each term that an owner has, where in `owners` and `weights` it stands.
        owners, weights: (n_entries,) who has it, and what it is worth to each.
    """

    n_owners: int
    slices: Mapping[str, tuple[int, int]]
    owners: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, by_owner: Sequence[Mapping[str, float]]) -> TermWeights:
        """Return those of owners, each of which has weights by term."""
        entries: dict[str, list[tuple[int, float]]] = {}
        for owner, weights in enumerate(by_owner):
            for term, weight in weights.items():
                entries.setdefault(term, []).append((owner, weight))
        slices, end = {}, 0
        for term, having in entries.items():
            slices[term] = end, end + len(having)
            end += len(having)
        flat = [entry for having in entries.values() for entry in having]
        owners = np.array([owner for owner, _ in flat], dtype=np.int32)
        return cls(len(by_owner), slices, owners, np.array([weight for _, weight in flat], dtype=np.float32))

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        return self.owners.nbytes + self.weights.nbytes + _TERM_BYTES * len(self.slices)

    def scores(self, rarities: Mapping[str, float]) -> Scores:
        """Return the sum of some terms' weights for each owner, each times how rare the term is: (n_owners,)."""
        known = [(rarity, slice(*self.slices[term])) for term, rarity in rarities.items() if term in self.slices]
        if not known:
            return np.zeros(self.n_owners, dtype=np.float32)
        owners = np.concatenate([self.owners[entries] for _, entries in known])
        weights = np.concatenate([rarity * self.weights[entries] for rarity, entries in known])
        return np.bincount(owners, weights=weights, minlength=self.n_owners).astype(np.float32)


_N_QUERY_WORDS = 256
_N_QUERY_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """A request's terms.

    Args:
        rows: the rows in the postings of those that some tool has.
        idf: how rare each of all terms is: of `rows` first, then of those that no tool has.
        words: (row of the stem, the word as it stands in the request), in the request's order.
    """

    rows: tuple[int, ...]
    idf: tuple[float, ...]
    words: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, query: str, postings: Postings) -> RequestTerms:
        """Return those of a request: of its first 256 words, or 8,000 characters."""
        query_words = words(query[:_N_QUERY_CHARACTERS])[:_N_QUERY_WORDS]
        idf_by_row: dict[int, float] = {}
        word_by_row: dict[int, str] = {}
        unknown: set[str] = set()
        for word in filter(is_content_word, query_words):
            for term in _terms_of(word, postings):
                row = postings.row(term)
                if row is None:
                    unknown.add(term)
                else:
                    idf_by_row[row] = float(postings.idf[row])
                    if term != word:
                        word_by_row.setdefault(row, word)
        for pair in map("".join, pairwise(query_words)):
            for term in (pair, stem(pair)):
                if (row := postings.row(term)) is not None:
                    idf_by_row.setdefault(row, float(postings.idf[row]))
                    word_by_row.setdefault(row, pair)
        idf = (*idf_by_row.values(), *(postings.max_idf for _ in unknown))
        return cls(tuple(idf_by_row), idf, tuple(word_by_row.items()))

    @property
    def known_share(self) -> float:
        """The share of the terms, weighed by how rare they are, that some tool has; 0 of no terms."""
        return sum(self.idf[: len(self.rows)]) / (sum(self.idf) or 1.0)


def _terms_of(word: str, postings: Postings) -> tuple[str, ...]:
    """Return a word and its stem, or where no tool has either, the humped word that some tool has in its place."""
    terms = (word, stem(word))
    is_unknown = all(postings.row(term) is None for term in terms)
    return (humped(word),) if is_unknown and postings.row(humped(word)) is not None else terms
