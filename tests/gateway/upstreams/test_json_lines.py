"""Messages as lines of JSON, of any length and in any pieces."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from agent_utilities.gateway.upstreams.limits import IncomingMessage, Limits, Turns, Unfinished
from agent_utilities.gateway.upstreams.processes import stdio
from agent_utilities.gateway.upstreams.processes.stdio import Line, Lines
from tests.every import every

ENDS = stdio._ENDS_BYTES


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode()


async def lines_of(data: bytes, size: int, message_bytes: int = 2**20) -> list[Line]:
    """Return the lines of what comes in pieces of a size."""
    stdout = asyncio.StreamReader(limit=8)
    lines = Lines(stdout, IncomingMessage(Limits(message_bytes=message_bytes), Unfinished()), Turns())
    for at in range(0, len(data), size):
        stdout.feed_data(data[at : at + size])
    stdout.feed_eof()
    found = []
    while (line := await lines.next_line()) is not None:
        found.append(line)
    return found


def read_line(line: bytes) -> list[JSONRPCMessage]:
    return stdio.read_line(Line(bytearray(line), len(line)), Limits())


class TestLines:
    @settings(max_examples=100)
    @given(st.lists(st.binary(max_size=20)), st.integers(1, 9))
    def test_they_are_found_in_any_pieces(self, pieces: list[bytes], size: int):
        data = b"\n".join(pieces)
        assert [line.text for line in asyncio.run(lines_of(data, size))] == io.BytesIO(data).readlines()

    @given(st.integers(0, 60) | st.integers(2 * ENDS - 2, 3 * ENDS), st.integers(1, 70))
    def test_of_one_over_the_limit_only_its_ends_are_kept(self, n_bytes: int, size: int):
        first, following = asyncio.run(lines_of(b"x" * n_bytes + b"\nnext\n", size, message_bytes=20))
        assert following == Line(bytearray(b"next\n"), 5)
        assert (first.n_bytes, bool(first.too_long)) == (n_bytes + 1, n_bytes >= 20)
        kept = b"x" * n_bytes + b"\n"
        assert first.text == (kept if len(kept) <= 2 * ENDS else kept[:ENDS] + kept[-ENDS:])


class TestMessages:
    @every(
        ("message", "kind"),
        [
            ({"id": 1, "method": "ping"}, JSONRPCRequest),
            ({"method": "notifications/x", "params": {}}, JSONRPCNotification),
            ({"id": "a", "result": {}}, JSONRPCResponse),
            ({"id": 1, "result": {}, "error": None}, JSONRPCResponse),
            ({"id": 1, "error": {"code": 1, "message": "m"}}, JSONRPCError),
        ],
    )
    def test_each_kind_is_read(self, message: dict[str, Any], kind: type):
        assert [type(found) for found in read_line(line(**message))] == [kind]

    @every(
        "garbage",
        [
            *(b"", b"  \r", b"Starting ...", b"{", b"{}", b"[]", b"42", b"null", b"\xff\xfe", b"\x1b[2J"),
            *(b"[" * 100_000, b'{"a": 1}', b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "method": 5}'),
        ],
    )
    def test_what_is_none_is_none(self, garbage: bytes):
        assert read_line(garbage) == []

    def test_a_batch_is_several(self):
        batch = b"[" + line(id=1, result={}) + b"," + line(method="x") + b"]"
        assert len(read_line(batch)) == 2

    @every("before", [b"Ready. ", b"\xef\xbb\xbf", b"\x1b[0m", b"  "])
    def test_one_after_other_text_is_found(self, before: bytes):
        assert len(read_line(before + line(id=1, result={}))) == 1

    @every("text", [rb'"\ud83d"', rb'"\ud83d\ude00 \ude00"', b'"\xff"'])
    def test_half_a_character_is_replaced(self, text: bytes):
        (message,) = read_line(b'{"jsonrpc":"2.0","id":1,"result":{"text":' + text + b"}}")
        assert isinstance(message, JSONRPCResponse)
        assert "\ufffd" in message.result["text"]
        json.dumps(message.result, ensure_ascii=False).encode()

    @every(
        "broken",
        [
            b'{"jsonrpc":"2.0","id":7,"result":{"a":nonsense}}',
            b'{"result":{"a":nonsense},"jsonrpc":"2.0","id":7}',
            b'{"result":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'},"jsonrpc":"2.0","id":7}',
            b'{"jsonrpc":"2.0","id":7,"result":"no object"}',
        ],
    )
    def test_an_answer_that_cant_be_read_is_an_error_for_whoever_waits(self, broken: bytes):
        (message,) = read_line(broken)
        assert isinstance(message, JSONRPCError)
        assert message.id == 7
        assert message.error.message.startswith("the server's answer could not be read")

    @every(
        ("start", "end"),
        [(b'{"jsonrpc":"2.0","id":"a","result":', b"}"), (b'{"result":', b',"jsonrpc":"2.0","id":"a"}')],
    )
    def test_an_answer_that_is_too_long_is_an_error_that_says_how_long(self, start: bytes, end: bytes):
        text = bytearray(start + b"x" * 10_000 + end)
        (message,) = stdio.read_line(Line(text, 300 * 2**20, "a message of over 16 MiB"), Limits())
        assert isinstance(message, JSONRPCError)
        assert message.id == "a"
        assert message.error.message == ("the server's answer of 300 MiB is dropped: it is a message of over 16 MiB")
