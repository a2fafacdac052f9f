"""What an upstream tells of a call reaches its caller in order, and nobody's memory is filled by it."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.upstream.connections.calls import N_UNTOLD, Call
from tests.upstream.supervised import Caller

pytestmark = pytest.mark.anyio


class Stalled(Caller):
    """A caller who reads nothing until he is let."""

    def __init__(self) -> None:
        super().__init__("stalled")
        self.reads = asyncio.Event()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self.reads.wait()
        await super().progress(progress, total, message)


async def test_progress_is_told_in_order():
    caller = Caller("one")
    call = Call(caller, {}, timeout_s=60, limit_s=60)
    await asyncio.gather(*(call.progress(n, None, None) for n in range(100)))
    assert [progress for progress, _, _ in caller.progressed] == list(range(100))


async def test_of_a_caller_who_reads_nothing_no_more_than_so_much_is_kept():
    caller = Stalled()
    call = Call(caller, {}, timeout_s=60, limit_s=60)
    telling = asyncio.create_task(call.progress(-1, None, None))
    await asyncio.sleep(0)
    for n in range(10 * N_UNTOLD):
        await call.progress(n, None, None)
    caller.reads.set()
    await telling
    told = [progress for progress, _, _ in caller.progressed]
    assert told == [-1, *range(9 * N_UNTOLD, 10 * N_UNTOLD)]
