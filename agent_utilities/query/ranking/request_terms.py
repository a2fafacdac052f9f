"""Maps a request's words to the terms of a catalog's tools: as written, joined, in parts, or corrected."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add

from agent_utilities.catalog.words import PARTICLES, STOPWORDS, parts, stopwords_of, tokens
from agent_utilities.query.ranking.arrays import Scores
from agent_utilities.query.ranking.terms import GRAM, LEAST_LETTERS, Postings, as_one, grams, stem

_N_QUERY_WORDS = 256
_N_QUERY_CHARACTERS = 8_000
_MOST_WORDS_TO_MEND = 4
"""In longer requests some other word is spelt right, and words of no tool would be bent into a tool's."""
_LETTERS_TO_TRUST = 8
"""From this length a word resembles no other by chance."""
_LEAST_GRAMS = 0.5
"""The share of a word's grams that some tool must have for the word to match by them."""


@dataclass(eq=False, slots=True)
class RequestTerms:
    """The terms of a request among those of a catalog.

    Args:
        idf_by_row: the idf of each known term that counts, by its row.
        beside: rows that raise the tools that have them, and don't count in `idf`.
        word_by_row: the word of the request, in the request's order.
        unknown: terms that no tool has.
        particles: rows of words that only break ties between matching tools.
    """

    postings: Postings
    idf_by_row: dict[int, float] = field(default_factory=dict)
    beside: dict[int, None] = field(default_factory=dict)
    word_by_row: dict[int, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    particles: dict[int, None] = field(default_factory=dict)

    @classmethod
    def of(cls, query: str, postings: Postings) -> RequestTerms:
        """Read a request's first 8,000 characters, and 256 words of them."""
        terms = cls(postings)
        terms._read(query[:_N_QUERY_CHARACTERS])
        return terms

    @property
    def idf(self) -> tuple[float, ...]:
        """The idf of each term that counts: of the known ones first, then of the others."""
        return (*self.idf_by_row.values(), *[self.postings.max_idf] * len(self.unknown))

    @property
    def known_share(self) -> float:
        """The share of the terms, weighted by idf, that some tool has; 0 of no terms."""
        known = sum(self.idf_by_row.values())
        return known / (known + self.postings.max_idf * len(self.unknown) or 1.0)

    def scores(self, postings: Postings) -> Scores:
        """Score each tool: (n_tools,)."""
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
        """Add those of a word's terms that some tool has; return the others."""
        missing: list[str] = []
        for term in terms:
            if (row := self.postings.row(term)) is None:
                missing.append(term)
            elif row not in self.idf_by_row:
                self.idf_by_row[row] = float(self.postings.idf[row])
                if term == terms[-1]:  # a tool that has a word has its stem
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
        """Add what an unknown word may stand for: a joint, a correction, or grams; return whether there is any."""
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
        """Return the known word that a word most likely misspells; empty for none.

        Beside other words fewer slips are corrected, since most unknown words are spelt right: a letter left out, added
        or swapped between the first and the last, or another letter in a long word.
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
