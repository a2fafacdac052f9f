"""A Redis of a test's own, and what has a server be one of the replicas that share it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from agent_utilities.gateway.upstreams.sealed_store import new_key
from tests.fleet.processes.services import RedisServer

KEY = new_key()


class Shared(RedisServer):
    """A Redis that replicas share."""

    @property
    def environ(self) -> dict[str, str]:
        """What makes a server one of the replicas."""
        return {"MCP_STATE_URL": self.url(), "MCP_SECRET_KEY": KEY}

    def told(self) -> bytes:
        """Return all keys and values in it, as anybody reads them who may."""
        dumped = b""
        for key in self.admin.scan_iter():
            dumped += key + b" " + repr(self.admin.dump(key)).encode() + b"\n"
        return dumped


async def until(holds: Callable[[], bool | Awaitable[bool]], within_s: float = 20) -> float:
    """Return the seconds that it took until something held.

    Raises:
        TimeoutError: it took too long.
    """
    began_s = time.monotonic()
    async with asyncio.timeout(within_s):
        for _ in count():
            if holding if isinstance(holding := holds(), bool) else await holding:
                break
            await asyncio.sleep(0.02)
    return time.monotonic() - began_s


@contextmanager
def shared_redis(folder: Path) -> Iterator[Shared]:
    """Run a Redis for the length of a block."""
    shared = Shared(folder)
    try:
        yield shared
    finally:
        shared.close()
