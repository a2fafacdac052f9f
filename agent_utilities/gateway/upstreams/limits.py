"""Limits of what an upstream may send and how long a call may take, the same for stdio, HTTP and SSE."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIB = 2**20
N_PARTS = 2**14
"""The most validated values of a result or a question, at 5 to 10 microseconds each."""
TURN_LINES, TURN_BYTES = 16, 64 * 1024
"""Lines, or bytes, after which a reader lets the event loop turn."""
LINES_A_SECOND, REST_S = 5_000, 0.005
"""Lines a second above which each turn ends with a rest of so many seconds, so that a flood fills the pipe only."""
LONG_S, LONGEST_REST_S = 0.05, 1.0
"""Seconds of work above which the rest is as long as the work was, and the longest rest."""


class TooMuchError(ValueError):
    """An upstream has sent more than a limit; the message names the number and the limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one upstream.

    Args:
        message_bytes: bytes of one message, after decompression.
        call_s: seconds that a call may take in all, including questions to its caller.
        error_bytes: bytes that are read of an error response or a redirect.
        garbage_lines: lines on stdout in a row that are no message, blank ones included, after which a server is ended.
        garbage_bytes: the same in bytes.
    """

    message_bytes: int = 16 * MIB
    call_s: float = 3600.0
    error_bytes: int = 64 * 1024
    garbage_lines: int = 10_000
    garbage_bytes: int = 16 * MIB

    @property
    def upstream_bytes(self) -> int:
        """Bytes of unfinished messages on all connections of one upstream together."""
        return max(64 * MIB, self.message_bytes)

    @property
    def n_values(self) -> int:
        """JSON values of one message: parsing time depends on them, and hardly on bytes."""
        return max(2**19, self.message_bytes // 32)

    def check_values(self, message: bytes | bytearray) -> None:
        """Refuse a message of so many values that parsing would block everybody, by a `TooMuchError`.

        A JSON parser holds the interpreter until it is done, so a thread does not help. Counting costs a tenth of a
        second at 16 MiB, and nothing below 256 KiB.
        """
        if len(message) <= self.n_values or _n_values(message) <= self.n_values:
            return
        # Some of the characters may be within texts, such as a table's commas.
        plain = message.replace(b"\\\\", b"").replace(b'\\"', b"")
        # So many texts are too many values, and splitting at them would cost much memory.
        is_over = plain.count(b'"') > 4 * self.n_values
        if is_over or _n_values(b"".join(plain.split(b'"')[::2])) > self.n_values:
            raise TooMuchError(f"a message of over {self.n_values:,} JSON values, {_HINT}")


_HINT = "the most that is taken; `maxMessageBytes` of its config raises it"


def _n_values(data: bytes | bytearray) -> int:
    """Return the number of values of JSON without texts, or a few more."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def check_parts(message: Mapping[str, Any]) -> None:
    """Refuse a message of more than `N_PARTS` parts, by a `TooMuchError`: validating each would block everybody.

    Structured content and `_meta` are not validated, and don't count.
    """
    values: list[Any] = [value for key, value in message.items() if key not in ("structuredContent", "_meta")]
    n_parts = 0
    while values:
        value = values.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        n_parts += len(inner)
        if n_parts > N_PARTS:
            raise TooMuchError(
                f"a message of over {N_PARTS:,} parts, such as blocks of content, the most that is taken"
            )
        values += inner


class Unfinished:
    """The number of bytes of unfinished messages of one upstream, on all of its connections together."""

    def __init__(self) -> None:
        self.n_bytes = 0


class IncomingMessage:
    """The unfinished message on one stream."""

    def __init__(self, limits: Limits, unfinished: Unfinished) -> None:
        self.limits, self._unfinished, self._n_bytes = limits, unfinished, 0

    def has(self, n_bytes: int) -> None:
        """Set its bytes so far, 0 at its end; `TooMuchError` if it, or all of the upstream's together, are too long."""
        n_more = n_bytes - self._n_bytes
        self._unfinished.n_bytes += n_more
        self._n_bytes = n_bytes
        for n, limit, what in (
            (n_bytes, self.limits.message_bytes, "a message"),
            (self._unfinished.n_bytes, self.limits.upstream_bytes, "unfinished messages"),
        ):
            if n_more > 0 and n > limit:
                raise TooMuchError(f"{what} of over {limit / MIB:,.4g} MiB, {_HINT}")


class Turns:
    """Lets the event loop turn while something is read, however much there is to read."""

    def __init__(self) -> None:
        self._n_lines = self._n_bytes = self._second = self._n_in_second = 0

    async def after(self, n_bytes: int, worked_s: float = 0.0) -> None:
        """Count a line or piece that was read; yield to the event loop where that is due, longer in a flood."""
        self._n_lines += 1
        self._n_bytes += n_bytes
        if self._n_lines < TURN_LINES and self._n_bytes < TURN_BYTES:
            return
        began_s = time.monotonic()
        if int(began_s) != self._second:
            self._second, self._n_in_second = int(began_s), 0
        self._n_in_second += self._n_lines
        self._n_lines = self._n_bytes = 0
        await asyncio.sleep(REST_S if self._n_in_second > LINES_A_SECOND else 0)
        worked_s += time.monotonic() - began_s
        if worked_s > LONG_S:
            await asyncio.sleep(min(worked_s, LONGEST_REST_S))
