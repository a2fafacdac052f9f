"""The lexical ranker: always there, in well under a millisecond, with numpy and a stemmer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Ranking, best, least_claimed, mask, rounded
from agent_utilities.ranking.names import Names
from agent_utilities.ranking.postings import Postings, TermCounts, count_terms, make_postings
from agent_utilities.ranking.servers import Servers
from agent_utilities.ranking.text import STOPWORDS, stem, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.base import Scores

CUT = 0.27
NEAR = 0.5
DEPTH = 0.85
SERVER_WEIGHT = 0.4
_N_QUERY_WORDS_LIMIT = 256


class LexicalRanker:
    """Ranks by the words that a request and a tool share; keeps what it read of documents that have not changed."""

    def __init__(self) -> None:
        self._counted: dict[ToolDocument, TermCounts] = {}

    def index(self, documents: Sequence[ToolDocument], cause: str = "") -> LexicalIndex:
        """Return an index of documents in catalog order; only documents that the last one had not are read.

        Args:
            documents: the catalog.
            cause: why there is no more than a lexical index, where more was asked for.
        """
        known = self._counted
        counted = {each: known.get(each) or count_terms(each) for each in documents}
        self._counted = counted
        postings = make_postings([counted[each] for each in documents])
        return LexicalIndex(postings, Names(documents), Servers(documents), cause)


@dataclass(frozen=True, slots=True)
class Terms:
    """A request's terms.

    Args:
        rows: places in the postings of the terms that some tool has.
        idf: how telling every term is, those no tool has included.
        shown: (row of the stem, the word as it stands in the request) for `matched`.
    """

    rows: tuple[int, ...]
    idf: tuple[float, ...]
    shown: tuple[tuple[int, str], ...]


class LexicalIndex:
    """A catalog to search by words.

    Args:
        postings: the weight of each term in each tool.
        names: which tools bear which names.
        servers: which tools come from which server.
        cause: why there is no more than this.
    """

    def __init__(self, postings: Postings, names: Names, servers: Servers, cause: str = "") -> None:
        self.cause = cause
        self._postings = postings
        self.names = names
        self.servers = servers

    @property
    def max_idf(self) -> float:
        """The weight of a term that no tool has, by which scores of catalogs of any size compare."""
        return self._postings.max_idf

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        """Return the tools that share words with a request."""
        import numpy as np

        allowed = mask(permitted, self.servers.n_tools)
        terms = self.terms(query)
        scores = self.scores(terms)
        named = self.names.mentioned(query)
        hit = scores > 0
        scores = scores + SERVER_WEIGHT * self.servers.mean(scores, allowed)
        scores /= max(1e-6, float(np.linalg.norm(terms.idf)))
        least = least_claimed(scores * hit if allowed is None else (scores * hit)[allowed], NEAR, DEPTH)
        claimed = rounded(scores) >= least
        claimed[named] = True
        scores[named] += scores.max(initial=0) + 1
        hit[named] = True
        allowed = hit if allowed is None else hit & allowed
        found = best(scores, allowed, limit)
        kept = tuple(rounded(scores[found]).tolist())
        abstained = not kept or kept[0] < CUT
        n_claimed = 0 if abstained else int(claimed[found].sum())
        return Ranking(tuple(map(int, found)), kept, abstained, self.matched(terms, found), self.cause, n_claimed)

    def terms(self, query: str) -> Terms:
        """Return a request's terms: its words, their stems, and neighbours written as one word."""
        known, max_idf = self._postings.rows, self._postings.max_idf
        given = words(query)[:_N_QUERY_WORDS_LIMIT]
        rows: dict[int, float] = {}
        missing: set[str] = set()
        shown: dict[int, str] = {}
        for word in given:
            if word in STOPWORDS or (len(word) == 1 and word.isascii()):
                continue
            for term in (word, stem(word)):
                row = known.get(term)
                if row is None:
                    missing.add(term)
                else:
                    rows[row] = float(self._postings.idf[row])
                    if term != word:
                        shown.setdefault(row, word)
        for pair in map("".join, pairwise(given)):
            for term in (pair, stem(pair)):
                if (row := known.get(term)) is not None:
                    rows.setdefault(row, float(self._postings.idf[row]))
                    shown.setdefault(row, pair)
        idf = (*rows.values(), *(max_idf for _ in missing))
        return Terms(tuple(rows), idf, tuple(shown.items()))

    def scores(self, terms: Terms) -> Scores:
        """Return the sum of the terms' weights in each tool: (n_tools,)."""
        import numpy as np

        postings, n_tools = self._postings, self.servers.n_tools
        if not terms.rows:
            return np.zeros(n_tools, dtype=np.float32)
        parts = [postings.of(row) for row in terms.rows]
        places = np.concatenate([postings.places[part] for part in parts])
        weights = np.concatenate([postings.weights[part] for part in parts])
        return np.bincount(places, weights=weights, minlength=n_tools).astype(np.float32)

    def matched(self, terms: Terms, found: NDArray[np.intp]) -> tuple[tuple[str, ...], ...]:
        """Return the words of a request that stand in each of the tools found, in the request's order."""
        import numpy as np

        hits: list[list[str]] = [[] for _ in found]
        for row, word in terms.shown:
            places = self._postings.places[self._postings.of(row)]
            at = np.minimum(np.searchsorted(places, found), len(places) - 1)
            for i in np.flatnonzero(places[at] == found):
                hits[i].append(word)
        return tuple(map(tuple, hits))
