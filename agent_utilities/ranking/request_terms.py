"""The terms of a request: its words, their stems, and neighbours written as one word."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from agent_utilities.ranking.postings import Postings
from agent_utilities.ranking.text import humped, is_content_word, stem, words

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
