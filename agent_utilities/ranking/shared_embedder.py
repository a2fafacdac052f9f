"""One embedder for all that embed in a server: the model is opened by whoever needs it first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_utilities.ranking.embedding import Embedder, Provider

if TYPE_CHECKING:
    from agent_utilities.ranking.vector_store import VectorStore


class SharedEmbedder:
    """An embedder that is opened on first use, in the thread that asks, and once for everybody.

    So a request that is ranked and routed is embedded once: its vectors are remembered by one and the same embedder.

    Args:
        open_provider: makes the provider; asked again the next time where it can't.
        store: where vectors are kept between processes, or None.
    """

    def __init__(self, open_provider: Callable[[], Provider], store: VectorStore | None = None) -> None:
        self._open_provider = open_provider
        self._store = store
        self._embedder: Embedder | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Embedder:
        """Return the embedder; loading a model takes long.

        Raises:
            RankerError: the provider can't be had.
        """
        with self._lock:
            if self._embedder is None:
                self._embedder = Embedder(self._open_provider(), self._store)
            return self._embedder
