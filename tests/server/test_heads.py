"""HTTP as servers read it: by real sockets, past which nothing of a request is read that has no end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn

from agent_utilities.server.http.host_guard import LONGEST_HEAD, BoundedHttp
from tests.every import every

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

_HEAD = b"POST / HTTP/1.1\r\nhost: here\r\n"
_LAST = _HEAD + b"connection: close\r\n"


async def _tell_length(scope: Any, receive: Any, send: Any) -> None:
    n, more = 1_000_000 * any(name == b"x-late" for name, _ in scope["headers"]), True
    while more:
        message = await receive()
        n, more = n + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
    await send({"type": "http.response.body", "body": b"%8d" % n})


@asynccontextmanager
async def _served() -> AsyncIterator[int]:
    config = uvicorn.Config(_tell_length, host="127.0.0.1", port=0, http=BoundedHttp, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


async def _answers(*parts: bytes) -> bytes:
    async with _served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for part in parts:
            writer.write(part)
            await writer.drain()
        answer = await reader.read()
        writer.close()
        return answer


async def _ends(begun: bytes) -> None:
    """Send a beginning, and then the same again and again until the connection is ended."""
    async with _served() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        n_sent = 0
        while not writer.is_closing() and n_sent < 100 * LONGEST_HEAD:
            writer.write(b"a" * 4096)
            n_sent += 4096
            with suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(0)
        assert n_sent < 100 * LONGEST_HEAD
        writer.close()


class TestAHead:
    async def test_of_two_hosts_is_refused(self) -> None:
        answer = await _answers(_HEAD + b"Host: there\r\ncontent-length: 0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")

    async def test_that_is_too_long_is_refused_where_it_comes_at_once(self) -> None:
        headers = b"".join(b"x-%d: %s\r\n" % (n, b"a" * 1000) for n in range(70))
        assert (await _answers(_HEAD + headers + b"\r\n")).startswith(b"HTTP/1.1 400 ")

    async def test_without_an_end_ends_the_connection(self) -> None:
        await _ends(_HEAD + b"x: ")

    async def test_as_long_as_it_may_be_is_read(self) -> None:
        headers = b"".join(b"x-%d: %s\r\n" % (n, b"a" * 1000) for n in range(60))
        answer = await _answers(_LAST + headers[:30_000], headers[30_000:] + b"content-length: 2\r\n\r\nhi")
        assert answer.endswith(b"       2")


class TestABody:
    async def test_counts_nothing_of_the_head(self) -> None:
        length = 20 * LONGEST_HEAD
        asked = _LAST + b"content-length: %d\r\n\r\n" % length
        answer = await _answers(asked, *[b"b" * LONGEST_HEAD] * 20)
        assert answer.endswith(b"%8d" % length)

    async def test_may_be_followed_by_another_request(self) -> None:
        rest = b"content-length: 3\r\n\r\nabc"
        assert (await _answers(_HEAD + rest + _LAST + rest)).count(b"HTTP/1.1 200 ") == 2

    async def test_ends_without_a_header(self) -> None:
        chunked = b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
        assert (await _answers(_LAST + chunked + b"x-late: 1\r\n\r\n")).endswith(b"       3")

    @every("begun", [b"0\r\nx: ", b"3;x="], ids=["in its trailer", "in what is said of a chunk"])
    async def test_without_an_end_ends_the_connection(self, begun: bytes) -> None:
        await _ends(_LAST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n" + begun)
