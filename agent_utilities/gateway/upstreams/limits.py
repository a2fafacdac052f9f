"""How much an upstream may send, and how long a call may take: one value that stdio, HTTP and SSE are held to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIB = 2**20
N_PARTS = 2**14
"""Values of a result, or of a question, that are judged by their types, at 5 to 10 microseconds each."""
TURN_LINES, TURN_BYTES = 16, 64 * 1024
"""Lines, or bytes, after which whoever reads lets others do something, whatever was read."""
LINES_A_SECOND, REST_S = 5_000, 0.005
"""Lines in a second from which on each turn ends with a rest, so that a flood fills a pipe and not our time."""
LONG_S, LONGEST_REST_S = 0.05, 1.0
"""Seconds of work on what was read, from which on the rest is as long as the work was, and its longest."""


class TooMuchError(ValueError):
    """An upstream has sent more than is taken of it; the message names the number and the limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one upstream may send.

    Args:
        message_bytes: bytes of one message, after decompression.
        call_s: seconds that a call may take in all, the time in which its caller is asked something included.
        error_bytes: bytes that are read of a response which is an error or a redirect.
        garbage_lines: lines on stdout since the last message that are none, blank ones included, which end a server.
        garbage_bytes: the same in bytes.
    """

    message_bytes: int = 16 * MIB
    call_s: float = 3600.0
    error_bytes: int = 64 * 1024
    garbage_lines: int = 10_000
    garbage_bytes: int = 16 * MIB

    @property
    def upstream_bytes(self) -> int:
        """Bytes that may have come of unfinished messages, on all connections of one upstream together."""
        return max(64 * MIB, self.message_bytes)

    @property
    def n_values(self) -> int:
        """Values of one message: a reader's time goes by them, and hardly by bytes."""
        return max(2**19, self.message_bytes // 32)

    def check_values(self, message: bytes | bytearray) -> None:
        """Refuse a message of so many values that reading it would hold up everybody, by a `TooMuchError`.

        What reads JSON keeps the interpreter to itself until it is done, so that no thread helps. Counting costs a
        tenth of a second at 16 MiB, and nothing below 256 KiB.
        """
        if len(message) <= self.n_values or _n_values(message) <= self.n_values:
            return
        # Some of them may be within texts, such as a table's commas.
        plain = message.replace(b"\\\\", b"").replace(b'\\"', b"")
        # With so many texts there are too many values, and the pieces of a split would cost much memory.
        is_over = plain.count(b'"') > 4 * self.n_values
        if is_over or _n_values(b"".join(plain.split(b'"')[::2])) > self.n_values:
            raise TooMuchError(f"a message of over {self.n_values:,} JSON values, {_HINT}")


_HINT = "the most that is taken; `maxMessageBytes` of its config raises it"


def _n_values(data: bytes | bytearray) -> int:
    """Return how many values JSON has that holds no texts, or a few more."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def check_parts(message: Mapping[str, Any]) -> None:
    """Refuse a message of more than `N_PARTS` parts, by a `TooMuchError`: to judge each would hold up everybody.

    What is not judged is free: structured content and `_meta`.
    """
    found: list[Any] = [value for key, value in message.items() if key not in ("structuredContent", "_meta")]
    n_parts = 0
    while found:
        value = found.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        n_parts += len(inner)
        if n_parts > N_PARTS:
            raise TooMuchError(
                f"a message of over {N_PARTS:,} parts, such as blocks of content, the most that is taken"
            )
        found += inner


class Unfinished:
    """Bytes of messages that have begun to come of one upstream, on all of its connections together."""

    def __init__(self) -> None:
        self.n_bytes = 0


class IncomingMessage:
    """The message that is coming on one stream."""

    def __init__(self, limits: Limits, unfinished: Unfinished) -> None:
        self.limits, self._unfinished, self._n_bytes = limits, unfinished, 0

    def has(self, n_bytes: int) -> None:
        """Count its bytes so far; 0 once it is whole, or dropped.

        Raises:
            TooMuchError: it has too many, or all of the upstream's together have.
        """
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
    """Gives others their turn while something is read, however much there is to read."""

    def __init__(self) -> None:
        self._n_lines = self._n_bytes = self._second = self._n_in_second = 0

    async def after(self, n_bytes: int, worked_s: float = 0.0) -> None:
        """Count a line, or a piece, that was read; wait where it is others' turn, longer where too much comes."""
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
