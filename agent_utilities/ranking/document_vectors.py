"""Vectors of tools: of their texts, and of the past requests that they answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.embedding import Embedder, unit_vectors

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Vectors

ASPECT_WEIGHTS: Mapping[str, float] = {"whole": 0.4, "first_sentence": 0.4, "name": 0.2}
"""Of the texts that `ToolDocument.aspects` gives."""
TRIGGER_WEIGHT = 2.0
_N_AT_A_TIME = 256


def document_vectors(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    """Return a vector for each tool: the weighted mean of its aspects and its past requests, of unit length.

    The more past requests a tool has, the more they weigh: 2n/(n + 1) beside 1 for its text.

    Raises:
        RankerError: the provider can't.
    """
    import numpy as np

    chunks = [documents[start : start + _N_AT_A_TIME] for start in range(0, len(documents), _N_AT_A_TIME)]
    return np.concatenate([_with_past_requests(embedder, chunk, _of_texts(embedder, chunk)) for chunk in chunks])


def _of_texts(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    import numpy as np

    aspects = [document.aspects() for document in documents]
    vectors = embedder.embed([texts[name] or "-" for texts in aspects for name in ASPECT_WEIGHTS], "document")
    by_document = vectors.reshape(len(documents), len(ASPECT_WEIGHTS), -1)
    weights = np.array(list(ASPECT_WEIGHTS.values()), dtype=np.float32)
    return unit_vectors((by_document * weights[None, :, None]).sum(axis=1))


def _with_past_requests(embedder: Embedder, documents: Sequence[ToolDocument], vectors: Vectors) -> Vectors:
    import numpy as np

    past_requests = [(*document.hints, *document.triggers) for document in documents]
    texts = [text for requests in past_requests for text in requests]
    if not texts:
        return vectors
    owners = np.repeat(np.arange(len(documents)), list(map(len, past_requests)))
    n_requests = np.maximum(np.bincount(owners, minlength=len(documents)), 1)[:, None].astype(np.float32)
    sums = np.zeros_like(vectors)
    np.add.at(sums, owners, embedder.embed(texts, "query"))
    return unit_vectors(vectors + TRIGGER_WEIGHT / (n_requests + 1) * sums)
