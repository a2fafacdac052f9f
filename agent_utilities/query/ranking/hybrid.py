"""The hybrid ranker: words, vectors and kinds of tools together, and words alone where vectors are unavailable."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument, split_identifier
from agent_utilities.catalog.words import without_negated
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.answerability import Answerability, PastRequests, PastVectors
from agent_utilities.query.ranking.arrays import NDArray, Places, Scores, Vectors, np
from agent_utilities.query.ranking.base import BY_WORDS, Parts, Ranking, least_claimed, raise_best, views_of
from agent_utilities.query.ranking.embedding import Embedder, Provider, document_vectors, read_request
from agent_utilities.query.ranking.lexical import LexicalIndex, LexicalRanker, LexicalView
from agent_utilities.query.ranking.terms import RequestTerms
from agent_utilities.query.ranking.triggers import UNANSWERABLE

if TYPE_CHECKING:
    from agent_utilities.query.ranking.vector_store import VectorStore

LOSS = 0.05
"""The penalty of a tool whose kind of action differs from the request's."""
_VERBS = (
    "list get show describe read fetch retrieve view display find search query look lookup check count inspect browse"
    " print see enumerate what which who how where",
    "create add new make build generate insert register provision",
    "update edit change modify set rename patch replace configure adjust alter",
    "delete remove destroy drop erase purge clear unregister deregister",
)
_KIND_OF = {verb: 1 << number for number, verbs in enumerate(_VERBS) for verb in verbs.split()}
_N_CHARACTERS = 8_000
_WORD = re.compile(r"[a-z]+")
_KIND_OF_FORM = {
    form: kind
    for verb, kind in _KIND_OF.items()
    for form in (verb, f"{verb}s", f"{verb}es", f"{verb[:-1]}ies" if verb.endswith("y") else verb)
}
"""With forms such as `lists`: descriptions begin with them."""


def kinds_of_request(text: str) -> int:
    """Return the kinds of all known verbs in a text, as bits; 0 for none."""
    kinds = 0
    for word in _WORD.findall(text[:_N_CHARACTERS].lower()):
        kinds |= _KIND_OF.get(word, 0)
    return kinds


def kind_of_tool(document: ToolDocument) -> int:
    """Return the kind of a tool's action, a bit, by its name or its description's first word; 0 where unclear.

    >>> kind_of_tool(ToolDocument("alert_delete")) == kinds_of_request("please remove the alert")
    True
    >>> kind_of_tool(ToolDocument("create_or_update_alert"))
    0
    """
    kinds = {_KIND_OF[word] for word in split_identifier(document.read_name).lower().split() if word in _KIND_OF}
    if kinds:
        return kinds.pop() if len(kinds) == 1 else 0
    first = _WORD.match(document.description[:40].lower())
    return _KIND_OF_FORM.get(first.group(), 0) if first else 0


def of_another_kind(kinds: NDArray[np.uint8], text: str) -> NDArray[np.bool_]:
    """Return which tools have a kind that a text has not: (n_tools,)."""
    wanted = kinds_of_request(text)
    other: NDArray[np.bool_] = (kinds > 0) & (kinds & wanted == 0) & (wanted > 0)
    return other


LEXICAL_WEIGHT = 0.095
"""The weight of a BM25 score over the greatest idf, beside a cosine: .3 to .7 where both have the same range."""
N_WHOLE_PARTS = 4
"""The weight of the whole beside the best part, in parts: the more parts there are, the less it says of each."""
LEAD_SHARE = 0.3
"""The share of the best tool's score for a part that is subtracted from all scores for it, so that no part prevails."""
SERVER_WEIGHT = 0.2
CLAIM_SHARE = 0.8
PAST_SPREADS = 2.0
"""How much more evidence past requests must give than a tool's own text, in spreads of unanswerable requests."""
_LEAST_IDF = 1e-6


def _with_best_part(by_text: Vectors, judged: Vectors | None = None) -> Scores:
    """Average the row of the whole request, which is first, and that of its best part, by `judged`: (n_tools,)."""
    scores: Scores = by_text[0]
    if n_parts := len(by_text) - 1:
        best = (by_text if judged is None else judged)[1:].argmax(axis=0)
        of_best = by_text[1:][best, np.arange(by_text.shape[1])]
        scores = (N_WHOLE_PARTS * scores + n_parts * of_best) / (N_WHOLE_PARTS + n_parts)
    return scores


class HybridRanker:
    """Ranks by words and vectors; by words alone where nothing can be embedded, by vectors alone if words weigh 0."""

    def __init__(
        self,
        open_provider: Callable[[], Provider],
        store: VectorStore | None = None,
        lexical_weight: float = LEXICAL_WEIGHT,
    ) -> None:
        self.embedder = Embedder(open_provider, store)
        """The one embedder of the server."""
        self._lexical_weight = lexical_weight
        self._vector_by_document: dict[ToolDocument, NDArray[np.float32]] = {}

    def index(
        self, documents: Sequence[ToolDocument], by_words: LexicalIndex | None = None
    ) -> HybridIndex | LexicalIndex:
        """Return a hybrid index, or the lexical one with the cause where vectors are unavailable.

        Documents of the last index are not embedded again. `by_words` is the lexical index where it was made before.
        """
        lexical = by_words or LexicalRanker().index(documents)
        if not documents:
            return lexical
        try:
            unanswerable = self.embedder.embed(UNANSWERABLE, "query")
            vectors = self._distinct_vectors(documents)
        except RankerError as error:
            return replace(lexical, cause=f"{BY_WORDS}: {error}")
        row_of = {document: row for row, document in enumerate(dict.fromkeys(documents))}
        rows = np.array([row_of[document] for document in documents], dtype=np.intp)
        answerability = Answerability.of(vectors, rows, unanswerable)
        return HybridIndex(
            lexical,
            views_of(answerability, len(documents), answerability.within),
            np.array(list(map(kind_of_tool, documents)), dtype=np.uint8),
            self.embedder,
            self._lexical_weight,
        )

    def _distinct_vectors(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Return a vector for each different document, in order of their first place."""
        distinct = list(dict.fromkeys(documents))
        known = dict(self._vector_by_document)
        new = [document for document in distinct if document not in known]
        if new:
            known.update(zip(new, document_vectors(self.embedder, new), strict=True))
        self._vector_by_document = {document: known[document] for document in distinct}
        return np.stack(list(self._vector_by_document.values()))


@dataclass(frozen=True, eq=False)
class HybridIndex:
    """An index of a catalog by words and vectors.

    Args:
        answerability: returns the vectors of the permitted tools.
        kinds: (n_tools,) by `kind_of_tool`.
        learned: past requests; None for none.
    """

    lexical: LexicalIndex
    answerability: Callable[[Sequence[int] | None], Answerability]
    kinds: NDArray[np.uint8]
    embedder: Embedder
    lexical_weight: float
    learned: PastVectors | None = None
    cause: str = ""

    def rank(
        self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25, parts: Parts | None = None
    ) -> Ranking:
        """Rank the tools; by words alone, with the cause, where the request can't be embedded."""
        lexical, whole = self.lexical.view(permitted), query
        query = without_negated(query)
        if not lexical.n_tools or (whole and not query):
            return Ranking()
        try:
            texts = read_request(query, lexical.evidence)
            vectors = texts.vectors(self.embedder.embed_request(texts.to_embed))
        except RankerError as error:
            by_words = self.lexical.rank(query, permitted=permitted, limit=limit, parts=parts)
            return replace(by_words, cause=f"{BY_WORDS}: {error}")
        answerability = self.answerability(permitted)
        return self.nearest(lexical, answerability, query, (texts.whole, *texts.parts), vectors, limit, parts)

    def nearest(
        self,
        lexical: LexicalView,
        answerability: Answerability,
        query: str,
        texts: Sequence[str],
        vectors: Vectors,
        limit: int,
        parts: Parts | None = None,
    ) -> Ranking:
        """Rank the tools for an embedded request. See `Index.rank`.

        Args:
            lexical, answerability: the permitted tools by words, and by vectors.
            query: in which tools may be named.
            texts: the whole first, then its parts.
            vectors: (n_texts, n_dimensions) of those.
        """
        terms = [RequestTerms.of(text, lexical.postings) for text in texts]
        word_scores = [text_terms.scores(lexical.postings) for text_terms in terms]
        plain, centred = answerability.cosines(vectors)
        # The share of each text's words that each tool has, weighted by idf.
        idf = np.array([[max(_LEAST_IDF, sum(text_terms.idf))] for text_terms in terms], dtype=np.float32)
        coverage: Vectors = np.stack(word_scores) / idf * (self.lexical_weight > 0)
        evidence = answerability.evidence(vectors, plain, coverage)
        gains = self._gains(lexical, answerability.mean, vectors, centred)
        fused = self._fuse(lexical, texts, centred, word_scores, parts)
        scores = fused
        if gains is not None:
            places, of_past, nearest = gains
            scores = raise_best(fused, places, of_past)
            if parts is not None:
                parts["past requests"] = scores - fused
            nearest -= PAST_SPREADS * answerability.spread
            evidence = max(evidence, answerability.gap(vectors[0], nearest))
        named = lexical.named_in(query)
        return lexical.ranking(
            terms[0],
            scores,
            named,
            float(scores.max() - scores.min()) + 1,
            least_claimed(fused, self.embedder.provider.claim_distance, CLAIM_SHARE),
            answerability.cut,
            limit,
            evidence=evidence + bool(named),
            parts=parts,
        )

    def _fuse(
        self,
        lexical: LexicalView,
        texts: Sequence[str],
        cosines: Vectors,
        word_scores: Sequence[Scores],
        parts: Parts | None,
    ) -> Scores:
        """Combine cosines, words and kinds for the whole request, its best part, and the tool's server: (n_tools,).

        The cosines, (n_texts, n_tools), are overwritten.
        """
        kinds = self.kinds if lexical.places is None else self.kinds[lexical.places]
        plain = cosines.copy() if parts is not None else cosines
        for text, text_cosines, text_scores in zip(texts, cosines, word_scores, strict=True):
            text_cosines += self.lexical_weight / lexical.postings.max_idf * text_scores
            text_cosines[of_another_kind(kinds, text)] -= LOSS
        if len(cosines) > 1:
            cosines[1:] -= LEAD_SHARE * cosines[1:].max(axis=1, keepdims=True)
        fused = _with_best_part(cosines)
        of_servers = SERVER_WEIGHT * lexical.server_means(fused)
        if parts is not None:
            words = np.stack(word_scores) * (self.lexical_weight / lexical.postings.max_idf)
            other = np.stack([of_another_kind(kinds, text) for text in texts]) * -LOSS
            every = {"vectors": plain, "words": words, "verbs": other}
            every["best part's lead"] = cosines - plain - words - other
            parts |= {name: _with_best_part(part, cosines) for name, part in every.items()}
            parts["server"] = of_servers
        return fused + of_servers

    def _gains(
        self, lexical: LexicalView, mean: NDArray[np.float32], vectors: Vectors, cosines: Vectors
    ) -> tuple[Places, Scores, float] | None:
        """Return the gains of permitted tools by past requests; None where there are none.

        Args:
            mean: as of `Answerability`.
            vectors: (n_texts, n_dimensions) of a request.
            cosines: (n_texts, n_tools) to the tools' own texts, centred.

        Returns:
            The places of those tools among the permitted ones, their gains, and the highest cosine of the request to a
            blended vector.
        """
        if self.learned is None:
            return None
        learned, places = lexical.permitted(self.learned.places)
        if not len(learned):
            return None
        nearness, gains = self.learned.within(learned).nearness(vectors, mean)
        return places, _with_best_part(gains - cosines[:, places]), float(nearness[0].max())

    def learn(self, past: PastRequests) -> HybridIndex:
        """Return the index with past requests; `RankerError` where they can't be embedded."""
        lexical = self.lexical.learn(past)
        if lexical.past is None:
            return replace(self, lexical=lexical, learned=None)
        whole = self.answerability(None)
        vectors = PastVectors.of(past, whole.vectors[whole.rows[past.places]], self.embedder, whole.unanswerable)
        return replace(self, lexical=lexical, learned=vectors)
