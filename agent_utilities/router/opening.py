"""The ranker that a router's argument asks for."""

from __future__ import annotations

from agent_utilities.errors import InputError
from agent_utilities.ranking.base import Ranker
from agent_utilities.ranking.open import open_ranker

_KINDS = ("hybrid", "embedding")


def open_better(ranker: str | Ranker) -> Ranker | None:
    """Return what ranks by more than words; None where words are all that is asked for. No model is loaded yet.

    Args:
        ranker: `lexical`, `hybrid`, `embedding`, a provider of embeddings as `MCP_EMBEDDINGS` takes it, or a ranker.

    Raises:
        InputError: it is none of these.
    """
    if not isinstance(ranker, str):
        if not hasattr(ranker, "index"):
            hint = "give lexical, hybrid, embedding, a provider of embeddings, or what has a method index"
            raise InputError("not a ranker", ranker, "ToolRouter: ranker", hint)
        return ranker
    if ranker == "lexical":
        return None
    return open_ranker(ranker) if ranker in _KINDS else open_ranker("hybrid", ranker)
