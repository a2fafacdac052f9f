"""An upstream called as a program that has no gateway calls it: through the SDK's client, over stdio.

Run as a script it is that program: `gateway_direct.py`, with the server's config as JSON on its first line of stdin.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import Lane, Timing


@contextmanager
def direct_calls(server: Mapping[str, Any]) -> Iterator[Lane]:
    """Give what calls a server's echo; the processes end with the block."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    writes, reads = process.stdin, process.stdout

    def run(n_calls: int) -> list[Timing]:
        writes.write(f"{n_calls}\n")
        writes.flush()
        return [Timing(wall_s, cpu_s) for wall_s, cpu_s in json.loads(reads.readline())]

    try:
        writes.write(json.dumps(server) + "\n")
        yield run
    finally:
        writes.close()
        process.wait()
        reads.close()


async def serve() -> None:
    """Call the echo as often as each line of stdin says, and answer with what each call took."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    server = json.loads(sys.stdin.readline())
    parameters = StdioServerParameters(**{key: server[key] for key in ("command", "args", "env")})
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        while line := await asyncio.to_thread(sys.stdin.readline):
            timings = []
            for _ in range(int(line)):
                wall, cpu = time.perf_counter(), time.process_time()
                await session.call_tool("echo", {"message": "hello"})
                timings.append((time.perf_counter() - wall, time.process_time() - cpu))
            print(json.dumps(timings), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
