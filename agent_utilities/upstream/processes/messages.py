"""Messages over a process's pipes, as lines of JSON: bounded, told from lines that are none, and written in turn."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

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


class Line(NamedTuple):
    """A line that a process wrote to its stdout.

    Args:
        text: the line with its end, if it has one; of one that is too long its beginning and its end.
        n_bytes: how long it was.
        too_long: by what it was too long to be kept; empty where it was not.
    """

    text: bytearray
    n_bytes: int
    too_long: str = ""


class Lines:
    """The lines that a process writes to its stdout, in time and memory proportional to their size."""

    def __init__(self, stdout: asyncio.StreamReader, message: IncomingMessage, turns: Turns) -> None:
        self._stdout, self._message, self._turns = stdout, message, turns

    async def next_line(self) -> Line | None:
        """Return the next line; None where nothing more comes.

        Raises:
            TooMuchError: a line that is too long has no end.
        """
        text, n_bytes, too_long, is_whole = bytearray(), 0, "", False
        try:
            while not is_whole:
                piece, is_whole = await self._piece()
                if not is_whole:
                    await self._turns.after(len(piece))
                text += piece
                n_bytes += len(piece)
                if not too_long:
                    try:
                        self._message.has(n_bytes)
                    except TooMuchError as error:
                        too_long = str(error)
                        self._message.has(0)
                if too_long:
                    del text[_ENDS_BYTES:-_ENDS_BYTES]
                    if not is_whole and n_bytes > (limit := self._message.limits.upstream_bytes):
                        raise TooMuchError(f"a line of over {limit / MIB:,.4g} MiB without an end")
        finally:
            self._message.has(0)
        return Line(text, n_bytes, too_long) if text else None

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


def read_line(line: Line, limits: Limits) -> list[JSONRPCMessage]:
    """Return the messages of a line: one, as a rule; none where it is no message.

    A message after other text on its line is found too. An answer that is too long, or can't be read, is given as an
    error, so that whoever waits for it does not wait on.
    """
    text = line.text
    if line.too_long:
        return _unreadable(text, f"of {line.n_bytes / MIB:,.4g} MiB is dropped: it is {line.too_long}")
    if not text.strip():
        return []
    within = _MESSAGE_WITHIN.search(text, 0, 4096) if not text.startswith((b"{", b"[")) else None
    if within:
        text = text[within.start() :]
    try:
        limits.check_values(text)
        value = _parse(text)
        batch = value if isinstance(value, list) else [value]
        return [jsonrpc_message_adapter.validate_python(item, by_name=False) for item in batch]
    except (ValueError, RecursionError) as error:
        return _unreadable(text, f"could not be read: {error}")


def _parse(line: bytearray) -> Any:
    try:
        return from_json(line)
    except ValueError:
        # What JavaScript writes of a text that was cut within a character, what is not quite UTF-8, or nested deeper.
        text = json.dumps(json.loads(line.decode(errors="replace")), ensure_ascii=False)
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _unreadable(text: bytearray, reason: str) -> list[JSONRPCMessage]:
    """Return an error in the place of an answer, by the id at its beginning or end; nothing where there is none."""
    found = _ID_FIRST.search(text[:_ENDS_BYTES]) or _ID_LAST.search(text[-_ENDS_BYTES:])
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
