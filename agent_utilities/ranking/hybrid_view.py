"""The permitted tools of a catalog, as words and vectors together rank them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.answerability import Answerability
from agent_utilities.ranking.base import Ranking
from agent_utilities.ranking.claims import ClaimRule, count_claimed
from agent_utilities.ranking.lexical_view import LexicalView
from agent_utilities.ranking.scoring import N_DECIMALS, best_places, round_scores

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Scores, Vectors

LEXICAL_WEIGHT = 0.095
"""Of a BM25 score over the greatest idf, beside a cosine: about .3 to .7 where both are spread over the same range."""
CLAUSE_WEIGHT = 0.3
SERVER_WEIGHT = 0.2
CLAIM_SHARE = 0.8
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
        answerability: by vectors, and whether a request is answered at all.
        lexical_weight: what words count beside vectors; 0 for nothing.
        claim_distance: how far behind the best a tool may lie and be claimed, on the model's scale; 0 where that was
            never measured.
    """

    lexical: LexicalView
    answerability: Answerability
    lexical_weight: float
    claim_distance: float

    def rank(self, request: EmbeddedRequest, limit: int) -> Ranking:
        """Return the tools nearest to a request. See `Index.rank`."""
        lexical = self.lexical
        terms = [lexical.terms(text) for text in request.texts]
        word_scores = [lexical.scores(text_terms) for text_terms in terms]
        cosines = self.answerability.nearness.to(request.vectors)
        fused = self._fuse(cosines.centred, word_scores)
        named = lexical.names.named_in(request.query)
        lifted = fused.copy() if named else fused
        lifted[named] += fused.max() - fused.min() + 1
        best = best_places(lifted, None, limit)
        if not len(best):
            return Ranking()
        coverage = word_scores[0] / max(_LEAST_IDF, sum(terms[0].idf)) * (self.lexical_weight > 0)
        evidence = self.answerability.evidence(request.vectors[0], cosines.whole, coverage)
        first_score = round(evidence + bool(named), N_DECIMALS)
        abstained = not named and first_score < self.answerability.cut
        least_claimed = ClaimRule(self.claim_distance, CLAIM_SHARE).least_score(fused)
        ranked_scores = round_scores(lifted[best])
        return Ranking(
            indexes=lexical.catalog_places(best),
            scores=tuple((ranked_scores - ranked_scores[0] + first_score).round(N_DECIMALS).tolist()),
            abstained=abstained,
            matched=lexical.matched(terms[0], best),
            n_claimed=0 if abstained else count_claimed(fused[best], least_claimed, best, named),
            cut=self.answerability.cut,
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
