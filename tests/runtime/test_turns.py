"""Long work in turns with the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_utilities.runtime import turns
from agent_utilities.runtime.turns import in_turns

pytestmark = pytest.mark.anyio


async def given() -> AsyncIterator[int]:
    for number in range(5):
        yield number


async def test_yields_all_in_order_from_either_kind_of_iterable() -> None:
    assert [number async for number in in_turns(range(5))] == [0, 1, 2, 3, 4]
    assert [number async for number in in_turns(given())] == [0, 1, 2, 3, 4]


async def test_others_run_whenever_the_time_of_a_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_TURN_S", -1.0)
    seen: list[str] = []

    async def work(name: str) -> None:
        async for number in in_turns(range(3)):
            seen.append(f"{name}{number}")

    await asyncio.gather(work("a"), work("b"))
    assert seen == ["a0", "b0", "a1", "b1", "a2", "b2"]
