"""A Redis of a test's own, and what has a server be one of the replicas that share it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import redis

from agent_utilities.upstream.sealed_store import new_key
from tests.wire.processes import HttpProcess

KEY = new_key()


class Shared:
    """A Redis on loopback that keeps nothing on disk.

    Args:
        folder: where it works.
    """

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{port}/0"
        self._command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
        self.environ = {"MCP_STATE_URL": self.url, "MCP_SECRET_KEY": KEY}
        """What makes a server one of the replicas."""
        self.start()
        self.admin = redis.Redis.from_url(self.url)

    def start(self) -> None:
        """Start it, empty; return once it takes connections."""
        self.process = HttpProcess([*self._command, "--logfile", "/dev/stderr"], os.environ)
        self.process.wait_for(re.compile("Ready to accept connections"))

    def pause(self) -> None:
        """Halt it: it keeps its sockets and answers nothing."""
        self.process.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after `pause`."""
        self.process.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, with all that it holds."""
        self.process.process.kill()
        self.process.stop()

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
        shared.admin.close()
        shared.kill()
