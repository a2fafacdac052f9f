"""Vectors of texts: what provides them, and where they are kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from agent_utilities.ranking.base import RankerError
from agent_utilities.runtime.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Vectors
    from agent_utilities.ranking.vector_store import VectorStore

TextRole = Literal["document", "query"]
"""Some models read what is searched otherwise than what it is searched for."""

_LEAST_NORM = 1e-12
_REQUESTS_BYTES = 4 << 20
"""What the vectors of requests may take: some 1,000 requests of two parts."""
_ENTRY_BYTES = 512


class Provider(Protocol):
    """A model that turns texts into vectors. It may be called by several threads.

    Args:
        name: which model; vectors of two names never mix.
        claim_distance: how far behind the best a tool may lie and still be claimed; 0 where that was never measured.
    """

    @property
    def name(self) -> str: ...

    @property
    def claim_distance(self) -> float: ...

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector a text, in order: (n_texts, n_dimensions).

        Raises:
            RankerError: it can't.
        """
        ...


@runtime_checkable
class RequestProvider(Protocol):
    """A provider that takes less time for texts that somebody waits for than for those that are indexed."""

    def embed_request(self, texts: Sequence[str]) -> Vectors:
        """Return one vector a text of a request, in order: (n_texts, n_dimensions).

        Raises:
            RankerError: it can't, in the time that there is.
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
        self._lock = threading.Lock()
        self._requests: BoundedCache[bytes, Vectors] = BoundedCache(_REQUESTS_BYTES, _weigh)

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector of unit length a text: (n_texts, n_dimensions); equal texts are embedded once.

        Raises:
            RankerError: the provider can't, or answers nonsense.
        """
        import numpy as np

        distinct = list(dict.fromkeys(texts))
        known = self._store.get(self.provider.name, role, distinct) if self._store else {}
        missing = [text for text in distinct if text not in known]
        if missing:
            new = dict(zip(missing, self._ask_provider(missing, role), strict=True))
            if self._store:
                self._store.put(self.provider.name, role, new)
            known.update(new)
        shapes = {vector.shape for vector in known.values()}
        if len(shapes) > 1:
            raise RankerError(f"{self.provider.name!r} gives vectors of several dimensions: {sorted(shapes)}")
        return np.stack([known[text] for text in texts])

    def embed_request(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of unit length a text of a request; those of the requests asked last are remembered.

        A request whose vectors came too late for it is so answered by them when it is asked again. The vectors are
        kept under a hash: what was asked is not, and nothing is written to disk.

        Raises:
            RankerError: as for `embed`.
        """
        key = blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=20).digest()
        with self._lock:
            vectors = self._requests.get(key)
        if vectors is None:
            vectors = self._ask_for_request(texts)
            with self._lock:
                self._requests.keep(key, vectors)
        return vectors

    def _ask_for_request(self, texts: Sequence[str]) -> Vectors:
        if isinstance(self.provider, RequestProvider):
            return self._checked(self.provider.embed_request(texts), texts)
        return self._ask_provider(texts, "query")

    def _ask_provider(self, texts: Sequence[str], role: TextRole) -> Vectors:
        return self._checked(self.provider.embed(texts, role), texts)

    def _checked(self, given: Vectors, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.asarray(given, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] == 0:
            raise RankerError(f"{self.provider.name!r} gives {vectors.shape} for {len(texts)} texts")
        if not np.isfinite(np.linalg.norm(vectors, axis=1)).all():
            raise RankerError(f"{self.provider.name!r} gives vectors that are not finite")
        return unit_vectors(vectors)


def _weigh(key: bytes, vectors: Vectors) -> int:
    return _ENTRY_BYTES + vectors.nbytes


def unit_vectors(vectors: Vectors) -> Vectors:
    """Return vectors made unit length; null vectors stay null."""
    import numpy as np

    units: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST_NORM)
    return units
