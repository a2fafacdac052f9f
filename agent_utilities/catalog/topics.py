"""What deferred tools are about, in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeferredTool:
    """A deferred tool."""

    name: str
    server: str
    tags: tuple[str, ...] = ()
    own_name: str = ""


def deferred_text(tools: Sequence[DeferredTool], n_deferred: int, *, search: str = "tool_search") -> str:
    """Return what a caller is told of deferred tools."""
    return f"{n_deferred} more tools are deferred; find them with {search}."
