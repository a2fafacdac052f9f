"""A request's words as the tools of a catalog have them: as they stand, joined, in parts, or nearly so."""

from __future__ import annotations

from dataclasses import dataclass

from agent_utilities.catalog.words import PARTICLES, STOPWORDS, parts, stopwords_of, tokens
from agent_utilities.ranking.arrays import Scores
from agent_utilities.ranking.terms import GRAM, Postings, as_one, grams, stem

_N_QUERY_WORDS = 256
_N_QUERY_CHARACTERS = 8_000
_MOST_WORDS_TO_MEND = 4
"""Of a request of more words some other is spelt right, and what is asked without a tool would be bent into one."""
_LEAST_LETTERS, _LETTERS_TO_TRUST = 4, 8
"""Of a word that may be misspelt: how many letters it has at least, and with how many none is another by chance."""
_LEAST_GRAMS = 0.5
"""Of a word's grams, the share that some tool must have for the word to be known by them."""


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """A request's terms.

    Args:
        rows: the rows in the postings of those that some tool has.
        idf: how rare each is that counts for or against: of those that some tool has first, then of the others.
        known: the sum of the former.
        words: (row, the word as it stands in the request), in the request's order.
        particles: the rows of words that choose between tools that have others, and find none.
    """

    rows: tuple[int, ...]
    idf: tuple[float, ...]
    known: float
    words: tuple[tuple[int, str], ...]
    particles: tuple[int, ...] = ()

    @classmethod
    def of(cls, query: str, postings: Postings) -> RequestTerms:
        """Return those of a request: of its first 256 words, or 8,000 characters."""
        reading = _Reading(postings)
        reading.read(query[:_N_QUERY_CHARACTERS])
        idf = (*reading.idf_by_row.values(), *[postings.max_idf] * len(reading.unknown))
        rows = tuple(dict.fromkeys((*reading.idf_by_row, *reading.beside)))
        return cls(
            rows, idf, sum(reading.idf_by_row.values()), tuple(reading.word_by_row.items()), tuple(reading.particles)
        )

    def scores(self, postings: Postings) -> Scores:
        """Return what the terms are worth to each tool: (n_tools,)."""
        scores = postings.sums(self.rows)
        return scores + postings.sums(self.particles) * (scores > 0) if self.particles else scores

    @property
    def known_share(self) -> float:
        """The share of the terms, weighed by how rare they are, that some tool has; 0 of no terms."""
        return self.known / (sum(self.idf) or 1.0)


class _Reading:
    """What is found of a request, word after word.

    Attributes:
        idf_by_row: how rare each term is that some tool has.
        beside: rows that count for the tools that have them, and neither for nor against the request.
        word_by_row: the word of the request that each is of.
        unknown: terms that no tool has.
    """

    def __init__(self, postings: Postings) -> None:
        self.postings = postings
        self.idf_by_row: dict[int, float] = {}
        self.beside: dict[int, None] = {}
        self.word_by_row: dict[int, str] = {}
        self.unknown: set[str] = set()
        self.particles: dict[int, None] = {}

    def read(self, text: str) -> None:
        """Take in a request."""
        stopwords = stopwords_of(text)
        told = self._words(text)[:_N_QUERY_WORDS]
        n_content = sum(word not in stopwords for word in told)
        joined = self._joined(told)
        for place, word in enumerate(told):
            if n_content and word in stopwords:
                if word in PARTICLES and (row := self.postings.row(word)) is not None:
                    self.particles[row] = None
            elif len(missing := self._take(word, stem(word))) < 2:
                self.unknown.update(missing)
                self._take(as_one(word), beside=True, word=word)
            elif place not in joined:
                self._take_what_is_near(word, n_content)
            if stopwords is not STOPWORDS or not word.isascii():
                self._take(*grams(word), beside=True, word=word)

    def _words(self, text: str) -> list[str]:
        """Return the words of a request; what is written as one, and what some tool has as one, is one."""
        told: list[str] = []
        for token in tokens(text):
            words, whole = parts(token), token.casefold()
            is_one = len(words) > 1 and any(map(self._has, (whole, stem(whole), as_one(whole))))
            told += [whole] if is_one else words
        return told

    def _has(self, term: str) -> bool:
        return self.postings.row(term) is not None

    def _take(self, *terms: str, beside: bool = False, word: str = "") -> list[str]:
        """Take those of a word's terms that some tool has, the word itself first; return the others."""
        missing: list[str] = []
        for term in terms:
            if (row := self.postings.row(term)) is None:
                missing.append(term)
                continue
            if beside:
                self.beside[row] = None
            elif row not in self.idf_by_row:
                self.idf_by_row[row] = float(self.postings.idf[row])
            if beside or term == terms[-1]:
                self.word_by_row.setdefault(row, word or terms[0])
        return missing

    def _joined(self, told: list[str]) -> set[int]:
        """Take neighbours that some tool has as one word, two or three; return the places of their words."""
        places: set[int] = set()
        for n in (2, 3):
            for place in range(len(told) - n + 1):
                whole = "".join(told[place : place + n])
                # Whatever has a word has its stem.
                if (stemmed := stem(whole)) in self.postings.rows and len(self._take(whole, stemmed)) < 2:
                    places.update(range(place, place + n))
        return places

    def _take_what_is_near(self, word: str, n_content: int) -> None:
        """Take what a word that no tool has may stand for; else it counts against the request, twice."""
        if not self._take(as_one(word), word=word):
            return
        if n_content <= _MOST_WORDS_TO_MEND and (meant := self._nearest(word, is_alone=n_content == 1)):
            self._take(meant, stem(meant), word=word)
            self.unknown.add(word)
            return
        if self._has(GRAM) and (pieces := grams(word)):
            if sum(map(self._has, pieces)) >= _LEAST_GRAMS * len(pieces):
                self._take(*pieces, beside=True, word=word)
                self.unknown.add(word)
                return
        self.unknown |= {word, stem(word)}

    def _nearest(self, word: str, *, is_alone: bool) -> str:
        """Return the word of some tool that a word is most likely a misspelling of; empty where it is of none.

        Beside other words less is taken for one: most words that no tool has are spelt as they should be.
        """
        letters = len(word)
        if letters < (_LEAST_LETTERS if is_alone else _LEAST_LETTERS + 1) or not word.isalpha():
            return ""
        from rapidfuzz import process  # few requests need it
        from rapidfuzz.distance import OSA

        most = 2 if is_alone and letters >= _LETTERS_TO_TRUST else 1
        lengths = range(max(_LEAST_LETTERS, letters - most), letters + most + 1)
        near: list[tuple[int, bool, str]] = []
        groups = [(word[0], length) for length in lengths]
        if is_alone:
            groups = sorted(self.postings.spellings, key=lambda group: group[0] != word[0])
        for first, length in groups:
            if first != word[0] and any(distance <= 1 for distance, *_ in near):
                break  # what begins with another letter is no nearer
            if length in lengths and (spelt := self.postings.spellings.get((first, length))):
                for each, distance, _ in process.extract(
                    word, spelt, scorer=OSA.distance, score_cutoff=most, limit=None
                ):
                    if self._has(each) and (is_alone or _is_slip(word, each)):
                        near.append((int(distance), first != word[0], each))
        return min(near)[2] if near else ""


def _is_slip(word: str, meant: str) -> bool:
    """Whether one word is another with a letter left out, put in or swapped, or mistyped where there are many."""
    if word[0] != meant[0] or word[-1] != meant[-1]:
        return False
    return len(word) != len(meant) or len(word) >= _LETTERS_TO_TRUST or sorted(word) == sorted(meant)
