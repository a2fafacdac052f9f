"""Sockets that misbehave: a relay that delays every byte, and a listener that takes callers in and says nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """A TCP relay to a port of this machine, in a thread of its own.

    Args:
        target: the port behind it.
    """

    def __init__(self, target: int) -> None:
        self.delay_s = 0.0
        self.port = 0
        self._target = target
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._started.wait(60)

    def close(self) -> None:
        """Hang up on everybody."""
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop, tasks = asyncio.Event(), set[asyncio.Task[None]]()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            with suppress(OSError, asyncio.CancelledError):
                there = await asyncio.open_connection("127.0.0.1", self._target)
                pipes = [self._pipe(reader, there[1]), self._pipe(there[0], writer)]
                await asyncio.gather(*pipes, return_exceptions=True)
            writer.close()
            tasks.discard(task)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in tasks:
            task.cancel()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@contextmanager
def relayed(target: int) -> Iterator[Relay]:
    """Relay to a port for a block."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.close()


@contextmanager
def silent() -> Iterator[int]:
    """Yield a port that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


def unused_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
