"""The permitted tools of a catalog, as words and vectors together rank them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.answerability import Answerability
from agent_utilities.ranking.base import Ranking
from agent_utilities.ranking.claims import ClaimRule, count_claimed
from agent_utilities.ranking.lexical_view import LexicalView
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.ranking.past_vectors import PastVectors
from agent_utilities.ranking.raising import raise_best
from agent_utilities.ranking.request_terms import RequestTerms
from agent_utilities.ranking.scoring import N_DECIMALS, best_places, round_scores
from agent_utilities.ranking.verbs import LOSS, ToolVerbs

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores, Vectors

LEXICAL_WEIGHT = 0.095
"""Of a BM25 score over the greatest idf, beside a cosine: about .3 to .7 where both are spread over the same range."""
N_WHOLE_PARTS = 4
"""So many parts the whole counts as, beside the best of the parts: the more there are, the less it says of each."""
LEAD_SHARE = 0.3
"""Of the best tool's score for a part, taken from all scores for it: or the part that fits some tool best fills all."""
SERVER_WEIGHT = 0.2
CLAIM_SHARE = 0.8
PAST_SPREADS = 2.0
"""How much more evidence past requests must give than a tool's own text does, in spreads of unanswerable requests."""
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
class LearnedVectors:
    """What was asked of the tools of a catalog before.

    Args:
        requests: the requests.
        vectors: theirs.
    """

    requests: PastRequests
    vectors: PastVectors


@dataclass(frozen=True, eq=False)
class Gains:
    """What past requests say for a request.

    Args:
        places: (n_learned,) of the permitted tools that have any, among the permitted ones.
        scores: (n_learned,) how much better they make each of them fit.
        nearest: the highest cosine of the request to any of them.
    """

    places: Places
    scores: Scores
    nearest: float


@dataclass(frozen=True, eq=False)
class HybridView:
    """The permitted tools of a catalog.

    Args:
        lexical: by words.
        answerability: by vectors, and whether a request is answered at all.
        verbs: what kind of thing each does.
        lexical_weight: what words count beside vectors; 0 for nothing.
        claim_distance: how far behind the best a tool may lie and be claimed, on the model's scale; 0 where that was
            never measured.
        learned: what was asked before; None where nothing was learned.
    """

    lexical: LexicalView
    answerability: Answerability
    verbs: ToolVerbs
    lexical_weight: float
    claim_distance: float
    learned: LearnedVectors | None = None

    def rank(self, request: EmbeddedRequest, limit: int) -> Ranking:
        """Return the tools nearest to a request. See `Index.rank`."""
        lexical = self.lexical
        terms = [lexical.terms(text) for text in request.texts]
        word_scores = [lexical.scores(text_terms) for text_terms in terms]
        cosines = self.answerability.nearness.to(request.vectors)
        gains = self._gains(request, cosines.centred)
        fused = self._fuse(request.texts, cosines.centred, word_scores)
        scores = fused if gains is None else raise_best(fused, gains.places, gains.scores)
        named = lexical.names.named_in(request.query)
        lifted = scores.copy() if named else scores
        lifted[named] += scores.max() - scores.min() + 1
        best = best_places(lifted, None, limit)
        if not len(best):
            return Ranking()
        evidence = self.answerability.evidence(request.vectors, cosines.plain, self._coverage(terms, word_scores))
        if gains is not None:
            of_past = gains.nearest - PAST_SPREADS * self.answerability.spread
            evidence = max(evidence, self.answerability.gap(request.vectors[0], of_past))
        first_score = round(evidence + bool(named), N_DECIMALS)
        abstained = not named and first_score < self.answerability.cut
        least_claimed = ClaimRule(self.claim_distance, CLAIM_SHARE).least_score(fused)
        ranked_scores = round_scores(lifted[best])
        return Ranking(
            indexes=lexical.catalog_places(best),
            scores=tuple((ranked_scores - ranked_scores[0] + first_score).round(N_DECIMALS).tolist()),
            abstained=abstained,
            matched=lexical.matched(terms[0], best),
            n_claimed=0 if abstained else count_claimed(scores[best], least_claimed, best, named),
            cut=self.answerability.cut,
        )

    def _coverage(self, terms: Sequence[RequestTerms], word_scores: Sequence[Scores]) -> Vectors:
        """Return the share of each text's words that each tool has, by how rare they are: (n_texts, n_tools)."""
        import numpy as np

        idf = np.array([[max(_LEAST_IDF, sum(text_terms.idf))] for text_terms in terms], dtype=np.float32)
        coverage: Vectors = np.stack(word_scores) / idf
        return coverage * (self.lexical_weight > 0)

    def _fuse(self, texts: Sequence[str], cosines: Vectors, word_scores: Sequence[Scores]) -> Scores:
        """Return how well each tool fits: the whole request, the best part of it, and the tool's server.

        Args:
            texts: the whole request first, then its parts.
            cosines: (n_texts, n_tools) of them, which are overwritten.
            word_scores: the same by words.
        """
        for text, text_cosines, text_scores in zip(texts, cosines, word_scores, strict=True):
            text_cosines += self.lexical_weight / self.lexical.postings.max_idf * text_scores
            text_cosines[self.verbs.of_another_kind(text)] -= LOSS
        if len(cosines) > 1:
            cosines[1:] -= LEAD_SHARE * cosines[1:].max(axis=1, keepdims=True)
        fused = _with_best_part(cosines)
        return fused + SERVER_WEIGHT * self.lexical.servers.mean_scores(fused)

    def _gains(self, request: EmbeddedRequest, cosines: Vectors) -> Gains | None:
        """Return what past requests of permitted tools say; None where there are none.

        Args:
            request: what is asked.
            cosines: (n_texts, n_tools) as the tools' own texts make them.
        """
        if self.learned is None:
            return None
        learned, places = self.lexical.permitted(self.learned.requests.places)
        if not len(learned):
            return None
        vectors = self.learned.vectors.within(learned)
        nearness = vectors.cosines(request.vectors)
        gains = vectors.gains(request.vectors, nearness, self.answerability.nearness)
        return Gains(places, _with_best_part(gains - cosines[:, places]), float(nearness[0].max()))


def _with_best_part(by_text: Vectors) -> Scores:
    """Return what the whole request and the best part of it come to: (n_tools,).

    Args:
        by_text: (n_texts, n_tools) of the whole request first, then of its parts.
    """
    scores: Scores = by_text[0]
    if n_parts := len(by_text) - 1:
        scores = (N_WHOLE_PARTS * scores + n_parts * by_text[1:].max(axis=0)) / (N_WHOLE_PARTS + n_parts)
    return scores
