"""The lexical ranker: always there, in well under a millisecond, with numpy and a stemmer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Ranking
from agent_utilities.ranking.lexical_view import LexicalView
from agent_utilities.ranking.name_index import NameIndex
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.ranking.postings import Postings
from agent_utilities.ranking.servers import Servers
from agent_utilities.ranking.term_counts import DocumentTerms, TermCounts, read_document
from agent_utilities.ranking.views import Views

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places

_N_SPARE_TERMS = 10_000


class LexicalRanker:
    """Ranks by the words that a request and a tool share; keeps what it read of documents that have not changed.

    Terms are numbered as they come, and the numbers of those that are gone stay taken. Once there are twice as many as
    the first catalog had, and some more, everything is read anew.
    """

    def __init__(self) -> None:
        self._terms_by_document: dict[ToolDocument, DocumentTerms] = {}
        self._term_numbers: dict[str, int] = {}
        self._n_terms_limit = 0
        self._lock = threading.Lock()

    def index(self, documents: Sequence[ToolDocument], cause: str = "") -> LexicalIndex:
        """Return an index of documents in catalog order; only documents that the last one had not are read.

        Args:
            documents: the catalog.
            cause: why there is no more than a lexical index, where more was asked for.
        """
        with self._lock:
            if len(self._term_numbers) > self._n_terms_limit:
                self._terms_by_document, self._term_numbers = {}, {}
            known, term_numbers = self._terms_by_document, self._term_numbers
            catalog = [known.get(document) or read_document(document, term_numbers) for document in documents]
            if not known:
                self._n_terms_limit = 2 * len(term_numbers) + _N_SPARE_TERMS
            self._terms_by_document = dict(zip(documents, catalog, strict=True))
            counts = TermCounts.of(catalog, term_numbers)
        return LexicalIndex.of(counts, NameIndex.of(documents), Servers.of(documents), cause)


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """A catalog to search by words.

    Args:
        views: what an index of a catalog of some of its tools only would have.
        n_tools: of the whole catalog.
        cause: why there is no more than this.
        past: what was asked of its tools before; None where nothing was learned.
    """

    views: Views[LexicalView]
    n_tools: int
    cause: str = ""
    past: PastRequests | None = None

    @classmethod
    def of(cls, counts: TermCounts, names: NameIndex, servers: Servers, cause: str = "") -> LexicalIndex:
        """Return that of a catalog.

        Args:
            counts: how often its tools have which terms.
            names: which tools bear which names.
            servers: which tools come from which server.
            cause: why there is no more than this.
        """
        whole = LexicalView(Postings.of(counts), names, servers, cause)
        views = Views(whole, servers.n_tools, partial(_view, counts, names, servers, cause))
        return cls(views, servers.n_tools, cause)

    @property
    def n_learned_bytes(self) -> int:
        """What the past requests take."""
        return 0 if self.past is None else self.past.n_bytes

    def view(self, permitted: Sequence[int] | None) -> LexicalView:
        """Return what an index of a catalog of the permitted tools only would have."""
        return self.views.of(permitted)

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        """Return the tools that share words with a request, or with requests that they answered."""
        return self.view(permitted).rank(query, limit, self.past)

    def learn(self, past: PastRequests) -> LexicalIndex:
        """Return the same index that knows past requests too."""
        return replace(self, past=past if len(past.places) else None)


def _view(counts: TermCounts, names: NameIndex, servers: Servers, cause: str, places: Places) -> LexicalView:
    return LexicalView(
        postings=Postings.of(counts.within(places)),
        names=names.within(places, servers.n_tools),
        servers=servers.within(places),
        cause=cause,
        places=places,
    )
