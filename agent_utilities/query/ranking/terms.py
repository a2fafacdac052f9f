"""Terms: how words become stems and grams, what each term weighs in each tool, and which terms a request has.

Each term's weight in each tool is computed once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from operator import add
from typing import Any, NamedTuple

from agent_utilities.catalog.words import (
    PARTICLES,
    STOPWORDS,
    bare,
    parts,
    stopwords_of,
    tokens,
)
from agent_utilities.query.ranking.arrays import NDArray, Scores, np

_LONGEST_WORD = 40


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    return import_module("Stemmer").Stemmer("english")


_PLURAL = re.compile(r"[^\W\d_aeiouy]{2,}[iou]?s", re.ASCII)


def stem(word: str) -> str:
    """Return a word's stem, marked so that it never equals a word; acronyms lose their plural, too: `pdfs`.

    Source: Porter, Snowball (the English stemmer).
    """
    # Callers may send words of thousands of letters, which are not cached.
    return _stem(word) if len(word) <= _LONGEST_WORD else _stem.__wrapped__(word)


@lru_cache(maxsize=32_768)
def _stem(word: str) -> str:
    return f"~{word[:-1] if _PLURAL.fullmatch(word) else _stemmer().stemWord(bare(word))}"


SURFACE_WEIGHT = 0.3
"""Of a word as it stands, beside 1 for its stem."""
JOINT = "+"
"""Marks neighbours joined: what one word of a request may mean by them, and no two."""
GRAM = "*"
"""Marks grams; alone it is of every tool that has any."""
_N_GRAM = 4
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
    "beside": 1,
}


def as_one(word: str) -> str:
    """Return the term of a word that tools may have in parts, such as `GitHub` and `EC2`."""
    return f"{JOINT}{word.removesuffix('s')}"


def grams(word: str) -> list[str]:
    """Return a word's runs of four letters, marked: inflected forms and compounds share them.

    Source: McNamee & Mayfield 2004, Character n-gram tokenization for European language text retrieval.
    """
    plain = bare(word)
    return [f"{GRAM}{plain[start : start + _N_GRAM]}" for start in range(len(plain) - _N_GRAM + 1)]


class DocumentTerms(NamedTuple):
    """The terms of one tool, field after field, repeated as often as they occur.

    As bytes, which the garbage collector skips: over an object for each term of a large catalog a collection stops
    every thread for longer than a request takes.

    Args:
        terms: their numbers, int32.
        fields: indexes in `FIELD_WEIGHTS`, int8.
        amounts: weights within the field, float32.
    """

    terms: bytes
    fields: bytes
    amounts: bytes

    @property
    def own_terms(self) -> NDArray[np.int32]:
        """The numbers of those that its texts have."""
        is_own = np.frombuffer(self.fields, dtype=np.int8) < N_FIELDS - 1
        return np.frombuffer(self.terms, dtype=np.int32)[is_own]


LEAST_LETTERS = 4
"""The shortest word whose misspelling is corrected."""
Spellings = Mapping[str, Sequence[str]]
"""The words of a catalog, by their first and last letter."""
_TERM_BYTES = 100


@dataclass(frozen=True, eq=False)
class TermWeights:
    """An inverted index: the weight of each term in each of its owners, such as tools or capabilities.

    Args:
        rows: the row of each term in `starts`; also of terms that no owner has.
        starts: (n_terms + 1,) where a term's owners begin.
        owners, weights: (n_entries,) the owners of each term, ascending, and its weight in each, term after term.
    """

    rows: Mapping[str, int]
    n_owners: int
    starts: NDArray[np.int64]
    owners: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of_owners(cls, by_owner: Sequence[Mapping[str, float]]) -> TermWeights:
        """Index owners, each with its weights by term."""
        rows: dict[str, int] = {}
        terms = np.array([rows.setdefault(term, len(rows)) for weights in by_owner for term in weights], dtype=np.intp)
        owners = np.repeat(np.arange(len(by_owner), dtype=np.int32), list(map(len, by_owner)))
        weights = np.array([weight for weights in by_owner for weight in weights.values()], dtype=np.float32)
        order = np.argsort(terms, kind="stable")
        return cls(rows, len(by_owner), _starts(np.bincount(terms, minlength=len(rows))), owners[order], weights[order])

    @property
    def n_bytes(self) -> int:
        return self.starts.nbytes + self.owners.nbytes + self.weights.nbytes + _TERM_BYTES * len(self.rows)

    def slice_of(self, row: int) -> slice:
        """Return the entries of a term."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def sums(self, rows: Iterable[int], factors: Sequence[float] = ()) -> Scores:
        """Return the sum of some terms' weights for each owner, times their factors if any."""
        slices = [self.slice_of(row) for row in rows]
        if not slices:
            return np.zeros(self.n_owners, dtype=np.float32)
        owners = np.concatenate([self.owners[entries] for entries in slices])
        weights = [self.weights[entries] for entries in slices]
        if factors:
            weights = [factor * own for factor, own in zip(factors, weights, strict=True)]
        return np.bincount(owners, weights=np.concatenate(weights), minlength=self.n_owners).astype(np.float32)

    def scores(self, rarities: Mapping[str, float]) -> Scores:
        """Return the sum of some terms' weights for each owner, times their idf: (n_owners,)."""
        known = {self.rows[term]: rarity for term, rarity in rarities.items() if term in self.rows}
        return self.sums(known, list(known.values()))


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


K1 = 1.5
B = 0.5
_WEIGHTS = tuple(FIELD_WEIGHTS.values())
N_FIELDS = len(FIELD_WEIGHTS)


@dataclass(frozen=True, eq=False)
class Postings(TermWeights):
    """The BM25 weights of each term in each tool of a catalog.

    Args:
        idf: (n_terms,)
        max_idf: that of a term that no tool has, which makes scores of catalogs of any size comparable.
        spellings: returns the words of the whole catalog.
    """

    idf: NDArray[np.float32]
    max_idf: float
    spellings: Callable[[], Spellings]

    @classmethod
    def of(
        cls, documents: Sequence[DocumentTerms], term_numbers: Mapping[str, int], spellings: Callable[[], Spellings]
    ) -> Postings:
        """Index a catalog, or some of its tools; numbers and spellings are of all its terms."""
        n_tools = len(documents)
        terms = np.frombuffer(b"".join(document.terms for document in documents), dtype=np.int32)
        fields = np.frombuffer(b"".join(document.fields for document in documents), dtype=np.int8)
        amounts = np.frombuffer(b"".join(document.amounts for document in documents), dtype=np.float32)
        places = np.repeat(np.arange(n_tools, dtype=np.int32), [len(document.fields) for document in documents])
        cells = np.bincount(places * np.int64(N_FIELDS) + fields, weights=amounts, minlength=n_tools * N_FIELDS)
        lengths = cells.reshape(n_tools, N_FIELDS).astype(np.float64)
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
            spellings=spellings,
        )

    @property
    def n_bytes(self) -> int:
        return self.starts.nbytes + self.owners.nbytes + self.weights.nbytes + self.idf.nbytes

    def row(self, term: str) -> int | None:
        """Return the row of a term, or None where no tool has it."""
        row = self.rows.get(term)
        if row is None or self.starts[row] == self.starts[row + 1]:
            return None
        return row


_N_QUERY_WORDS = 256
_N_QUERY_CHARACTERS = 8_000
_MOST_WORDS_TO_MEND = 4
"""In longer requests some other word is spelt right, and words of no tool would be bent into a tool's."""
_LETTERS_TO_TRUST = 8
"""From this length a word resembles no other by chance."""
_LEAST_GRAMS = 0.5
"""Of a word's grams, the share that some tool must have for the word to be known by them."""


@dataclass(eq=False, slots=True)
class RequestTerms:
    """A request's terms, read word after word.

    Args:
        postings: of the tools.
        idf_by_row: how rare each term is that some tool has and that counts for or against, by its row.
        beside: rows that count for the tools that have them, and neither for nor against the request.
        word_by_row: the word as it stands in the request, in the request's order.
        unknown: terms that no tool has.
        particles: the rows of words that choose between tools that have others, and find none.
    """

    postings: Postings
    idf_by_row: dict[int, float] = field(default_factory=dict)
    beside: dict[int, None] = field(default_factory=dict)
    word_by_row: dict[int, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    particles: dict[int, None] = field(default_factory=dict)

    @classmethod
    def of(cls, query: str, postings: Postings) -> RequestTerms:
        """Return those of a request: of its first 256 words, or 8,000 characters."""
        terms = cls(postings)
        terms._read(query[:_N_QUERY_CHARACTERS])
        return terms

    @property
    def idf(self) -> tuple[float, ...]:
        """How rare each is that counts for or against: of those that some tool has first, then of the others."""
        return (*self.idf_by_row.values(), *[self.postings.max_idf] * len(self.unknown))

    @property
    def known_share(self) -> float:
        """The share of the terms, weighed by how rare they are, that some tool has; 0 of no terms."""
        known = sum(self.idf_by_row.values())
        return known / (known + self.postings.max_idf * len(self.unknown) or 1.0)

    def scores(self, postings: Postings) -> Scores:
        """Return what the terms are worth to each tool: (n_tools,)."""
        scores = postings.sums({**self.idf_by_row, **self.beside})
        return scores + postings.sums(self.particles) * (scores > 0) if self.particles else scores

    def _read(self, text: str) -> None:
        stopwords = stopwords_of(text)
        words = self._words(text)[:_N_QUERY_WORDS]
        n_content = sum(word not in stopwords for word in words)
        joined = self._joined(words)
        for place, word in enumerate(words):
            if n_content and word in stopwords:
                if word in PARTICLES and (row := self.postings.row(word)) is not None:
                    self.particles[row] = None
                continue
            missing = self._take(word, word, stem(word))
            if len(missing) < 2:
                self.unknown.update(missing)
                self._take_beside(word, as_one(word))
            elif place not in joined and not self._take_what_is_near(word, n_content):
                self.unknown.update(missing)
            if stopwords is not STOPWORDS or not word.isascii():
                self._take_beside(word, *grams(word))

    def _words(self, text: str) -> list[str]:
        """Return the words of a request; what is written as one, and what some tool has as one, is one."""
        words: list[str] = []
        for token in tokens(text):
            pieces, whole = parts(token), token.casefold()
            is_one = len(pieces) > 1 and any(map(self._has, (whole, stem(whole), as_one(whole))))
            words += [whole] if is_one else pieces
        return words

    def _has(self, term: str) -> bool:
        return self.postings.row(term) is not None

    def _take(self, word: str, *terms: str) -> list[str]:
        """Take those of a word's terms that some tool has; return the others."""
        missing: list[str] = []
        for term in terms:
            if (row := self.postings.row(term)) is None:
                missing.append(term)
            elif row not in self.idf_by_row:
                self.idf_by_row[row] = float(self.postings.idf[row])
                if term == terms[-1]:  # whatever has a word has its stem
                    self.word_by_row.setdefault(row, word)
        return missing

    def _take_beside(self, word: str, *terms: str) -> None:
        for term in terms:
            if (row := self.postings.row(term)) is not None:
                self.beside[row] = None
                self.word_by_row.setdefault(row, word)

    def _joined(self, words: list[str]) -> set[int]:
        """Take neighbours that some tool has as one word, two or three; return the places of their words."""
        places: set[int] = set()
        pairs = list(map(add, words, words[1:]))
        for n, joined in ((2, pairs), (3, map(add, pairs, words[2:]))):
            for place, whole in enumerate(joined):
                if self._has(stemmed := stem(whole)):
                    self._take(whole, whole, stemmed)
                    places.update(range(place, place + n))
        return places

    def _take_what_is_near(self, word: str, n_content: int) -> bool:
        """Take what a word that no tool has may stand for; return whether there is anything."""
        if not self._take(word, as_one(word)):
            return True
        if n_content <= _MOST_WORDS_TO_MEND and (meant := self._nearest(word, is_alone=n_content == 1)):
            self._take(word, meant, stem(meant))
        else:
            pieces = grams(word) if self._has(GRAM) else []
            if not pieces or sum(map(self._has, pieces)) < _LEAST_GRAMS * len(pieces):
                return False
            self._take_beside(word, *pieces)
        self.unknown.add(word)
        return True

    def _nearest(self, word: str, *, is_alone: bool) -> str:
        """Return the word of some tool that a word is most likely a misspelling of; empty where it is of none.

        Beside other words less is taken for one, since most that no tool has are spelt as they should be: a letter left
        out, put in or swapped between the first and the last, or mistyped where there are many.
        """
        letters, first, last = len(word), word[:1], word[-1:]
        if letters < LEAST_LETTERS + (not is_alone) or not word.isalpha():
            return ""
        from rapidfuzz import process  # few requests need it
        from rapidfuzz.distance import OSA

        spellings = self.postings.spellings()
        spelt = spellings.get(first + last, ())
        if is_alone:
            spelt = [each for ends, alike in spellings.items() if ends[0] == first or ends[1] == last for each in alike]
        most = 2 if is_alone and letters >= _LETTERS_TO_TRUST else 1
        near = [
            (distance, each[0] != first, each)
            for each, distance, _ in process.extract(word, spelt, scorer=OSA.distance, score_cutoff=most, limit=None)
            if is_alone or len(each) != letters or letters >= _LETTERS_TO_TRUST or sorted(each) == sorted(word)
        ]
        return min([each for each in near if self._has(stem(each[2]))], default=(0, False, ""))[2]
