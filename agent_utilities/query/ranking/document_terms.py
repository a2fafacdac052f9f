"""`Reader` reads the terms of tools, each field in its own way, for the index by words."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain, count
from operator import add
from struct import Struct

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.catalog.words import OTHER_STOPWORDS, PARTICLES, STOPWORDS, parts, stopwords_of, tokens
from agent_utilities.query.ranking.terms import (
    GRAM,
    LEAST_LETTERS,
    N_FIELDS,
    SURFACE_WEIGHT,
    DocumentTerms,
    Spellings,
    as_one,
    grams,
    stem,
)

PARTICLE_WEIGHT = 0.15
"""Of a word that says nothing by itself: enough to choose by between tools that fit alike."""
JOINT_WEIGHT = 4.0
"""Of it, beside 1 for a stem: it stands for two words."""
GRAM_WEIGHT = 0.5
"""Of all grams of a word together."""
_BESIDE_OF = frozenset(("name", "title", "description", "hints", "parameters", "tags"))
_OF_A_WORD = array("f", (SURFACE_WEIGHT, 1)).tobytes()
_PAIR = Struct("2i")


def _joined(said: Sequence[str]) -> list[str]:
    """Return the terms of neighbours as one word, two and three."""
    pairs = list(map(add, said, said[1:]))
    return list(map(as_one, (*pairs, *map(add, pairs, said[2:]))))


class Reader:
    """Reads the tools of a catalog: numbers their terms, and reads each run of letters and digits once.

    Attributes:
        numbers: of the terms read so far.
    """

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
        fields += bytes((N_FIELDS - 1,)) * len(beside)
        amounts += array("f", beside.values()).tobytes()
        return DocumentTerms(bytes(terms), bytes(fields), bytes(amounts))

    def _numbered(self, terms: Iterable[str]) -> bytes:
        return array("i", map(self.numbers.__getitem__, terms)).tobytes()

    def _read_token(self, stopwords: frozenset[str], token: str) -> bytes:
        """Return the numbers of a token's words, each as it stands and its stem; note what a tool has beside by it."""
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
    """Return those of a catalog's terms that are of letters, and of enough of them to be misspelt.

    Stems count too: who mistypes `calendar` means the tool that says `calendars`.
    """
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for word in filter(str.isalpha, dict.fromkeys(term.removeprefix("~") for term in terms)):
        if len(word) >= LEAST_LETTERS:
            spellings[word[0] + word[-1]].append(word)
    return dict(spellings)
