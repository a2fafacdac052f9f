"""Long work on the event loop, cut so that everybody else gets a turn (law L7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable
from typing import TypeVar

_T = TypeVar("_T")

_TURN_S = 0.002


async def in_turns(items: Iterable[_T] | AsyncIterable[_T]) -> AsyncIterator[_T]:
    """Yield items, and let the event loop turn whenever 2 ms have gone; the work on one item must be short."""
    until = time.perf_counter() + _TURN_S
    async for item in items if isinstance(items, AsyncIterable) else _each(items):
        yield item
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + _TURN_S


async def finish_in_turns(steps: Generator[None, None, _T]) -> _T:
    """Return what comes of work that yields after each short step; the event loop turns whenever 2 ms have gone."""
    results: list[_T] = []

    def each_step() -> Generator[None]:
        results.append((yield from steps))

    async for _ in in_turns(each_step()):
        pass
    return results[0]


async def _each(items: Iterable[_T]) -> AsyncIterator[_T]:
    for item in items:
        yield item
