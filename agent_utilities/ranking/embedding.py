"""Vectors of tools and requests: what provides them, where they are kept, and how near they are to one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.threads import one_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.base import Scores
    from agent_utilities.ranking.vectors import VectorStore

    Vectors = NDArray[np.float32]
    """(n, n_dimensions)"""

TextRole = Literal["document", "query"]
"""Some models read what is searched otherwise than what it is searched for."""

ASPECT_WEIGHTS = (0.4, 0.4, 0.2)
TRIGGER_WEIGHT = 2.0
CENTRING = 0.5
_CHUNK = 256
_TINY = 1e-12


class Provider(Protocol):
    """A model that turns texts into vectors. It may be called by several threads.

    Args:
        name: which model; vectors of two names never mix.
        cut: the least evidence that a request is answered at all, or None where that was never measured.
    """

    @property
    def name(self) -> str: ...

    @property
    def cut(self) -> float | None: ...

    def embed(self, texts: Sequence[str], kind: TextRole) -> Vectors:
        """Return one vector a text, in order: (n_texts, n_dimensions).

        Raises:
            RankerError: it can't.
        """
        ...


class Embedder:
    """A provider whose answers are checked, made unit length and kept.

    Args:
        provider: the model.
        store: where vectors are kept between processes, or None.
    """

    def __init__(self, provider: Provider, store: VectorStore | None = None) -> None:
        self.provider = provider
        self._store = store

    def embed(self, texts: Sequence[str], kind: TextRole) -> Vectors:
        """Return one vector of unit length a text: (n_texts, n_dimensions); equal texts are embedded once.

        Raises:
            RankerError: the provider can't, or answers nonsense.
        """
        import numpy as np

        wanted = list(dict.fromkeys(texts))
        known = self._store.get(self.provider.name, kind, wanted) if self._store else {}
        missing = [text for text in wanted if text not in known]
        if missing:
            made = self._ask(missing, kind)
            fresh = dict(zip(missing, made, strict=True))
            if self._store:
                self._store.put(self.provider.name, kind, fresh)
            known.update(fresh)
        sizes = {vector.shape for vector in known.values()}
        if len(sizes) > 1:
            raise RankerError(f"{self.provider.name!r} gives vectors of several dimensions: {sorted(sizes)}")
        return np.stack([known[text] for text in texts])

    def ask(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of unit length a request; requests are not kept.

        Raises:
            RankerError: as for `embed`.
        """
        return self._ask(texts, "query")

    def _ask(self, texts: Sequence[str], kind: TextRole) -> Vectors:
        import numpy as np

        made = np.asarray(self.provider.embed(texts, kind), dtype=np.float32)
        if made.ndim != 2 or len(made) != len(texts) or made.shape[1] == 0:
            raise RankerError(f"{self.provider.name!r} gives {made.shape} for {len(texts)} texts")
        norms = np.linalg.norm(made, axis=1, keepdims=True)
        if not np.isfinite(norms).all():
            raise RankerError(f"{self.provider.name!r} gives vectors that are not finite")
        unit: Vectors = made / np.maximum(norms, _TINY)
        return unit


def document_vectors(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    """Return a vector for each tool: the weighted mean of its aspects and its past requests, of unit length.

    The more past requests a tool has, the more they weigh: 2n/(n + 1) beside 1 for its text.

    Raises:
        RankerError: the provider can't.
    """
    import numpy as np

    chunks = [documents[at : at + _CHUNK] for at in range(0, len(documents), _CHUNK)]
    return np.concatenate([_chunk_vectors(embedder, chunk) for chunk in chunks])


def _chunk_vectors(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    import numpy as np

    aspects = embedder.embed([text or "-" for each in documents for text in each.aspects()], "document")
    shaped = aspects.reshape(len(documents), len(ASPECT_WEIGHTS), -1)
    mixed = unit((shaped * np.array(ASPECT_WEIGHTS, dtype=np.float32)[None, :, None]).sum(axis=1))
    answered = [(*each.hints, *each.triggers) for each in documents]
    if requests := [text for texts in answered for text in texts]:
        learned = embedder.embed(requests, "query")
        owners = np.repeat(np.arange(len(documents)), list(map(len, answered)))
        n = np.maximum(np.bincount(owners, minlength=len(documents)), 1)[:, None].astype(np.float32)
        total = np.zeros_like(mixed)
        np.add.at(total, owners, learned)
        mixed = unit(mixed + TRIGGER_WEIGHT / (n + 1) * total)
    return mixed


def unit(vectors: Vectors) -> Vectors:
    """Return vectors made unit length; null vectors stay null."""
    import numpy as np

    scaled: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
    return scaled


@dataclass(frozen=True, eq=False)
class Nearness:
    """How near each tool is to requests.

    Args:
        vectors: (n_documents, n_dimensions), of unit length, one for each different document, so that equal tools
            are equally near to the last bit.
        rows: (n_tools,) the place of each tool's document in them, or None where no two are equal.
        mean: (n_dimensions,) half the mean vector: what all tools of the catalog have in common tells nothing.
        scale: (n_documents,) that makes the vectors less that half unit length again.
    """

    vectors: Vectors
    rows: NDArray[np.intp] | None
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, vectors: Vectors, documents: Sequence[ToolDocument]) -> Nearness:
        """Return it for a catalog.

        Args:
            vectors: (n_documents, n_dimensions) of the different documents, in order of their first place.
            documents: the catalog.
        """
        import numpy as np

        if len(vectors) == len(documents):
            return cls._made(vectors, None)
        places = {each: place for place, each in enumerate(dict.fromkeys(documents))}
        return cls._made(vectors, np.array([places[each] for each in documents], dtype=np.intp))

    @classmethod
    def _made(cls, vectors: Vectors, rows: NDArray[np.intp] | None) -> Nearness:
        import numpy as np

        mean = CENTRING * vectors.mean(axis=0)
        rest = np.sqrt(np.maximum(np.einsum("ij,ij->i", vectors, vectors) - 2 * (vectors @ mean) + mean @ mean, 0))
        return cls(vectors, rows, mean, 1 / np.maximum(rest, 1e-3))

    def within(self, places: NDArray[np.intp]) -> Nearness:
        """Return it for some of the tools, as a catalog of them alone would have it.

        Args:
            places: where they stand, ascending.
        """
        import numpy as np

        if self.rows is None:
            return self._made(self.vectors[places], None)
        kept, first, rows = np.unique(self.rows[places], return_index=True, return_inverse=True)
        order = np.argsort(first)
        if len(kept) == len(places):
            return self._made(self.vectors[kept[order]], None)
        return self._made(self.vectors[kept[order]], np.argsort(order)[rows])

    def to(self, queries: Vectors) -> tuple[Scores, Vectors]:
        """Return the first query's cosines, (n_tools,), and all cosines less what is common: (n_queries, n_tools)."""
        with one_thread():
            cosines = queries @ self.vectors.T
        plain = cosines[0].copy()
        cosines -= (queries @ self.mean)[:, None]
        cosines *= self.scale
        return (plain, cosines) if self.rows is None else (plain[self.rows], cosines[:, self.rows])
