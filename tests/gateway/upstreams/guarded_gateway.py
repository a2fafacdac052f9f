"""A process with a guard and some upstreams: prints a line of JSON once they are up, and stays until it is ended.

Arguments: the faults of each upstream, one word each, joined by `+`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from agent_utilities.gateway.upstreams.limits import Unfinished
from agent_utilities.gateway.upstreams.processes.process import ProcessGuard, watch_parent


async def main() -> None:
    if sys.argv[1:] == ["watch-parent"]:
        parent = os.getppid()
        print(json.dumps({"pid": os.getpid()}), flush=True)
        await watch_parent(lambda: print("gone", flush=True), parent)
        return
    from mcp import ClientSession

    from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog
    from agent_utilities.gateway.upstreams.processes.stdio import StdioUpstream
    from tests.gateway.upstreams.processes import config

    async with AsyncExitStack() as stack:
        guard = await stack.enter_async_context(ProcessGuard())
        for faults in sys.argv[1:]:
            given = config(*faults.split("+"))
            upstream = StdioUpstream(
                given, environ=os.environ, stderr=StderrLog(), guard=guard, unfinished=Unfinished()
            )
            session = await stack.enter_async_context(
                ClientSession(*await stack.enter_async_context(upstream.streams()))
            )
            await session.initialize()
        print(json.dumps({"pid": os.getpid(), "guard": guard.pid}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a test run in the background would have us ignore
    asyncio.run(main())
