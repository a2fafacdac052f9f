"""Work in short steps: done at once where nobody waits, or in turns with an event loop (laws L6, L7)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""Work that yields after each step, of a millisecond or two at most, and returns what came of it."""


def finish(steps: Steps[_T]) -> _T:
    """Return what comes of some work, all steps taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result
