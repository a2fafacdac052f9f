"""A process that records calls at a steady rate until it is killed, and writes down those that it waited for.

Each line of its output: the number of a call whose first line was on the disk, as it was told.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from tests.access.record.records import audit_log


async def record_calls(path: Path, per_s: float) -> None:
    """Record calls without end, a line before and a line after each."""
    log = audit_log(path, max_bytes=64 << 10, gathers_s=0.0)
    log.start()

    async def call(number: int) -> None:
        await log.written(lambda: {"event": "call", "number": number})
        print(number, flush=True)
        log.note(lambda: {"event": "result", "number": number})

    async with asyncio.TaskGroup() as group:
        due_s, number = time.monotonic(), 0
        while True:
            group.create_task(call(number))
            number, due_s = number + 1, max(due_s, time.monotonic() - 1) + 1 / per_s
            await asyncio.sleep(due_s - time.monotonic())


if __name__ == "__main__":
    asyncio.run(record_calls(Path(sys.argv[1]), float(sys.argv[2])))
