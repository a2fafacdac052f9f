"""One thread at a time for BLAS, the matrix library under numpy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from typing import Any

_LIMIT_LOCK = threading.Lock()
"""Of the process, as the limit itself is."""
_NEXT_LOCK = threading.Lock()
"""Held by the caller who is next, so that one who embeds a catalog can't take turn after turn before a request."""


@lru_cache(maxsize=1)
def _controller() -> Any:
    try:
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread within, and one caller at a time.

    A second thread gains nothing on a request's matrices, and two that wait for each other on busy cores take ten
    times as long. The limit is the process's, so callers take turns: none may restore what another has set.
    """
    with _NEXT_LOCK:
        _LIMIT_LOCK.acquire()
    try:
        controller = _controller()
        with nullcontext() if controller is None else controller.limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMIT_LOCK.release()
