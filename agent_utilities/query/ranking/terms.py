"""BM25 over weighted fields, in any script: the terms of tools, their idf and their weights.

Each term's weight in each tool is computed once, so that a request only adds them up.

Source: Robertson, Zaragoza & Taylor 2004, Simple BM25 extension to multiple weighted fields.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import chain, count
from operator import add
from struct import Struct
from typing import Any, NamedTuple

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.catalog.words import (
    OTHER_STOPWORDS,
    PARTICLES,
    STOPWORDS,
    bare,
    parts,
    stopwords_of,
    tokens,
    words,
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
"""The weight of a word as written, beside 1 for its stem."""
PARTICLE_WEIGHT = 0.15
"""The weight of a particle: enough to break ties."""
JOINT = "+"
"""Marks joined neighbours, which one word of a request may mean."""
JOINT_WEIGHT = 4.0
"""Of it, beside 1 for a stem: it stands for two words."""
GRAM = "*"
"""Marks grams; alone it is a term of every tool that has any."""
GRAM_WEIGHT = 0.5
"""The weight of all grams of a word together."""
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
_BESIDE_OF = frozenset(("name", "title", "description", "hints", "parameters", "tags"))


def count_terms(text: str) -> dict[str, float]:
    """Count a text's terms: words as written, and their stems."""
    stopwords = stopwords_of(text)
    counts: defaultdict[str, float] = defaultdict(float)
    for word in words(text):
        if word not in stopwords:
            counts[word] += SURFACE_WEIGHT
            counts[stem(word)] += 1
    return counts


def as_one(word: str) -> str:
    """Return the term of a word that tools may have in parts, such as `GitHub` and `EC2`."""
    return f"{JOINT}{word.removesuffix('s')}"


def _joined(words: Sequence[str]) -> list[str]:
    """Return the terms of two and three neighbours as one word."""
    pairs = list(map(add, words, words[1:]))
    return list(map(as_one, (*pairs, *map(add, pairs, words[2:]))))


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
        """The numbers of the terms without those of the field `beside`."""
        is_own = np.frombuffer(self.fields, dtype=np.int8) < _N_FIELDS - 1
        return np.frombuffer(self.terms, dtype=np.int32)[is_own]


_OF_A_WORD = array("f", (SURFACE_WEIGHT, 1)).tobytes()
_PAIR = Struct("2i")


class Reader:
    """Tokenizes the tools of a catalog, each distinct token once, and numbers their terms."""

    def __init__(self) -> None:
        self.numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._beside: dict[frozenset[str], dict[str, list[tuple[str, float]]]] = {STOPWORDS: {}, OTHER_STOPWORDS: {}}
        self._terms_of = {each: cache(partial(self._read_token, each)) for each in self._beside}

    def read(self, document: ToolDocument) -> DocumentTerms:
        """Return the terms of a tool.

        Some terms match a tool without counting toward its length or its likeness to others: joined neighbours,
        particles, all words of its name, and the grams of a text that isn't English.
        """
        stopwords = stopwords_of(f"{document.title} {document.description}")
        terms_of, others = self._terms_of[stopwords], self._beside[stopwords]
        terms, fields, amounts = bytearray(), bytearray(), bytearray()
        beside: defaultdict[str, float] = defaultdict(float, {} if stopwords is STOPWORDS else {GRAM: 0})
        for field, (name, text) in enumerate(document.fields().items()):
            if not text:
                continue
            own = tokens(text)
            of_field = b"".join(map(terms_of, own))
            terms += of_field
            fields += bytes((field,)) * (len(of_field) // (_PAIR.size // 2))
            amounts += _OF_A_WORD * (len(of_field) // _PAIR.size)
            if name in _BESIDE_OF:
                for term, amount in chain.from_iterable([others[token] for token in own if token in others]):
                    beside[term] += amount
                particles = PARTICLES.intersection(map(str.lower, own))
                if name == "name":
                    said = [word for token in own for word in parts(token)]
                    beside.update(dict.fromkeys(_joined(said), JOINT_WEIGHT))
                    particles = stopwords.intersection(said)
                if stopwords is STOPWORDS:
                    beside.update(dict.fromkeys(particles, PARTICLE_WEIGHT))
        terms += self._numbered(beside)
        fields += bytes((_N_FIELDS - 1,)) * len(beside)
        amounts += array("f", beside.values()).tobytes()
        return DocumentTerms(bytes(terms), bytes(fields), bytes(amounts))

    def _numbered(self, terms: Iterable[str]) -> bytes:
        return array("i", map(self.numbers.__getitem__, terms)).tobytes()

    def _read_token(self, stopwords: frozenset[str], token: str) -> bytes:
        """Return the numbers of a token's words and their stems; its terms of the field `beside` are stored."""
        if stopwords is STOPWORDS and token not in stopwords and token.islower() and token.isascii():
            return _PAIR.pack(self.numbers[token], self.numbers[stem(token)])  # as most are
        words = parts(token)
        content = [word for word in words if word not in stopwords]
        beside = [(term, JOINT_WEIGHT) for term in _joined(words)] if token.isascii() else []
        if stopwords is not STOPWORDS:
            beside += [(gram, GRAM_WEIGHT / len(of_word)) for of_word in map(grams, content) for gram in of_word]
        if beside:
            self._beside[stopwords][token] = beside
        return self._numbered([term for word in content for term in (word, stem(word))])


def spellings_of(terms: Iterable[str]) -> Spellings:
    """Return a catalog's words and stems that are long enough to be misspelt; a stem covers all forms of its word."""
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for word in filter(str.isalpha, dict.fromkeys(term.removeprefix("~") for term in terms)):
        if len(word) >= LEAST_LETTERS:
            spellings[word[0] + word[-1]].append(word)
    return dict(spellings)


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
_N_FIELDS = len(FIELD_WEIGHTS)


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
