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
from agent_utilities.upstream.limits import MIB, IncomingMessage, Limits, TooMuchError, Turns
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


class Lines:
    """The lines that a process writes to its stdout, in time and memory proportional to their size."""

    def __init__(self, stdout: asyncio.StreamReader, message: IncomingMessage, turns: Turns) -> None:
        self._stdout, self._message, self._turns = stdout, message, turns

    async def next_line(self) -> bytearray | OverlongLine | None:
        """Return the next line with its end, if it has one; None where nothing more comes.

        Raises:
            TooMuchError: a line that is too long has no end.
        """
        line, overlong, is_whole = bytearray(), None, False
        try:
            while not is_whole:
                piece, is_whole = await self._piece()
                if not is_whole:
                    await self._turns.after(len(piece))
                if overlong is None:
                    line += piece
                    try:
                        self._message.has(len(line))
                    except TooMuchError as error:
                        ends = bytes(line[:_ENDS_BYTES]), bytes(line[-_ENDS_BYTES:])
                        overlong = OverlongLine(*ends, len(line), str(error))
                        line.clear()
                        self._message.has(0)
                else:
                    overlong.end = (overlong.end + piece[-_ENDS_BYTES:])[-_ENDS_BYTES:]
                    overlong.n_bytes += len(piece)
                    if not is_whole and overlong.n_bytes > (limit := self._message.limits.upstream_bytes):
                        raise TooMuchError(f"a line of over {limit / MIB:,.4g} MiB without an end")
        finally:
            self._message.has(0)
        return overlong or line or None

    async def _piece(self) -> tuple[bytes, bool]:
        """Return what is there of a line, and whether that is its end."""
        try:
            return await self._stdout.readuntil(), True
        except asyncio.LimitOverrunError as error:
            return await self._stdout.readexactly(error.consumed), False
        except asyncio.IncompleteReadError as error:
            return error.partial, True
        except OSError:
            return b"", True


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
