"""One catalog made ready to be ranked, and the answers that rankings of it come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import Index, Ranking
from agent_utilities.ranking.plain_words import bears
from agent_utilities.resolution.answer import CallerScope, Question, combined_answer
from agent_utilities.selection.model import RankedTool, Resolution

BY_WORDS = "ranked by words alone"
"""What callers are told where vectors were wanted and aren't there; the reason is for the operator's log."""


@dataclass(frozen=True, eq=False)
class CatalogIndex:
    """A catalog made ready to be ranked.

    Args:
        version: differs from that of every other one.
        digest: of the catalog.
        names: of its tools, in catalog order.
        lexical: by words, which always works.
        best: by whatever was asked for, as far as it can be had.
        lacks_vectors: whether that is less than what was asked for.
        documents: its tools, aligned with `names`.
    """

    version: str
    digest: str
    names: tuple[str, ...]
    lexical: Index
    best: Index
    lacks_vectors: bool
    documents: Sequence[ToolDocument] = ()

    def permitted(self, scope: CallerScope | None) -> tuple[int, ...] | None:
        """Return the places of the tools in a scope, in catalog order; None for all."""
        if scope is None:
            return None
        names = scope.names()
        return tuple(place for place, name in enumerate(self.names) if name in names)

    def answer(
        self, question: Question, literal: Sequence[str], ranking: Ranking, cause: str, *, is_temporary: bool = False
    ) -> Resolution:
        """Return what a ranking of the tools in scope comes to, together with the literal matches."""
        answer = combined_answer(question, literal, self._tools(ranking), ranking.n_claimed)
        why_none = "" if answer.tools else ranking.why_none
        return replace(answer, cause=", ".join(filter(None, (cause, why_none))), is_temporary=is_temporary)

    def bearing(self, question: Question) -> tuple[int, ...]:
        """Return the places of the tools in scope that bear a query as it stands; processor work, for a thread."""
        permitted = self.permitted(question.scope)
        places = range(len(self.documents)) if permitted is None else permitted
        return tuple(place for place in places if bears(question.text, self.documents[place]))

    def best_tools(self, limit: int, ranking: Ranking, bearing: Sequence[int]) -> Resolution:
        """Return the best tools, whether or not they are said to answer.

        Args:
            limit: the most to name.
            ranking: of the tools in scope; those named come first in it.
            bearing: places of those that bear the query as it stands, where none has a word of it: part of a name, or
                words written together. They come first, the better ranked before the others.
        """
        ranked = {self.names[place]: tool for place, tool in zip(ranking.indexes, self._tools(ranking), strict=True)}
        literal = frozenset(self.names[place] for place in bearing)
        tools = (
            *(tool for name, tool in ranked.items() if name in literal),
            *(RankedTool(name) for name in map(self.names.__getitem__, bearing) if name not in ranked),
            *(tool for name, tool in ranked.items() if name not in literal),
        )[: max(0, limit)]
        return Resolution("ranked" if tools else "no_match", tools, "" if literal else ranking.why_none)

    def _tools(self, ranking: Ranking) -> list[RankedTool]:
        return [
            RankedTool(self.names[place], score, words)
            for place, score, words in zip(ranking.indexes, ranking.scores, ranking.matched, strict=True)
        ]
