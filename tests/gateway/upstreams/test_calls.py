"""What an upstream tells of a call reaches its caller in order, and nobody's memory is filled by it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent_utilities.gateway.upstreams.connections.calls import N_UNTOLD, UNTOLD_BYTES, Call
from tests.gateway.upstreams.supervised import Caller

pytestmark = pytest.mark.anyio


class Stalled(Caller):
    """A caller who reads nothing until he is let."""

    def __init__(self) -> None:
        super().__init__("stalled")
        self.reads = asyncio.Event()

    async def progress(self, params: Mapping[str, Any]) -> None:
        await self.reads.wait()
        await super().progress(params)


async def told(caller: Caller, n: int, **more: Any) -> Call:
    """Return a call of which a caller is told so much, the first of it before the rest comes."""
    call = Call(caller, {}, timeout_s=60, limit_s=60)
    for each in range(n):
        call.tell(caller.progress, {"progress": each, **more})
        if each == 0:
            await asyncio.sleep(0)
    return call


async def test_progress_is_told_in_order():
    caller = Caller("one")
    call = await told(caller, 100)
    await call.all_told()
    assert [progress for progress, _, _ in caller.progressed] == list(range(100))


async def test_of_a_caller_who_reads_nothing_no_more_than_so_much_is_kept_and_what_is_dropped_is_counted():
    caller = Stalled()
    call = await told(caller, 2 * N_UNTOLD)
    caller.reads.set()
    await call.all_told()
    progress = [progress for progress, _, _ in caller.progressed]
    assert progress == [0, *range(N_UNTOLD, 2 * N_UNTOLD)]
    assert call.n_dropped == N_UNTOLD - 1


async def test_nor_more_bytes_than_so_many():
    caller = Stalled()
    call = await told(caller, 20, message="x" * (UNTOLD_BYTES // 4))
    caller.reads.set()
    await call.all_told()
    assert [progress for progress, _, _ in caller.progressed] == [0, 17, 18, 19]
    assert call.n_dropped == 16


async def test_a_caller_who_can_not_be_told_one_thing_is_told_the_next():
    class Broken(Caller):
        async def progress(self, params: Mapping[str, Any]) -> None:
            if params["progress"] == 1:
                raise ConnectionError
            await super().progress(params)

    caller = Broken("broken")
    call = await told(caller, 3)
    await call.all_told()
    assert [progress for progress, _, _ in caller.progressed] == [0, 2]
