"""The words of tools and requests, in any script: the terms of each field, how rare they are, and what each weighs.

BM25 over weighted fields: each term's weight in each tool is worked out once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

from agent_utilities.catalog.document import ToolDocument, split_identifier
from agent_utilities.ranking.arrays import NDArray, Scores, np

STOPWORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further get give had has have having he help her here
    hers him his how i if in into is it its itself just know let lets like ll looking make may me might more most my
    need no nor not now of off on once only or other our out over own please provide re s same she should show so some
    such t tell than that the their them then there these they this those through to too under until up us use using
    ve very want was we were what when where which while who whom why will with would you your find
    """.split()
)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[\U00020000-\U0003ffff]+")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[a-z][A-Z]")
_LETTERS = re.compile(r"(?<![^\W_])[A-Za-z]{2,}(?![^\W_])")


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in order; identifiers as their parts, unspaced scripts in pairs.

    >>> words("List EventHubs, 查看日志")
    ['list', 'event', 'hubs', '查看', '看日', '日志']
    """
    folded: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        if word.isascii() and word.islower():
            folded.append(word)
        elif word.isascii():
            parts = split_identifier(word).split()
            is_spelt_out = all(len(part) == 1 for part in parts)
            folded.extend([word.casefold()] if is_spelt_out else [part.casefold() for part in parts])
        else:
            folded.extend(_split_unspaced(word.casefold()))
    return folded


def humped_words(text: str) -> list[str]:
    """Return the words of a text that have capitals inside, each as `humped` marks it.

    >>> humped_words("List a GitHub issue of YouTube")
    ['+github', '+youtube']
    """
    if not _HUMP.search(text):
        return []
    return [humped(word.lower()) for word in _LETTERS.findall(text) if _HUMP.search(word)]


def humped(word: str) -> str:
    """Return a folded word, marked so that it is never taken for one: as what it is looked for where no tool has it.

    `GitHub` is read as the two words that `list_github` and `listGitHub` may mean by it; people write `github`.
    """
    return f"+{word}"


def _split_unspaced(word: str) -> list[str]:
    """Return runs of unspaced script as overlapping pairs, and the rest whole."""
    pieces: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        pieces.append(word[end : run.start()])
        text = run.group()
        pieces.extend(text[start : start + 2] for start in range(max(1, len(text) - 1)))
        end = run.end()
    return [piece for piece in (*pieces, word[end:]) if piece]


def is_content_word(word: str) -> bool:
    """Return whether a word says something by itself: no stopword and no single letter."""
    return word not in STOPWORDS and not (len(word) == 1 and word.isascii())


_LONGEST_WORD = 40


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    return import_module("Stemmer").Stemmer("english")


def stem(word: str) -> str:
    """Return a word's stem, marked so that it is never taken for a word.

    Source: Porter, Snowball (the English stemmer).
    """
    # A caller may send words of thousands of letters: those of a language are remembered, no others.
    return _remembered_stem(word) if len(word) <= _LONGEST_WORD else f"~{_stemmer().stemWord(word)}"


@lru_cache(maxsize=32_768)
def _remembered_stem(word: str) -> str:
    return f"~{_stemmer().stemWord(word)}"


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
    for word in filter(is_content_word, words(text)) if text else ():
        stemmed = stem(word)
        counts[word] = counts.get(word, 0) + SURFACE_WEIGHT
        counts[stemmed] = counts.get(stemmed, 0) + 1
    for term in humped_words(text):
        counts[term] = counts.get(term, 0) + SURFACE_WEIGHT
    return counts


class DocumentTerms(NamedTuple):
    """The terms of one tool: an entry for each term of each field, field after field.

    They are bytes, so that the garbage collector has next to nothing to walk: a collection over an object for each
    term of a large catalog stops every thread for longer than a request takes.

    Args:
        terms: their numbers, int32.
        fields: places in `FIELD_WEIGHTS`, int8.
        amounts: how often the field has each, float32.
    """

    terms: bytes
    fields: bytes
    amounts: bytes


def read_document(document: ToolDocument, term_numbers: dict[str, int]) -> DocumentTerms:
    """Return how often a tool has each term; new terms are added to the numbers of those of the tools before."""
    texts = document.fields()
    terms, fields, amounts = array("i"), array("b"), array("f")
    for field, name in enumerate(FIELD_WEIGHTS):
        for term, amount in count_terms(texts[name]).items():
            terms.append(term_numbers.setdefault(term, len(term_numbers)))
            fields.append(field)
            amounts.append(amount)
    return DocumentTerms(terms.tobytes(), fields.tobytes(), amounts.tobytes())


_TERM_BYTES = 100


@dataclass(frozen=True, eq=False)
class TermWeights:
    """What each term is worth to each of some owners, such as tools or capabilities.

    Args:
        rows: the row of each term in `starts`; it may know terms that no owner has.
        n_owners: how many owners there are.
        starts: (n_terms + 1,) where a term's owners begin.
        owners, weights: (n_entries,) who has a term, ascending, and what it is worth to each, term after term.
    """

    rows: Mapping[str, int]
    n_owners: int
    starts: NDArray[np.int64]
    owners: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of_owners(cls, by_owner: Sequence[Mapping[str, float]]) -> TermWeights:
        """Return those of owners, each of which has weights by term."""
        rows: dict[str, int] = {}
        terms = np.array([rows.setdefault(term, len(rows)) for weights in by_owner for term in weights], dtype=np.intp)
        owners = np.repeat(np.arange(len(by_owner), dtype=np.int32), list(map(len, by_owner)))
        weights = np.array([weight for weights in by_owner for weight in weights.values()], dtype=np.float32)
        order = np.argsort(terms, kind="stable")
        return cls(rows, len(by_owner), _starts(np.bincount(terms, minlength=len(rows))), owners[order], weights[order])

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        return self.starts.nbytes + self.owners.nbytes + self.weights.nbytes + _TERM_BYTES * len(self.rows)

    def slice_of(self, row: int) -> slice:
        """Return which of the entries are a term's."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def sums(self, rows: Iterable[int], factors: Sequence[float] = ()) -> Scores:
        """Return the sum of some terms' weights for each owner, each times its factor where there are any."""
        slices = [self.slice_of(row) for row in rows]
        if not slices:
            return np.zeros(self.n_owners, dtype=np.float32)
        owners = np.concatenate([self.owners[entries] for entries in slices])
        weights = [self.weights[entries] for entries in slices]
        if factors:
            weights = [factor * own for factor, own in zip(factors, weights, strict=True)]
        return np.bincount(owners, weights=np.concatenate(weights), minlength=self.n_owners).astype(np.float32)

    def scores(self, rarities: Mapping[str, float]) -> Scores:
        """Return the sum of some terms' weights for each owner, each times how rare the term is: (n_owners,)."""
        known = {self.rows[term]: rarity for term, rarity in rarities.items() if term in self.rows}
        return self.sums(known, list(known.values()))


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


K1 = 1.5
B = 0.5
_WEIGHTS = tuple(FIELD_WEIGHTS.values())
_N_FIELDS = len(FIELD_WEIGHTS)


@dataclass(frozen=True, eq=False)
class Postings(TermWeights):
    """What each term is worth to each tool of a catalog.

    Args:
        idf: (n_terms,) how rare a term is.
        max_idf: that of a term that no tool has, by which scores of catalogs of any size compare.
    """

    idf: NDArray[np.float32]
    max_idf: float

    @classmethod
    def of(cls, documents: Sequence[DocumentTerms], term_numbers: Mapping[str, int]) -> Postings:
        """Return those of a catalog, or of some of its tools; the numbers are of all its terms."""
        n_tools = len(documents)
        terms = np.frombuffer(b"".join(document.terms for document in documents), dtype=np.int32)
        fields = np.frombuffer(b"".join(document.fields for document in documents), dtype=np.int8)
        amounts = np.frombuffer(b"".join(document.amounts for document in documents), dtype=np.float32)
        places = np.repeat(np.arange(n_tools, dtype=np.int32), [len(document.fields) for document in documents])
        cells = np.bincount(places * np.int64(_N_FIELDS) + fields, weights=amounts, minlength=n_tools * _N_FIELDS)
        lengths = cells.reshape(n_tools, _N_FIELDS).astype(np.float64)
        means = np.maximum(lengths.sum(axis=0) / np.maximum((lengths > 0).sum(axis=0), 1), 1e-9)
        scale = np.array(_WEIGHTS) / (1 - B + B * lengths / means)
        amounts = amounts * scale[places, fields]

        order = np.argsort(terms, kind="stable")
        terms, places, amounts = terms[order], places[order], amounts[order]
        is_first = np.ones(len(terms), dtype=bool)
        is_first[1:] = (terms[1:] != terms[:-1]) | (places[1:] != places[:-1])
        firsts = np.flatnonzero(is_first)
        frequency = np.add.reduceat(amounts, firsts) if len(firsts) else amounts
        term_of = terms[firsts]
        n_having = np.bincount(term_of, minlength=len(term_numbers))
        idf = np.log1p((n_tools - n_having + 0.5) / (n_having + 0.5))
        weights = idf[term_of] * frequency * (K1 + 1) / (frequency + K1)
        return cls(
            rows=term_numbers,
            n_owners=n_tools,
            starts=_starts(n_having),
            owners=places[firsts],
            weights=weights.astype(np.float32),
            idf=idf.astype(np.float32),
            max_idf=float(np.log1p((n_tools + 0.5) / 0.5)),
        )

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self.starts.nbytes + self.owners.nbytes + self.weights.nbytes + self.idf.nbytes

    def row(self, term: str) -> int | None:
        """Return the row of a term, or None where no tool has it."""
        row = self.rows.get(term)
        if row is None or self.starts[row] == self.starts[row + 1]:
            return None
        return row


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
