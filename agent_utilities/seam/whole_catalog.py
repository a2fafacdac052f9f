"""Unbounded access to all tools of a server, for rankers and the operator's page; callers see nothing of it."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog
from agent_utilities.seam.verdict import Verdict


class WholeCatalog(Protocol):
    """Offered by the server to rankers of tools, and to the operator's page."""

    def unbounded(self) -> Verdict:
        """Return a verdict that permits everything."""

    async def everything(self) -> tuple[Sequence[Tool], Catalog]:
        """Return every tool as FastMCP lists it, whoever may use it; this does not count as listed to a caller."""

    async def everybodys(self) -> Sequence[Tool]:
        """Return every tool whose own check admits a caller without a token."""

    async def admitted(self) -> Sequence[Tool]:
        """Return every tool whose own check admits the present caller."""

    def is_local(self) -> bool:
        """Whether all tools are registered at the server itself, so that the check of each is known."""

    def permitted(self, tools: Sequence[Tool], verdict: Verdict) -> list[Tool]:
        """Return the tools that a verdict permits."""

    async def judge(self, catalog: Catalog, verdict: Verdict) -> None:
        """Judge a catalog under a verdict, in turns with the event loop, for `permitted_names`."""

    def permitted_names(self, catalog: Catalog, verdict: Verdict) -> frozenset[str]:
        """Return the names in a catalog that a verdict permits."""


_over: ContextVar[Event | None] = ContextVar("listing for graph and ranker", default=None)
"""Set when the listing has ended: a task that it started may outlive it, and still has this in its context."""


@contextmanager
def introspecting() -> Iterator[None]:
    """Mark a `with` block as a listing for graph and ranker: changes that providers report in it are in its result."""
    over = Event()
    token = _over.set(over)
    try:
        yield
    finally:
        over.set()
        _over.reset(token)


def is_introspecting() -> bool:
    """Whether this runs within a listing for graph and ranker; a change that is noticed here must not start another."""
    over = _over.get()
    return over is not None and not over.is_set()
