"""How many reads a server makes at one time, and what is left out of JSON that is made compact."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_utilities.results import bounded
from agent_utilities.results.bounded import BoundedResults, Wanted
from agent_utilities.results.kept import Entry, Kept, Owner

pytestmark = pytest.mark.anyio
ANYBODY = Owner("handle")


async def test_more_than_a_few_reads_wait_for_one_another() -> None:
    under_way, most, go_on = 0, 0, asyncio.Event()

    class Slow(Kept):
        """Gives nothing before it may, and counts who waits for it."""

        async def get(self, handle: str, owner: Owner) -> Entry | None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            if under_way == bounded._READ_AT_ONCE:
                go_on.set()
            await go_on.wait()
            under_way -= 1
            return await super().get(handle, owner)

    kept = Slow()
    results = BoundedResults(kept)
    text: dict[str, Any] = {"content": [{"type": "text", "text": "a line\n" * 9_000}]}
    _, about = await results.fitted(text, bounded.Wanted(500), ANYBODY, "tool")
    asked = {"result": about["handle"], "start": 0, "count": 1}
    reads = [results.read(asked, ANYBODY, 500, lambda tool: True, "read_result") for _ in range(20)]
    answers = await asyncio.gather(*reads)
    assert (len(answers), most) == (20, bounded._READ_AT_ONCE)


async def test_of_json_that_is_made_compact_white_space_between_its_parts_goes() -> None:
    value = {"a b": ["c  d", 'e " f', {"g": [1, 2.50]}]}
    texts = [json.dumps(value, indent=4), f" \n{json.dumps([value])}", "a  text", '{"no": json }', ""]
    result = {"content": [{"type": "text", "text": text} for text in texts]}
    fitted, _ = await BoundedResults(Kept()).fitted(result, Wanted(8_000, compact=True), ANYBODY, "tool")
    compact = [json.dumps(each, separators=(",", ":")) for each in (value, [value])]
    assert [block["text"] for block in fitted["content"]] == [*compact, *texts[2:]]
