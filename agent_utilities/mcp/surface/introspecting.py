"""Telling what a listing for graph and ranker does to a provider from what happens to it otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Listing:
    """A listing that is under way; what it has started may outlive it, and see it in its context."""

    def __init__(self) -> None:
        self.is_under_way = True


_listing: ContextVar[_Listing | None] = ContextVar("listing for graph and ranker", default=None)


@contextmanager
def introspecting() -> Iterator[None]:
    """List for graph and ranker in this block: what providers then tell of is in the listing."""
    listing = _Listing()
    token = _listing.set(listing)
    try:
        yield
    finally:
        listing.is_under_way = False
        _listing.reset(token)


def is_introspecting() -> bool:
    """Whether this is done by a listing for graph and ranker, which would only be started again by its own doing."""
    listing = _listing.get()
    return listing is not None and listing.is_under_way
