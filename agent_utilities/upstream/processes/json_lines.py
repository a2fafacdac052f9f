"""Messages as lines of JSON: found in what a pipe gives, bounded, and told from lines that are none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic_core import from_json

from agent_utilities.upstream.limits import MIB, IncomingMessage, Limits, TooMuchError

_ENDS_BYTES = 4096
"""Bytes of the beginning and the end of a line that is too long, which are kept for its id."""
_ID_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]*")\s*[,}]')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_MESSAGE_WITHIN = re.compile(rb'\{\s*"(?:jsonrpc|id|result|method)"\s*:')


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line that was too long to be kept.

    Args:
        start: its first bytes.
        end: its last bytes.
        n_bytes: its length.
        why: the limit that it is over.
    """

    start: bytes
    end: bytes
    n_bytes: int
    why: str


class LineBuffer:
    """What was read of a pipe and not yet taken, in time and memory proportional to its size.

    Args:
        message: what a line's length is held to; of one that is too long only its ends are kept.
    """

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
        n_bytes = len(self._data) if end < 0 else end
        self._n_searched = n_bytes if end < 0 else 0
        try:
            if self._overlong is None:
                self._message.has(n_bytes)
        except TooMuchError as error:
            self._overlong = OverlongLine(bytes(self._data[:_ENDS_BYTES]), b"", 0, str(error))
        if self._overlong is not None:
            self._drop(n_bytes)
        if end < 0:
            return None
        self._message.has(0)
        if self._overlong is None:
            return self._take(end)
        del self._data[:1]
        overlong, self._overlong = self._overlong, None
        return overlong

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

    def _drop(self, n_bytes: int) -> None:
        """Leave out the first bytes of a line that is too long, and remember its ends."""
        overlong = self._overlong
        assert overlong is not None
        tail = overlong.end + bytes(self._data[max(0, n_bytes - _ENDS_BYTES) : n_bytes])
        self._overlong = replace(overlong, end=tail[-_ENDS_BYTES:], n_bytes=overlong.n_bytes + n_bytes)
        del self._data[:n_bytes]
        self._message.has(0)
        self._n_searched = 0


def read_line(line: bytes | bytearray, limits: Limits) -> list[JSONRPCMessage]:
    """Return the messages of a line: one, as a rule; none where it is no message.

    A message after other text on its line is found too. An answer that can't be read is given as an error, so that
    whoever waits for it does not wait on.

    Args:
        line: the line.
        limits: how many values it may have.
    """
    if not line.strip():
        return []
    within = _MESSAGE_WITHIN.search(line, 0, 4096) if line[:1] not in (b"{", b"[") else None
    if within:
        line = line[within.start() :]
    try:
        limits.check_values(line)
        return messages_of(_parse(line))
    except (ValueError, RecursionError) as error:
        return unreadable(line[:_ENDS_BYTES], line[-_ENDS_BYTES:], f"could not be read: {error}")


def _parse(line: bytes | bytearray) -> Any:
    try:
        return from_json(line)
    except ValueError:
        # What JavaScript writes of a text that was cut within a character, or what is not quite UTF-8.
        return _without_surrogates(json.loads(line.decode(errors="replace")))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def messages_of(value: Any) -> list[JSONRPCMessage]:
    """Return the messages that a JSON value holds: a batch holds several.

    Raises:
        ValueError: a message that is none.
    """
    if isinstance(value, list):
        return [message for item in value for message in messages_of(item)]
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return []
    if "method" in value:
        kind: type[JSONRPCMessage] = JSONRPCRequest if "id" in value else JSONRPCNotification
    elif "id" in value:
        kind = JSONRPCError if value.get("error") is not None else JSONRPCResponse
    else:
        return []
    return [kind.model_validate(value, by_name=False)]


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
