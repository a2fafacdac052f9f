"""The lexical ranker: always there, in well under a millisecond, with numpy and a stemmer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.answerability import N_NEIGHBOURS, OWN_QUANTILE
from agent_utilities.ranking.arrays import Places, Scores, np
from agent_utilities.ranking.base import Ranking
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.ranking.scoring import (
    N_DECIMALS,
    best_places,
    count_claimed,
    least_claimed,
    raise_best,
    round_scores,
)
from agent_utilities.ranking.terms import DocumentTerms, Postings, RequestTerms, TermCounts, read_document
from agent_utilities.ranking.traits import NameIndex, Servers
from agent_utilities.ranking.views import Views

REQUEST_SHARE = 0.4
"""Of what a tool's own text has in common with others, what a request has: users have words of their own."""
LEAST_CUT = 0.02
"""Of catalogs so small or so varied that their tools share no words: a common word among many says nothing there."""
N_TOOLS_HALF = 24
"""With so many tools the measure counts half: few tools that all bear one word would ask it of every request."""
_N_SAMPLE = 64
_N_SAMPLE_ENTRIES = 2_000_000


def cut_of(postings: Postings, n_tools: int) -> float:
    """Return the least evidence by words that claims anything.

    As for vectors it follows what 19 of 20 tools' own words reach against the eighth nearest other tool.
    """
    if n_tools <= N_NEIGHBOURS:
        return LEAST_CUT
    own = float(np.quantile(_evidence_of_own(postings, n_tools), OWN_QUANTILE))
    weight = n_tools / (n_tools + N_TOOLS_HALF)
    return round(max(LEAST_CUT, REQUEST_SHARE * weight * own), N_DECIMALS)


def _evidence_of_own(postings: Postings, n_tools: int) -> Scores:
    """Return the evidence of tools' own words where eight nearest others were not there: (n_sampled,).

    A sample stands for the catalog, spread over it evenly: fewer tools where their words are many tools'.
    """
    sizes = np.diff(postings.starts)
    entries_per_tool = max(1.0, float((sizes.astype(np.float64) ** 2).sum()) / n_tools)
    n_sampled = min(n_tools, _N_SAMPLE, max(2 * N_NEIGHBOURS, int(_N_SAMPLE_ENTRIES / entries_per_tool)))
    sample = np.linspace(0, n_tools - 1, n_sampled).astype(np.intp)
    tools, rows = postings.rows_of(sample)
    bounds = np.searchsorted(tools, np.arange(n_sampled + 1))
    evidence = np.zeros(n_sampled, dtype=np.float32)
    for position, place in enumerate(sample):
        own = rows[bounds[position] : bounds[position + 1]]
        if not len(own):
            continue
        entries = np.concatenate([np.arange(postings.starts[row], postings.starts[row + 1]) for row in own])
        scores = np.bincount(postings.places[entries], weights=postings.weights[entries], minlength=n_tools)
        scores[place] = -1
        nth = np.partition(scores, n_tools - N_NEIGHBOURS)[n_tools - N_NEIGHBOURS]
        evidence[position] = nth / float(np.linalg.norm(postings.idf[own]))
    return evidence


CLAIM_DISTANCE, CLAIM_SHARE = 0.5, 0.85
SERVER_WEIGHT = 0.4
PAST_EVIDENCE = 0.5
"""Of the words of past requests where it is asked whether a request is answered at all."""
_LEAST_NORM = 1e-6


@dataclass(frozen=True, eq=False)
class LexicalView:
    """The permitted tools of a catalog, with the weights that words have among them alone.

    Args:
        postings: their words.
        names: their names.
        servers: their servers.
        cause: why there is no more than words; empty where no more was asked for.
        places: where they stand in the catalog; None where they are all of it.
    """

    postings: Postings
    names: NameIndex
    servers: Servers
    cause: str = ""
    places: Places | None = None

    @property
    def n_tools(self) -> int:
        """How many tools are permitted."""
        return self.servers.n_tools

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        arrays = (self.places, self.names.view_places)
        of_view = sum(array.nbytes for array in arrays if array is not None)
        return self.postings.n_bytes + self.servers.n_bytes + of_view

    @cached_property
    def cut(self) -> float:
        """The least first score that claims anything."""
        return cut_of(self.postings, self.n_tools)

    def rank(self, query: str, limit: int, past: PastRequests | None = None) -> Ranking:
        """Return the tools that share words with a request, or with requests that they answered. See `Index.rank`.

        The words that no tool has count against what the others find, twice: a request of many of them is about
        something else.
        """
        if not self.n_tools:
            return Ranking(cause=self.cause)
        terms = self.terms(query)
        scores = self.scores(terms)
        eligible = scores > 0
        scores = scores + SERVER_WEIGHT * self.servers.mean_scores(scores)
        norm = max(_LEAST_NORM, float(np.linalg.norm(terms.idf)))
        scores /= norm
        scores *= terms.known_share
        least = least_claimed(scores * eligible, CLAIM_DISTANCE, CLAIM_SHARE)
        evidence = None
        if past is not None:
            learned, places = self.permitted(past.places)
            gains = past.word_scores(query, self.postings)[learned] / norm
            evidence = max(float((scores * eligible).max()), PAST_EVIDENCE * float(gains.max(initial=0)))
            eligible[places[gains > 0]] = True
            scores = raise_best(scores, places, gains, eligible)
        named = self.names.named_in(query)
        lifted = scores.copy() if named else scores
        lifted[named] += lifted.max(initial=0) + 1
        eligible[named] = True
        best = best_places(lifted, eligible, limit)
        ranked_scores = round_scores(lifted[best])
        if evidence is not None and len(best) and not named:
            ranked_scores = (ranked_scores - ranked_scores[0] + round(evidence, N_DECIMALS)).round(N_DECIMALS)
        abstained = not len(best) or float(ranked_scores[0]) < self.cut
        return Ranking(
            indexes=self.catalog_places(best),
            scores=tuple(ranked_scores.tolist()),
            abstained=abstained,
            matched=self.matched(terms, best),
            cause=self.cause,
            n_claimed=0 if abstained else count_claimed(scores[best], least, best, named),
            cut=self.cut,
        )

    def permitted(self, places: Places) -> tuple[Places, Places]:
        """Return which of some tools of the catalog are permitted, and where those stand among the permitted ones."""
        if self.names.view_places is None:
            return np.arange(len(places)), places
        positions = self.names.view_places[places]
        chosen = np.flatnonzero(positions >= 0)
        return chosen, positions[chosen].astype(np.intp)

    def catalog_places(self, places: Places) -> tuple[int, ...]:
        """Return where tools stand in the catalog."""
        return tuple((places if self.places is None else self.places[places]).tolist())

    def terms(self, query: str) -> RequestTerms:
        """Return a request's terms."""
        return RequestTerms.of(query, self.postings)

    def scores(self, terms: RequestTerms) -> Scores:
        """Return the sum of the terms' weights in each tool: (n_tools,)."""
        if not terms.rows:
            return np.zeros(self.n_tools, dtype=np.float32)
        slices = [self.postings.slice_of(row) for row in terms.rows]
        places = np.concatenate([self.postings.places[part] for part in slices])
        weights = np.concatenate([self.postings.weights[part] for part in slices])
        return np.bincount(places, weights=weights, minlength=self.n_tools).astype(np.float32)

    def evidence(self, text: str) -> float:
        """Return how well the best tool fits a text, servers and names aside; 0 where none has a word of it."""
        terms = self.terms(text)
        if not terms.rows:
            return 0.0
        return float(self.scores(terms).max()) / max(_LEAST_NORM, float(np.linalg.norm(terms.idf)))

    def matched(self, terms: RequestTerms, places: Places) -> tuple[tuple[str, ...], ...]:
        """Return for each of some tools the words of a request that stand in it, in the request's order."""
        words: list[list[str]] = [[] for _ in places]
        for row, word in terms.words:
            having = self.postings.places[self.postings.slice_of(row)]
            candidates = np.minimum(np.searchsorted(having, places), len(having) - 1)
            for position in np.flatnonzero(having[candidates] == places):
                words[position].append(word)
        return tuple(map(tuple, words))


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

        `cause` says why there is no more than a lexical index, where more was asked for.
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
        """Return that of a catalog."""
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
