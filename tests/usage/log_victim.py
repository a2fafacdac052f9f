"""A process that logs calls at a steady rate until it is killed, and writes down what it recorded, and when.

Each line of its output: the call's number, the monotonic clock, and how many seconds late the event loop was.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from agent_utilities.usage.log import UsageLog
from agent_utilities.usage.model import UsageBounds
from tests.usage.logs import call


async def log_calls(path: Path, session: str, per_s: float) -> None:
    """Record calls without end."""
    log = UsageLog(path, UsageBounds(free_bytes=0))
    async with asyncio.TaskGroup() as group:
        group.create_task(log.run())
        due_s, number = time.monotonic(), 0
        while True:
            now_s = time.monotonic()
            log.record(call(number, session=session, at_ms=int(time.time() * 1000)))
            sys.stdout.write(f"{number} {now_s} {now_s - due_s}\n")
            sys.stdout.flush()
            number, due_s = number + 1, max(due_s, now_s - 1) + 1 / per_s
            await asyncio.sleep(due_s - time.monotonic())


if __name__ == "__main__":
    asyncio.run(log_calls(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
