"""The permitted tools of a catalog, as words and vectors together rank them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.base import Ranking
from agent_utilities.ranking.claims import ClaimRule, count_claimed
from agent_utilities.ranking.lexical_view import LexicalView
from agent_utilities.ranking.nearness import Nearness
from agent_utilities.ranking.scoring import N_DECIMALS, best_places, round_scores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Scores, Vectors

LEXICAL_WEIGHT = 0.095
"""Of a BM25 score over the greatest idf, beside a cosine: about .3 to .7 where both are spread over the same range."""
CLAUSE_WEIGHT = 0.3
SERVER_WEIGHT = 0.2
COVERAGE_WEIGHT = 0.2
UNANSWERABLE_WEIGHT = 0.6
CLAIM = ClaimRule(distance=0.35, share=0.8)
CLAIM_UNMEASURED = ClaimRule(distance=0, share=0.8)
"""The distance is on MiniLM's scale, so models whose cut was never measured have the share only."""
_N_NEAREST_UNANSWERABLE = 3
_LEAST_IDF = 1e-6


@dataclass(frozen=True, eq=False)
class EmbeddedRequest:
    """A request and the parts of it that may each want a tool of its own.

    Args:
        query: as it came; names are looked for in it.
        texts: what stands for the whole first, then its parts.
        vectors: (n_texts, n_dimensions) aligned with `texts`.
    """

    query: str
    texts: Sequence[str]
    vectors: Vectors


@dataclass(frozen=True, eq=False)
class HybridView:
    """The permitted tools of a catalog.

    Args:
        lexical: by words.
        nearness: by vectors.
        unanswerable: (n, n_dimensions) vectors of requests that no tool need answer.
        lexical_weight: what words count beside vectors; 0 for nothing.
        cut: the least evidence that claims anything; None where that was never measured.
    """

    lexical: LexicalView
    nearness: Nearness
    unanswerable: Vectors
    lexical_weight: float
    cut: float | None

    def rank(self, request: EmbeddedRequest, limit: int) -> Ranking:
        """Return the tools nearest to a request. See `Index.rank`."""
        lexical = self.lexical
        terms = [lexical.terms(text) for text in request.texts]
        word_scores = [lexical.scores(text_terms) for text_terms in terms]
        cosines = self.nearness.to(request.vectors)
        fused = self._fuse(cosines.centred, word_scores)
        named = lexical.names.named_in(request.query)
        lifted = fused.copy() if named else fused
        lifted[named] += fused.max() - fused.min() + 1
        best = best_places(lifted, None, limit)
        if not len(best):
            return Ranking()
        coverage = word_scores[0] / max(_LEAST_IDF, sum(terms[0].idf)) * (self.lexical_weight > 0)
        evidence = float((cosines.whole + COVERAGE_WEIGHT * coverage).max()) - self._unanswerable(request.vectors[0])
        first_score = round(evidence + bool(named), N_DECIMALS)
        abstained = not named and self.cut is not None and first_score < self.cut
        least_claimed = (CLAIM_UNMEASURED if self.cut is None else CLAIM).least_score(fused)
        ranked_scores = round_scores(lifted[best])
        return Ranking(
            indexes=lexical.catalog_places(best),
            scores=tuple((ranked_scores - ranked_scores[0] + first_score).round(N_DECIMALS).tolist()),
            abstained=abstained,
            matched=lexical.matched(terms[0], best),
            n_claimed=0 if abstained else count_claimed(fused[best], least_claimed, best, named),
        )

    def _fuse(self, cosines: Vectors, word_scores: Sequence[Scores]) -> Scores:
        """Return how well each tool fits: the whole request, the best part of it, and the tool's server.

        Args:
            cosines: (n_texts, n_tools), which are overwritten; of the whole request first, then of its parts.
            word_scores: the same by words.
        """
        for text_cosines, text_scores in zip(cosines, word_scores, strict=True):
            text_cosines += self.lexical_weight / self.lexical.postings.max_idf * text_scores
        whole, parts = cosines[0], cosines[1:]
        fused: Scores = (1 - CLAUSE_WEIGHT) * whole + CLAUSE_WEIGHT * parts.max(axis=0) if len(parts) else whole
        return fused + SERVER_WEIGHT * self.lexical.servers.mean_scores(fused)

    def _unanswerable(self, query: NDArray[np.float32]) -> float:
        """Return what a request shares with those that need no tool, to be taken off how well the best tool fits.

        The gap between first and second tells nothing, since catalogs hold tools that are much alike.

        Args:
            query: (n_dimensions,) of the whole request.
        """
        import numpy as np

        nearest = np.sort(self.unanswerable @ query)[-_N_NEAREST_UNANSWERABLE:]
        return UNANSWERABLE_WEIGHT * float(nearest.mean())
