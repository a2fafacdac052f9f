"""Models of the `fastembed` library, on ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.embedding import Kind

if TYPE_CHECKING:
    from agent_utilities.ranking.embedding import Vectors

MODEL = "BAAI/bge-small-en-v1.5"


class FastEmbed:
    """A provider that downloads its model once.

    Args:
        model: a name that fastembed knows.

    Raises:
        RankerError: fastembed is absent, or the model can't be had.
    """

    cut: float | None = None

    def __init__(self, model: str = MODEL) -> None:
        self.name = f"fastembed:{model}"
        try:
            library = import_module("fastembed")
        except ImportError:
            raise RankerError("fastembed is absent; install agent-utilities[fastembed]") from None
        try:
            self._model: Any = library.TextEmbedding(model_name=model)
        except Exception as error:  # whatever a download raises
            raise RankerError(f"{model!r} can't be loaded: {error}") from None

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Return one vector a text, in order."""
        import numpy as np

        embed = self._model.query_embed if kind == "query" else self._model.passage_embed
        try:
            return np.array(list(embed(list(texts))), dtype=np.float32)
        except Exception as error:  # whatever the runtime raises
            raise RankerError(f"{self.name!r} can't embed: {error}") from None
