"""The permitted tools of a catalog, as words rank them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agent_utilities.ranking.base import Ranking
from agent_utilities.ranking.claims import ClaimRule, count_claimed
from agent_utilities.ranking.name_index import NameIndex
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.ranking.postings import Postings
from agent_utilities.ranking.raising import raise_best
from agent_utilities.ranking.request_terms import RequestTerms
from agent_utilities.ranking.scoring import N_DECIMALS, best_places, round_scores
from agent_utilities.ranking.servers import Servers
from agent_utilities.ranking.shared_words import cut_of

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores

CLAIM = ClaimRule(distance=0.5, share=0.85)
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

        Args:
            query: the request.
            limit: the most to return.
            past: what was asked before; None where nothing was learned.
        """
        import numpy as np

        if not self.n_tools:
            return Ranking(cause=self.cause)
        terms = self.terms(query)
        scores = self.scores(terms)
        eligible = scores > 0
        scores = scores + SERVER_WEIGHT * self.servers.mean_scores(scores)
        norm = max(_LEAST_NORM, float(np.linalg.norm(terms.idf)))
        scores /= norm
        scores *= terms.known_share
        least_claimed = CLAIM.least_score(scores * eligible)
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
            n_claimed=0 if abstained else count_claimed(scores[best], least_claimed, best, named),
            cut=self.cut,
        )

    def permitted(self, places: Places) -> tuple[Places, Places]:
        """Return which of some tools of the catalog are permitted, and where those stand among the permitted ones.

        Args:
            places: (n,) in the catalog.
        """
        import numpy as np

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
        import numpy as np

        if not terms.rows:
            return np.zeros(self.n_tools, dtype=np.float32)
        slices = [self.postings.slice_of(row) for row in terms.rows]
        places = np.concatenate([self.postings.places[part] for part in slices])
        weights = np.concatenate([self.postings.weights[part] for part in slices])
        return np.bincount(places, weights=weights, minlength=self.n_tools).astype(np.float32)

    def evidence(self, text: str) -> float:
        """Return how well the best tool fits a text, servers and names aside; 0 where none has a word of it."""
        import numpy as np

        terms = self.terms(text)
        if not terms.rows:
            return 0.0
        return float(self.scores(terms).max()) / max(_LEAST_NORM, float(np.linalg.norm(terms.idf)))

    def matched(self, terms: RequestTerms, places: Places) -> tuple[tuple[str, ...], ...]:
        """Return for each of some tools the words of a request that stand in it, in the request's order."""
        import numpy as np

        words: list[list[str]] = [[] for _ in places]
        for row, word in terms.words:
            having = self.postings.places[self.postings.slice_of(row)]
            candidates = np.minimum(np.searchsorted(having, places), len(having) - 1)
            for position in np.flatnonzero(having[candidates] == places):
                words[position].append(word)
        return tuple(map(tuple, words))
