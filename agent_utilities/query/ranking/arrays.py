"""Array types, numpy imported on first use, and one thread at a time for BLAS, its matrix library."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["NDArray", "Places", "Scores", "Vectors", "np", "single_blas_thread", "unit_vectors"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    """(n_tools,)"""
    Vectors = NDArray[np.float32]
    """(n, n_dimensions)"""
    Places = NDArray[np.intp]
    """(n,) indexes of tools in a catalog, or among its permitted tools."""
else:

    class _Numpy:
        """Imports numpy on first use: most servers start without."""

        def __getattr__(self, name):
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _Numpy()
    NDArray = Places = Scores = Vectors = Any

_LEAST_NORM = 1e-12
_LIMIT_LOCK = threading.Lock()
"""Of the process, as the limit itself is."""
_NEXT_LOCK = threading.Lock()
"""Held by the next in line, so that indexing can't take turn after turn before a request."""


@lru_cache(maxsize=1)
def _controller() -> Any:
    return import_module("threadpoolctl").ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread within, and to one caller at a time.

    A second thread gains nothing on a request's matrices, and two that wait for each other on busy cores take ten
    times as long. The limit is the process's: with several callers one could restore what another has set.
    """
    with _NEXT_LOCK:
        _LIMIT_LOCK.acquire()
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMIT_LOCK.release()


def unit_vectors(vectors: Vectors) -> Vectors:
    """Scale vectors to unit length; null vectors stay null."""
    units: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST_NORM)
    return units
