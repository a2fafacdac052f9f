"""Vectors of tools: of their texts, and of their search hints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.embedding import Embedder, unit_vectors

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Vectors

ASPECT_WEIGHTS: Mapping[str, float] = {"whole": 0.4, "first_sentence": 0.4, "name": 0.2}
"""Of the texts that `ToolDocument.aspects` gives."""
HINT_WEIGHT = 2.0
_N_AT_A_TIME = 256


def document_vectors(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    """Return a vector for each tool: the weighted mean of its aspects and its search hints, of unit length.

    Hints are what people may say for it: the more there are, the more they weigh, 2n/(n + 1) beside 1 for its text.

    Raises:
        RankerError: the provider can't.
    """
    import numpy as np

    chunks = [documents[start : start + _N_AT_A_TIME] for start in range(0, len(documents), _N_AT_A_TIME)]
    return np.concatenate([_with_hints(embedder, chunk, _of_texts(embedder, chunk)) for chunk in chunks])


def _of_texts(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    import numpy as np

    aspects = [document.aspects() for document in documents]
    vectors = embedder.embed([texts[name] or "-" for texts in aspects for name in ASPECT_WEIGHTS], "document")
    by_document = vectors.reshape(len(documents), len(ASPECT_WEIGHTS), -1)
    weights = np.array(list(ASPECT_WEIGHTS.values()), dtype=np.float32)
    return unit_vectors((by_document * weights[None, :, None]).sum(axis=1))


def _with_hints(embedder: Embedder, documents: Sequence[ToolDocument], vectors: Vectors) -> Vectors:
    import numpy as np

    texts = [hint for document in documents for hint in document.hints]
    if not texts:
        return vectors
    n_by_document = [len(document.hints) for document in documents]
    owners = np.repeat(np.arange(len(documents)), n_by_document)
    n_hints = np.maximum(n_by_document, 1)[:, None].astype(np.float32)
    sums = np.zeros_like(vectors)
    np.add.at(sums, owners, embedder.embed(texts, "query"))
    return unit_vectors(vectors + HINT_WEIGHT / (n_hints + 1) * sums)
