"""The hybrid ranker: words and vectors together, and the lexical ranker alone whenever vectors can't be had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.answerability import Answerability
from agent_utilities.ranking.base import Index, RankerError, Ranking
from agent_utilities.ranking.document_vectors import document_vectors
from agent_utilities.ranking.embedding import Embedder, Provider
from agent_utilities.ranking.fallback_notice import FallbackNotice
from agent_utilities.ranking.hybrid_view import LEXICAL_WEIGHT, EmbeddedRequest, HybridView, LearnedVectors
from agent_utilities.ranking.lexical import LexicalIndex, LexicalRanker
from agent_utilities.ranking.nearness import Nearness
from agent_utilities.ranking.past_requests import PastRequests
from agent_utilities.ranking.past_vectors import PastVectors
from agent_utilities.ranking.request_texts import RequestTexts, read_request
from agent_utilities.ranking.shared_embedder import SharedEmbedder
from agent_utilities.ranking.unanswerable import UNANSWERABLE
from agent_utilities.ranking.verbs import ToolVerbs
from agent_utilities.ranking.views import Views

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Vectors
    from agent_utilities.ranking.vector_store import VectorStore


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
        self.embedder = SharedEmbedder(open_provider, store)
        """What embeds, for all in the server that embed."""
        self._lexical_weight = lexical_weight
        self._lexical = LexicalRanker()
        self._vector_by_document: dict[ToolDocument, NDArray[np.float32]] = {}
        self._notice = FallbackNotice()
        self._learning_notice = FallbackNotice("past requests are learned by words alone")

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        """Return a hybrid index, or the lexical one with the cause where vectors can't be had.

        Documents that the last index had are not embedded again.
        """
        if not documents:
            return self._lexical.index(documents)
        try:
            embedder = self.embedder()
            unanswerable = embedder.embed(UNANSWERABLE, "query")
            vectors = self._distinct_vectors(embedder, documents, unanswerable.shape[1])
        except RankerError as error:
            return self._lexical.index(documents, self._notice.failed(str(error)))
        self._notice.worked()
        answerability = Answerability.of(Nearness.of(vectors, documents), unanswerable)
        return HybridIndex(
            self._lexical.index(documents),
            Views(answerability, len(documents), answerability.within),
            ToolVerbs.of(documents),
            embedder,
            self._lexical_weight,
            self._notice,
            self._learning_notice,
        )

    def _distinct_vectors(self, embedder: Embedder, documents: Sequence[ToolDocument], n_dimensions: int) -> Vectors:
        """Return a vector for each different document, in order of their first place.

        Raises:
            RankerError: the provider can't, or there are vectors of other dimensions than it gives now.
        """
        import numpy as np

        distinct = list(dict.fromkeys(documents))
        known = dict(self._vector_by_document)
        new = [document for document in distinct if document not in known]
        if new:
            known.update(zip(new, document_vectors(embedder, new), strict=True))
        if any(vector.shape != (n_dimensions,) for vector in known.values()):
            self._vector_by_document = {}
            raise RankerError("the model's vectors have other dimensions than before; all are made anew the next time")
        self._vector_by_document = {document: known[document] for document in distinct}
        return np.stack(list(self._vector_by_document.values()))


@dataclass(frozen=True, eq=False)
class HybridIndex:
    """A catalog to search by words and by meaning.

    Args:
        lexical: the same catalog by words.
        views: vectors of all of its tools or of some, and whether a request is answered at all.
        verbs: what kind of thing each of its tools does.
        embedder: what embeds requests.
        lexical_weight: what words count beside vectors.
        notice: where failures are said.
        learning_notice: where those of learning are.
        learned: what was asked of its tools before; None where nothing was learned.
    """

    lexical: LexicalIndex
    views: Views[Answerability]
    verbs: ToolVerbs
    embedder: Embedder
    lexical_weight: float
    notice: FallbackNotice
    learning_notice: FallbackNotice
    learned: LearnedVectors | None = None

    @property
    def cause(self) -> str:
        """Nothing is missing."""
        return ""

    @property
    def n_learned_bytes(self) -> int:
        """What the past requests and their vectors take."""
        return self.lexical.n_learned_bytes + (0 if self.learned is None else self.learned.vectors.n_bytes)

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        """Return the tools nearest to a request; by words alone, with the cause, where it can't be embedded."""
        lexical = self.lexical.view(permitted)
        if not lexical.n_tools:
            return Ranking()
        try:
            request = self._embed(query, read_request(query, lexical.evidence))
        except RankerError as error:
            by_words = self.lexical.rank(query, permitted=permitted, limit=limit)
            return replace(by_words, cause=self.notice.failed(str(error)))
        self.notice.worked()
        answerability = self.views.of(permitted)
        verbs = self.verbs.within(lexical.places)
        claim_distance = self.embedder.provider.claim_distance
        view = HybridView(lexical, answerability, verbs, self.lexical_weight, claim_distance, self.learned)
        return view.rank(request, limit)

    def learn(self, past: PastRequests) -> HybridIndex:
        """Return the same index that knows past requests too.

        Raises:
            RankerError: they can't be embedded; that is logged once.
        """
        lexical = self.lexical.learn(past)
        if lexical.past is None:
            return replace(self, lexical=lexical, learned=None)
        whole = self.views.of(None)
        texts = whole.nearness.of_tools(past.places)
        try:
            vectors = PastVectors.of(past, texts, self.embedder, whole.unanswerable)
        except RankerError as error:
            raise RankerError(self.learning_notice.failed(str(error))) from None
        self.learning_notice.worked()
        return replace(self, lexical=lexical, learned=LearnedVectors(past, vectors))

    def _embed(self, query: str, texts: RequestTexts) -> EmbeddedRequest:
        vectors = self.embedder.embed_request(texts.to_embed)
        n_dimensions = self.views.of(None).unanswerable.shape[1]
        if vectors.shape[1] != n_dimensions:
            raise RankerError(f"{vectors.shape[1]} dimensions instead of {n_dimensions}")
        return EmbeddedRequest(query, (texts.whole, *texts.parts), texts.vectors(vectors))
