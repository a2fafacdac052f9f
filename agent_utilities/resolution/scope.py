"""Which tools a query may be answered with: those that its caller may use, and no trace of the others (law L1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallerScope:
    """The tools that one caller may use.

    Args:
        digest: the same for equal scopes, and for no others.
        names: returns their names; called only where no answer in this scope is remembered.
    """

    digest: str
    names: Callable[[], frozenset[str]]
