"""The hybrid ranker: words and vectors together, and the lexical ranker alone whenever vectors can't be had."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Index, RankerError, Ranking, best, count_claimed, least_claimed, rounded
from agent_utilities.ranking.embedding import Embedder, Nearness, Provider, document_vectors
from agent_utilities.ranking.lexical import LexicalIndex, LexicalRanker
from agent_utilities.ranking.text import clauses
from agent_utilities.ranking.unanswerable import UNANSWERABLE
from agent_utilities.ranking.views import Views

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        if len({vector.shape for vector in known.values()}) > 1:
            self._kept = {}
            raise RankerError("the model's vectors have other dimensions than before; all are made anew the next time")
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
        self._nears: Views[Nearness] = Views(lexical.n_tools, near.within)

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
        lexical = self._lexical.view(permitted)
        if not lexical.n_tools:
            return Ranking()
        return self._ranked(lexical, self._nears.of(permitted) or self._near, parts, vectors, limit)

    def _ranked(self, lexical: LexicalIndex, near: Nearness, parts: list[str], vectors: Vectors, limit: int) -> Ranking:
        """Return the tools nearest to a request.

        Args:
            lexical: the permitted tools by words.
            near: their vectors.
            parts: the request and what it is made of.
            vectors: (n_parts, n_dimensions)
            limit: the most to return.
        """
        plain, scores = near.to(vectors)
        terms = [lexical.terms(part) for part in parts]
        by_words = [lexical.scores(each) for each in terms]
        for row, each in zip(scores, by_words, strict=True):
            row += self._weight / lexical.max_idf * each
        fused = scores[0]
        if len(parts) > 1:
            fused = (1 - CLAUSE_WEIGHT) * fused + CLAUSE_WEIGHT * scores[1:].max(axis=0)
        fused = fused + SERVER_WEIGHT * lexical.servers.mean(fused)
        coverage = by_words[0] / max(1e-6, sum(terms[0].idf)) * (self._weight > 0)
        evidence = float((plain + COVERAGE_WEIGHT * coverage).max()) - self._idle(vectors[0])
        named = lexical.names.mentioned(parts[0])
        lifted = fused.copy() if named else fused
        lifted[named] += fused.max() - fused.min() + 1
        found = best(lifted, None, limit)
        if not len(found):
            return Ranking()
        cut = self._embedder.provider.cut
        least = least_claimed(fused, 0 if cut is None else NEAR, DEPTH)
        kept = rounded(lifted[found])
        sure = bool(named)
        first = round(evidence + sure, 6)
        abstained = not sure and cut is not None and first < cut
        return Ranking(
            lexical.catalog_places(found),
            tuple((kept - kept[0] + first).round(6).tolist()),
            abstained,
            lexical.matched(terms[0], found),
            n_claimed=0 if abstained else count_claimed(fused[found], least, found, named),
        )

    def _idle(self, query: NDArray[np.float32]) -> float:
        """Return what a request shares with those that need no tool, to be taken off how well the best tool fits.

        The gap between first and second tells nothing, since catalogs hold tools that are much alike.
        """
        import numpy as np

        return BACKGROUND_WEIGHT * float(np.sort(self._background @ query)[-_N_BACKGROUND:].mean())
