"""Messages over a process's pipes, as lines of JSON: bounded, told from lines that are none, and written in turn."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from agent_utilities.runtime.waiting import is_set
from agent_utilities.upstream.limits import MIB, IncomingMessage, Limits, TooMuchError
from agent_utilities.upstream.processes.process import CLOSED_S, MAX_QUEUED_BYTES

_ENDS_BYTES = 4096
"""Bytes of the beginning and the end of a line that is too long, which are kept for its id."""
_ID_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]*")\s*[,}]')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_MESSAGE_WITHIN = re.compile(rb'\{\s*"(?:jsonrpc|id|result|method)"\s*:')


@dataclass(slots=True)
class OverlongLine:
    """A line that was too long to be kept: its beginning and its end, how long it was, and by what it was too long."""

    start: bytes
    end: bytes
    n_bytes: int
    why: str

    def add(self, piece: bytes) -> None:
        """Count what follows of it."""
        self.end = (self.end + piece[-_ENDS_BYTES:])[-_ENDS_BYTES:]
        self.n_bytes += len(piece)


class LineBuffer:
    """What was read of a pipe and not yet taken, in time and memory proportional to its size."""

    def __init__(self, message: IncomingMessage) -> None:
        self._message = message
        self._data = bytearray()
        self._n_searched = 0
        self._overlong: OverlongLine | None = None

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._data += data

    def next_line(self) -> bytes | bytearray | OverlongLine | None:
        """Return the next line without its end, or None where it isn't whole yet."""
        end = self._data.find(b"\n", self._n_searched)
        self._n_searched = n_bytes = len(self._data) if end < 0 else end
        try:
            if self._overlong is None:
                self._message.has(n_bytes)
        except TooMuchError as error:
            self._overlong = OverlongLine(bytes(self._data[:_ENDS_BYTES]), b"", 0, str(error))
        if self._overlong is not None:
            self._overlong.add(bytes(self._data[:n_bytes]))
            del self._data[:n_bytes]
            self._message.has(0)
            self._n_searched = n_bytes = 0
        if end < 0:
            return None
        self._message.has(0)
        line, overlong = self._take(n_bytes), self._overlong
        self._n_searched, self._overlong = 0, None
        return overlong or line

    @property
    def n_dropped(self) -> int:
        """Bytes of a line that is too long, and has not ended yet."""
        return self._overlong.n_bytes if self._overlong is not None else 0

    def close(self) -> None:
        """Drop what is there."""
        self._data.clear()
        self._message.has(0)

    def rest(self) -> bytes | bytearray:
        """Return what is there of a line that has no end, once the pipe has none to give."""
        return self._take(len(self._data))

    def _take(self, end: int) -> bytes | bytearray:
        if len(self._data) - end <= 1:  # the usual case, and one that copies nothing
            line, self._data = self._data, bytearray()
            return line
        line = self._data[:end]
        del self._data[: end + 1]
        return line


def read_line(line: bytes | bytearray, limits: Limits) -> list[JSONRPCMessage]:
    """Return the messages of a line: one, as a rule; none where it is no message.

    A message after other text on its line is found too. An answer that can't be read is given as an error, so that
    whoever waits for it does not wait on.
    """
    if not line.strip():
        return []
    within = _MESSAGE_WITHIN.search(line, 0, 4096) if line[:1] not in (b"{", b"[") else None
    if within:
        line = line[within.start() :]
    try:
        limits.check_values(line)
        value = _parse(line)
        batch = value if isinstance(value, list) else [value]
        return [jsonrpc_message_adapter.validate_python(item, by_name=False) for item in batch]
    except (ValueError, RecursionError) as error:
        return unreadable(line[:_ENDS_BYTES], line[-_ENDS_BYTES:], f"could not be read: {error}")


def _parse(line: bytes | bytearray) -> Any:
    try:
        return from_json(line)
    except ValueError:
        # What JavaScript writes of a text that was cut within a character, what is not quite UTF-8, or nested deeper.
        text = json.dumps(json.loads(line.decode(errors="replace")), ensure_ascii=False)
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def too_long(line: OverlongLine) -> list[JSONRPCMessage]:
    """Return an error in the place of an answer that was too long; nothing where its id can't be told."""
    return unreadable(line.start, line.end, f"of {line.n_bytes / MIB:,.4g} MiB is dropped: it is {line.why}")


def unreadable(start: bytes | bytearray, end: bytes | bytearray, reason: str) -> list[JSONRPCMessage]:
    """Return an error in the place of an answer, by the id at its beginning or end; nothing where there is none."""
    found = _ID_FIRST.search(start) or _ID_LAST.search(end)
    if found is None:
        return []
    error = ErrorData(code=INTERNAL_ERROR, message=f"the server's answer {reason}")
    return [JSONRPCError(jsonrpc="2.0", id=json.loads(found.group(1)), error=error)]


class MessageWriter(ObjectSendStream[SessionMessage]):
    """What is written to a process's stdin, in whole lines; a process that reads none holds up its own callers only."""

    def __init__(self, stdin: asyncio.StreamWriter, died: asyncio.Event) -> None:
        self._stdin, self._died = stdin, died
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write a message, or put it behind those that wait for the process to read.

        Raises:
            anyio.ClosedResourceError: the stream was closed.
            anyio.BrokenResourceError: the process has closed its stdin.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        with suppress(OSError):  # of a pipe that is broken, which is told below
            while self._stdin.transport.get_write_buffer_size() > MAX_QUEUED_BYTES and not self._is_closed:
                message = item.message
                if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                    return  # who gives up waiting must not wait to say so
                await self._stdin.drain()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if not self._stdin.is_closing():
            self._stdin.write(line)
        if self._stdin.is_closing():
            await is_set(self._died, within_s=2 * CLOSED_S)  # who hears of this must find how it died
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Take no more messages; what waits is dropped."""
        self._is_closed = True
        if not self._stdin.is_closing():
            self._stdin.transport.abort()
