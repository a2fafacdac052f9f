"""The two streams of a session over a process's pipes, without a task, or a queue that has no bound."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from agent_utilities.upstream.limits import MIB, TURN_BYTES, IncomingMessage, Turns
from agent_utilities.upstream.processes.json_lines import LineBuffer, OverlongLine, read_line, too_long
from agent_utilities.upstream.processes.process import UpstreamProcess

_READ_BYTES = TURN_BYTES
_PIPE_BYTES = 1024 * 1024
"""Bytes that a pipe holds at most: more than that was not written before its process exited, or the stream ended."""
MAX_QUEUED_BYTES = 1024 * 1024
"""Bytes that wait for a process to read its stdin, beside the message that went over it: then senders wait."""
CLOSED_S = 0.3
"""Seconds that a process which closed a pipe gets to exit, so that it can be told how it did."""


class _Stream:
    """What makes a stream an asynchronous context that closes it."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


class Ears(Protocol):
    """Who hears of what is read beside messages."""

    def message(self) -> None:
        """Hear of a message."""

    def garbage(self, line: bytes | bytearray) -> None:
        """Hear of a line that is no message."""

    async def at_end(self, reason: str) -> None:
        """Hear that nothing more comes, before those who wait do."""


class MessageReader(_Stream):
    """The messages that a process writes to its stdout, read when asked for, so that no queue can grow."""

    def __init__(self, process: UpstreamProcess, ears: Ears, message: IncomingMessage) -> None:
        self._process, self._ears, self._limits = process, ears, message.limits
        self._lines, self._turns = LineBuffer(message), Turns()
        self._messages: deque[SessionMessage] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._n_since_end = 0
        self._reason = ""
        self._is_cut = self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the process has exited, or closed a pipe.
        """
        if self._messages:  # of a batch, which may be long
            await self._turns.after(0)
        while not self._messages:
            if self._is_over:
                raise anyio.EndOfStream
            line = None if self._is_cut else self._lines.next_line()
            if line is not None:
                began_s = asyncio.get_running_loop().time()
                self._take(line)
                n_bytes = 0 if isinstance(line, OverlongLine) else len(line)
                await self._turns.after(n_bytes, asyncio.get_running_loop().time() - began_s)
            elif not await self._read():
                await self._finish()
        self._ears.message()
        return self._messages.popleft()

    async def aclose(self) -> None:
        """Read no more."""
        self.end("was stopped")
        self.drop()

    def end(self, reason: str) -> None:
        """Have the stream end for a reason, after what is there to be read."""
        self._reason = self._reason or reason
        self._rouse()

    def cut(self, reason: str) -> None:
        """Have the stream end for a reason, and take nothing more of what is there."""
        self._is_cut = True
        self.end(reason)

    def drop(self) -> None:
        """Forget what has come of a message that is not whole."""
        self._lines.close()

    async def _finish(self) -> None:
        if not self._is_cut and (rest := self._lines.rest()):
            self._take(rest)
        self.drop()
        await self._ears.at_end(self._reason)
        self._is_over = True

    def _take(self, line: bytes | bytearray | OverlongLine) -> None:
        if isinstance(line, OverlongLine):
            messages = too_long(line)
            if not messages:
                self.cut(f"wrote a line of {line.n_bytes / MIB:,.4g} MiB, {line.why}")
        else:
            messages = read_line(line, self._limits)
            if not messages:
                self._ears.garbage(line)
        self._messages.extend(map(SessionMessage, messages))

    async def _read(self) -> bool:
        """Read more, waiting for it where nothing is there; False where nothing more comes."""
        while not self._is_cut:
            try:
                data = os.read(self._process.stdout, _READ_BYTES)
            except BlockingIOError:
                # What a process that has exited wrote is all there; another that holds its pipe is not our server.
                if self._is_ending:
                    return False
                await self._readable()
                continue
            except OSError:
                data = b""
            if self._is_ending:  # it, or a child of its that holds the pipe, may write on and on
                self._n_since_end += len(data)
            self._lines.feed(data)
            await self._turns.after(len(data))
            if self._lines.n_dropped > self._limits.upstream_bytes:
                self.cut(f"wrote a line of over {self._limits.upstream_bytes / MIB:,.4g} MiB without an end")
            return bool(data) and self._n_since_end <= _PIPE_BYTES
        return False

    @property
    def _is_ending(self) -> bool:
        return bool(self._reason) or self._process.exited.is_set()

    async def _readable(self) -> None:
        """Wait until something can be read, the process has exited, or the stream was ended."""
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        loop.add_reader(self._process.stdout, self._rouse)
        take_back = self._process.on_exit(self._rouse)
        try:
            await self._wake
        finally:
            take_back()
            loop.remove_reader(self._process.stdout)
            self._wake = None

    def _rouse(self) -> None:
        if self._wake and not self._wake.done():
            self._wake.set_result(None)


class MessageWriter(_Stream):
    """What is written to a process's stdin, in whole lines; a process that reads none holds up its own callers only.

    Args:
        process: the process.
        on_broken: called once it has closed its stdin.
        died: set once that has been told.
    """

    def __init__(self, process: UpstreamProcess, on_broken: Callable[[], None], died: asyncio.Event) -> None:
        self._descriptor, self._on_broken, self._died = process.stdin, on_broken, died
        self._queue: deque[memoryview] = deque()
        self._n_queued = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = self._is_broken = False
        # The reading end of a pipe that closes makes its writing end "readable".
        asyncio.get_running_loop().add_reader(self._descriptor, self._break)

    async def send(self, item: SessionMessage) -> None:
        """Write a message, or put it behind those that wait for the process to read.

        Raises:
            anyio.ClosedResourceError: the stream was closed.
            anyio.BrokenResourceError: the process has closed its stdin.
        """
        while self._n_queued > MAX_QUEUED_BYTES and not (self._is_closed or self._is_broken):
            message = item.message
            if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                return  # who gives up waiting must not wait to say so
            await self._room()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self._is_broken:
            with suppress(TimeoutError):  # who hears of this must find how it died
                await asyncio.wait_for(self._died.wait(), 2 * CLOSED_S)
            raise anyio.BrokenResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        self._queue.append(memoryview(line))
        self._n_queued += len(line)
        if len(self._queue) == 1:
            self._write()

    async def aclose(self) -> None:
        """Take no more messages; what waits is dropped."""
        self._is_closed = True
        self._stop()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                n_written = os.write(self._descriptor, self._queue[0])
                self._n_queued -= n_written
                if n_written < len(self._queue[0]):
                    self._queue[0] = self._queue[0][n_written:]
                else:
                    self._queue.popleft()
        except BlockingIOError:
            loop.add_writer(self._descriptor, self._write)
        except OSError:
            self._break()
        else:
            loop.remove_writer(self._descriptor)
        if self._n_queued <= MAX_QUEUED_BYTES:
            self._wake_waiting()

    async def _room(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        finally:
            with suppress(ValueError):
                self._waiting.remove(turn)

    def _break(self) -> None:
        self._is_broken = True
        self._stop()
        self._on_broken()

    def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._descriptor)
        loop.remove_writer(self._descriptor)
        self._queue.clear()
        self._n_queued = 0
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
