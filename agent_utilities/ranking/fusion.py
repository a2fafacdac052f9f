"""The hybrid ranker: words and vectors together, and the lexical ranker alone whenever vectors can't be had."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.background import UNANSWERABLE
from agent_utilities.ranking.base import Index, RankerError, Ranking, best, least_claimed, mask, rounded
from agent_utilities.ranking.embedding import Embedder, Nearness, Provider, document_vectors
from agent_utilities.ranking.lexical import LexicalIndex, LexicalRanker, Terms
from agent_utilities.ranking.text import clauses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.base import Scores
    from agent_utilities.ranking.embedding import Vectors
    from agent_utilities.ranking.vectors import VectorStore

logger = logging.getLogger(__name__)

LEXICAL_WEIGHT = 0.095
"""Of a BM25 score over the greatest idf, beside a cosine: about .3 to .7 where both are spread over the same range."""
CLAUSE_WEIGHT = 0.3
SERVER_WEIGHT = 0.2
COVERAGE_WEIGHT = 0.2
BACKGROUND_WEIGHT = 0.6
NEAR = 0.35
"""How far behind the best a tool is claimed; on MiniLM's scale, so other models have the next measure only."""
DEPTH = 0.8
_N_BACKGROUND = 3
_N_QUERY_CHARACTERS = 8_000


class HybridRanker:
    """Ranks by words and by meaning; one that can't embed ranks by words and says so once.

    Args:
        open_provider: makes the provider, on first use and in the thread that indexes.
        store: where vectors are kept between processes, or None.
        lexical_weight: 0 ranks by vectors alone.
    """

    def __init__(
        self,
        open_provider: Callable[[], Provider],
        store: VectorStore | None = None,
        lexical_weight: float = LEXICAL_WEIGHT,
    ) -> None:
        self._open = open_provider
        self._store = store
        self._weight = lexical_weight
        self._lexical = LexicalRanker()
        self._embedder: Embedder | None = None
        self._kept: dict[ToolDocument, NDArray[np.float32]] = {}
        self._notices = Notices()

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        """Return a hybrid index, or the lexical one with the cause where vectors can't be had.

        Documents that the last index had are not embedded again.
        """
        if not documents:
            return self._lexical.index(documents)
        try:
            embedder = self._embedder = self._embedder or Embedder(self._open(), self._store)
            vectors = self._vectors(embedder, documents)
            background = embedder.embed(UNANSWERABLE, "query")
        except RankerError as error:
            return self._lexical.index(documents, self._notices.failed(str(error)))
        self._notices.worked()
        near = Nearness.of(vectors, documents)
        return HybridIndex(self._lexical.index(documents), near, embedder, background, self._weight, self._notices)

    def _vectors(self, embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
        import numpy as np

        new = [each for each in dict.fromkeys(documents) if each not in self._kept]
        known = dict(self._kept)
        if new:
            known.update(zip(new, document_vectors(embedder, new), strict=True))
        self._kept = {each: known[each] for each in documents}
        return np.stack([known[each] for each in dict.fromkeys(documents)])


class Notices:
    """Says once that vectors can't be had, and again only after they could be."""

    def __init__(self) -> None:
        self._said = ""

    def failed(self, cause: str) -> str:
        """Log a failure that is news, and return it as the cause of a plainer ranking."""
        text = f"ranked by words alone: {cause}"
        if not self._said:
            logger.warning("%s", text)
        self._said = text
        return text

    def worked(self) -> None:
        """Note that vectors can be had."""
        self._said = ""


class HybridIndex:
    """A catalog to search by words and by meaning.

    Args:
        lexical: the same catalog by words.
        near: its tools' vectors.
        embedder: what embeds requests.
        background: (n, n_dimensions) vectors of requests that no tool need answer.
        lexical_weight: what words count beside vectors.
        notices: where failures are said.
    """

    cause = ""

    def __init__(
        self,
        lexical: LexicalIndex,
        near: Nearness,
        embedder: Embedder,
        background: Vectors,
        lexical_weight: float,
        notices: Notices,
    ) -> None:
        self._lexical = lexical
        self._near = near
        self._embedder = embedder
        self._background = background
        self._weight = lexical_weight
        self._notices = notices

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        """Return the tools nearest to a request; by words alone, with the cause, where it can't be embedded."""
        parts = [query[:_N_QUERY_CHARACTERS]]
        parts += clauses(parts[0])
        try:
            vectors = self._embedder.ask(parts)
            if vectors.shape[1] != self._near.vectors.shape[1]:
                raise RankerError(f"{vectors.shape[1]} dimensions instead of {self._near.vectors.shape[1]}")
        except RankerError as error:
            plain = self._lexical.rank(query, permitted=permitted, limit=limit)
            return replace(plain, cause=self._notices.failed(str(error)))
        self._notices.worked()
        return self._ranked(query, parts, vectors, permitted, limit)

    def _ranked(
        self, query: str, parts: list[str], vectors: Vectors, permitted: Sequence[int] | None, limit: int
    ) -> Ranking:
        lexical = self._lexical
        allowed = mask(permitted, lexical.servers.n_tools)
        plain, centred = self._near.to(vectors)
        terms = [lexical.terms(part) for part in parts]
        by_words = [lexical.scores(each) for each in terms]
        for each, scores in zip(centred, by_words, strict=True):
            each += self._weight / lexical.max_idf * scores
        fused = centred[0]
        if len(parts) > 1:
            fused = (1 - CLAUSE_WEIGHT) * fused + CLAUSE_WEIGHT * centred[1:].max(axis=0)
        coverage = by_words[0] / max(1e-6, sum(terms[0].idf)) * (self._weight > 0)
        evidence = self._evidence(plain[0] + COVERAGE_WEIGHT * coverage, vectors[0], allowed)
        fused = fused + SERVER_WEIGHT * lexical.servers.mean(fused, allowed)
        named = lexical.names.mentioned(query)
        near = NEAR if self._embedder.provider.cut is not None else 0.0
        claimed = rounded(fused) >= least_claimed(fused if allowed is None else fused[allowed], near, DEPTH)
        claimed[named] = True
        fused[named] += fused.max(initial=0) - fused.min(initial=0) + 1
        return self._ranking(fused, evidence, allowed, named, claimed, terms[0], limit)

    def _evidence(self, relevance: Scores, query: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> float:
        """Return how well the best tool fits, less how well requests that need none do.

        The gap between first and second tells nothing, since catalogs hold tools that are much alike.
        """
        import numpy as np

        considered = relevance if allowed is None else relevance[allowed]
        if not len(considered):
            return 0.0
        idle = float(np.sort(self._background @ query)[-_N_BACKGROUND:].mean())
        return round(float(considered.max()) - BACKGROUND_WEIGHT * idle, 6)

    def _ranking(
        self,
        fused: Scores,
        evidence: float,
        allowed: NDArray[np.bool_] | None,
        named: list[int],
        claimed: NDArray[np.bool_],
        terms: Terms,
        limit: int,
    ) -> Ranking:
        found = best(fused, allowed, limit)
        if not len(found):
            return Ranking()
        cut = self._embedder.provider.cut
        sure = bool(set(named) & {int(found[0])})
        kept = rounded(fused[found])
        scores = tuple(round(float(score - kept[0]) + evidence + sure, 6) for score in kept)
        abstained = not sure and cut is not None and scores[0] < cut
        n_claimed = 0 if abstained else int(claimed[found].sum())
        matched = self._lexical.matched(terms, found)
        return Ranking(tuple(map(int, found)), scores, abstained, matched, n_claimed=n_claimed)
