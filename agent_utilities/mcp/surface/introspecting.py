"""Telling what a listing for graph and ranker does to a provider from what happens to it otherwise."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_over: ContextVar[Event | None] = ContextVar("listing for graph and ranker", default=None)
"""Set when the listing is over: what it has started may outlive it, and see it in its context."""


@contextmanager
def introspecting() -> Iterator[None]:
    """List for graph and ranker in this block: what providers then tell of is in the listing."""
    over = Event()
    token = _over.set(over)
    try:
        yield
    finally:
        over.set()
        _over.reset(token)


def is_introspecting() -> bool:
    """Whether this is done by a listing for graph and ranker, which would only be started again by its own doing."""
    over = _over.get()
    return over is not None and not over.is_set()
