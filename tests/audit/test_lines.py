"""What lines say of results."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_utilities.audit.lines import n_bytes_of

pytestmark = pytest.mark.anyio


class TestBytes:
    @pytest.mark.parametrize(
        ("result", "expected"),
        [
            ({}, 0),
            ({"content": [{"text": "né"}, {"blob": "AAAA"}]}, len("contenttextnéblobAAAA".encode())),
            ({"structuredContent": {"rows": [[1, 2.5], [None, True]]}}, len("structuredContentrows12.5NoneTrue")),
            ({"half": "\ud800"}, len("half?")),
        ],
    )
    async def test_are_those_of_all_names_and_values(self, result: dict[str, Any], expected: int) -> None:
        assert await n_bytes_of(result) == expected

    async def test_of_a_long_result_hold_up_nothing_else(self) -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            turning = group.create_task(turn())
            await n_bytes_of(json.loads("[" + ",".join(['{"a":1}'] * 20_000) + "]"))
            turning.cancel()
        assert turns >= 10
