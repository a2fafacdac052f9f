"""Bodies of responses, decompressed and held to what an upstream may send: of calls, logins and redirects alike."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpx2

from agent_utilities.upstream.limits import TURN_BYTES, IncomingMessage, Limits, TooMuchError, Turns, Unfinished

_EVENT_END = re.compile(rb"(?>\r\n|\n|\r){2}")
_LONGEST_END = 4


def bounding(limits: Limits, unfinished: Unfinished) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a client's response hook: every body is read within the limits, whoever reads it.

    Args:
        limits: what the upstream may send.
        unfinished: counts what has begun to come on all of its connections.
    """

    async def bound(response: httpx2.Response) -> None:
        if len(response.headers.get_list("content-encoding", split_commas=True)) > 1:
            raise TooMuchError("a body that is compressed more than once, of which a little may become anything")
        response.stream = _BoundedBody(response, IncomingMessage(limits, unfinished))
        for name in ("content-encoding", "content-length"):
            response.headers.pop(name, None)

    return bound


class _BoundedBody(httpx2.AsyncByteStream):
    """A response's body, message by message: each event of an event stream, or all of any other.

    Args:
        response: the response, whose body is not yet read.
        message: what each is held to.
    """

    def __init__(self, response: httpx2.Response, message: IncomingMessage) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._coded, self._message, self._turns = response.stream, message, Turns()
        self._body = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._is_events = kind == "text/event-stream"
        self._buffer = bytearray()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body.aiter_bytes():
                for at in range(0, len(chunk), TURN_BYTES):  # a decoder gives 1 MiB at once
                    self._buffer += chunk[at : at + TURN_BYTES]
                    for event in self._events():
                        began_s = asyncio.get_running_loop().time()
                        yield event
                        await self._turns.after(len(event), asyncio.get_running_loop().time() - began_s)
                    if not self._body.is_success and len(self._buffer) > self._message.limits.error_bytes:
                        yield bytes(self._buffer[: self._message.limits.error_bytes])
                        return
                    self._message.has(len(self._buffer))
                    await self._turns.after(TURN_BYTES)
            self._message.limits.check_values(self._buffer)
            yield bytes(self._buffer)
        finally:
            self._message.has(0)

    def _events(self) -> Iterator[bytes]:
        """Take the events that are whole."""
        n_searched = max(0, len(self._buffer) - TURN_BYTES - _LONGEST_END)
        while self._is_events and (end := _EVENT_END.search(self._buffer, n_searched)):
            event = bytes(self._buffer[: end.end()])
            del self._buffer[: end.end()]
            n_searched = 0
            self._message.limits.check_values(event)
            yield event

    async def aclose(self) -> None:
        self._message.has(0)
        await self._coded.aclose()
