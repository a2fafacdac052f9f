"""The lexical ranker: always there, in well under a millisecond, with numpy and a stemmer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Ranking, best, count_claimed, least_claimed, rounded
from agent_utilities.ranking.entries import Entries, Read, read
from agent_utilities.ranking.name_index import NameIndex
from agent_utilities.ranking.postings import Postings
from agent_utilities.ranking.servers import Servers
from agent_utilities.ranking.text import STOPWORDS, stem, words
from agent_utilities.ranking.views import Views

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.base import Scores

CUT = 0.27
NEAR = 0.5
DEPTH = 0.85
SERVER_WEIGHT = 0.4
_N_QUERY_WORDS_LIMIT = 256
_N_TERMS = 10_000


class LexicalRanker:
    """Ranks by the words that a request and a tool share; keeps what it read of documents that have not changed."""

    def __init__(self) -> None:
        self._read: dict[ToolDocument, Read] = {}
        self._numbers: dict[str, int] = {}
        self._n_expected = 0
        self._turn = threading.Lock()

    def index(self, documents: Sequence[ToolDocument], cause: str = "") -> LexicalIndex:
        """Return an index of documents in catalog order; only documents that the last one had not are read.

        Args:
            documents: the catalog.
            cause: why there is no more than a lexical index, where more was asked for.
        """
        with self._turn:
            if len(self._numbers) > self._n_expected:
                self._read, self._numbers = {}, {}
            known, numbers = self._read, self._numbers
            found: dict[ToolDocument, Read] = {}
            tools: list[Read] = []
            for each in documents:
                tool = known.get(each) or read(each, numbers)
                found[each] = tool
                tools.append(tool)
            if not known:
                self._n_expected = 2 * len(numbers) + _N_TERMS
            self._read = found
            entries = Entries.of(tools, numbers)
        return LexicalIndex(entries, NameIndex(documents), Servers.of(documents), cause)


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
        entries: what was read of it.
        names: which tools bear which names.
        servers: which tools come from which server.
        cause: why there is no more than this.
        places: where its tools stand in the catalog that it is a view of; None where it is no view.
    """

    def __init__(
        self,
        entries: Entries,
        names: NameIndex,
        servers: Servers,
        cause: str = "",
        places: NDArray[np.intp] | None = None,
    ) -> None:
        self.cause = cause
        self.names = names
        self.servers = servers
        self.n_tools = servers.n_tools
        self.places = places
        self._postings = Postings.of(entries)
        self._views: Views[LexicalIndex] = Views(self.n_tools, partial(_view, entries, names, servers, cause))

    @property
    def max_idf(self) -> float:
        """The weight of a term that no tool has, by which scores of catalogs of any size compare."""
        return self._postings.max_idf

    def view(self, permitted: Sequence[int] | None) -> LexicalIndex:
        """Return the index that a catalog of the permitted tools only would have."""
        return self._views.of(permitted) or self

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        """Return the tools that share words with a request."""
        return self.view(permitted)._ranked(query, limit)

    def _ranked(self, query: str, limit: int) -> Ranking:
        import numpy as np

        if not self.n_tools:
            return Ranking(cause=self.cause)
        terms = self.terms(query)
        scores = self.scores(terms)
        hit = scores > 0
        scores = scores + SERVER_WEIGHT * self.servers.mean(scores)
        scores /= max(1e-6, float(np.linalg.norm(terms.idf)))
        least = least_claimed(scores * hit, NEAR, DEPTH)
        named = self.names.mentioned(query)
        lifted = scores.copy() if named else scores
        lifted[named] += scores.max(initial=0) + 1
        hit[named] = True
        found = best(lifted, hit, limit)
        kept = tuple(rounded(lifted[found]).tolist())
        abstained = not kept or kept[0] < CUT
        n_claimed = 0 if abstained else count_claimed(scores[found], least, found, named)
        matched = self.matched(terms, found)
        return Ranking(self.catalog_places(found), kept, abstained, matched, self.cause, n_claimed, CUT)

    def catalog_places(self, found: NDArray[np.intp]) -> tuple[int, ...]:
        """Return where tools stand in the catalog."""
        return tuple((found if self.places is None else self.places[found]).tolist())

    def terms(self, query: str) -> Terms:
        """Return a request's terms: its words, their stems, and neighbours written as one word."""
        row_of, max_idf = self._postings.row, self._postings.max_idf
        given = words(query)[:_N_QUERY_WORDS_LIMIT]
        rows: dict[int, float] = {}
        missing: set[str] = set()
        shown: dict[int, str] = {}
        for word in given:
            if word in STOPWORDS or (len(word) == 1 and word.isascii()):
                continue
            for term in (word, stem(word)):
                row = row_of(term)
                if row is None:
                    missing.add(term)
                else:
                    rows[row] = float(self._postings.idf[row])
                    if term != word:
                        shown.setdefault(row, word)
        for pair in map("".join, pairwise(given)):
            for term in (pair, stem(pair)):
                if (row := row_of(term)) is not None:
                    rows.setdefault(row, float(self._postings.idf[row]))
                    shown.setdefault(row, pair)
        idf = (*rows.values(), *(max_idf for _ in missing))
        return Terms(tuple(rows), idf, tuple(shown.items()))

    def scores(self, terms: Terms) -> Scores:
        """Return the sum of the terms' weights in each tool: (n_tools,)."""
        import numpy as np

        postings, n_tools = self._postings, self.n_tools
        if not terms.rows:
            return np.zeros(n_tools, dtype=np.float32)
        parts = [postings.tools(row) for row in terms.rows]
        places = np.concatenate([postings.places[part] for part in parts])
        weights = np.concatenate([postings.weights[part] for part in parts])
        return np.bincount(places, weights=weights, minlength=n_tools).astype(np.float32)

    def matched(self, terms: Terms, found: NDArray[np.intp]) -> tuple[tuple[str, ...], ...]:
        """Return the words of a request that stand in each of the tools found, in the request's order."""
        import numpy as np

        hits: list[list[str]] = [[] for _ in found]
        for row, word in terms.shown:
            places = self._postings.places[self._postings.tools(row)]
            at = np.minimum(np.searchsorted(places, found), len(places) - 1)
            for i in np.flatnonzero(places[at] == found):
                hits[i].append(word)
        return tuple(map(tuple, hits))


def _view(entries: Entries, names: NameIndex, servers: Servers, cause: str, places: NDArray[np.intp]) -> LexicalIndex:
    among = names.within(places, servers.n_tools)
    return LexicalIndex(entries.within(places), among, servers.within(places), cause, places)
