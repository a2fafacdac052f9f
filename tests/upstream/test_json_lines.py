"""Messages as lines of JSON, of any length and in any pieces."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from agent_utilities.upstream.processes import long_json
from agent_utilities.upstream.processes.json_lines import LineBuffer, OverlongLine, read_line, too_long
from agent_utilities.upstream.processes.long_json import read_long_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=6), inner, max_size=8),
    max_leaves=12,
)


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode()


class TestLines:
    @settings(max_examples=100)
    @given(st.lists(st.binary(max_size=20)), st.integers(1, 9))
    def test_they_are_found_in_any_pieces(self, pieces: list[bytes], size: int):
        data = b"\n".join(pieces)
        buffer, found = LineBuffer(), []
        for at in range(0, len(data), size):
            buffer.feed(data[at : at + size])
            while (line := buffer.next_line()) is not None:
                assert not isinstance(line, OverlongLine)
                found.append(bytes(line).rstrip(b"\n"))
        whole, rest = data.rpartition(b"\n")[::2] if b"\n" in data else (None, data)
        assert found == ([] if whole is None else whole.split(b"\n"))
        assert buffer.rest() == rest

    @given(st.integers(0, 60), st.integers(1, 70))
    def test_of_one_over_the_limit_only_its_ends_are_kept(self, n_bytes: int, size: int):
        buffer, found = LineBuffer(max_bytes=20), []
        data = b"x" * n_bytes + b"\nnext\n"
        for at in range(0, len(data), size):
            buffer.feed(data[at : at + size])
            while (line := buffer.next_line()) is not None:
                found.append(line if isinstance(line, OverlongLine) else bytes(line).rstrip(b"\n"))
        first = b"x" * n_bytes if n_bytes <= 20 else OverlongLine(b"x" * n_bytes, b"x" * n_bytes, n_bytes)
        assert [getattr(one, "n_bytes", one) for one in found] == [getattr(first, "n_bytes", first), b"next"]


class TestMessages:
    @pytest.mark.parametrize(
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

    @pytest.mark.parametrize(
        "garbage",
        [
            *(b"", b"  \r", b"Starting ...", b"{", b"{}", b"[]", b"42", b"null", b"\xff\xfe", b"\x1b[2J"),
            *(b"[" * 100_000, b'{"a": 1}', b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "method": 5}'),
        ],
        ids=lambda garbage: repr(garbage[:30]),
    )
    def test_what_is_none_is_none(self, garbage: bytes):
        assert read_line(garbage) == []

    def test_a_batch_is_several(self):
        batch = b"[" + line(id=1, result={}) + b"," + line(method="x") + b"]"
        assert len(read_line(batch)) == 2

    @pytest.mark.parametrize("before", [b"Ready. ", b"\xef\xbb\xbf", b"\x1b[0m", b"  "])
    def test_one_after_other_text_is_found(self, before: bytes):
        assert len(read_line(before + line(id=1, result={}))) == 1

    @pytest.mark.parametrize("text", [rb'"\ud83d"', rb'"\ud83d\ude00 \ude00"', b'"\xff"'])
    def test_half_a_character_is_replaced(self, text: bytes):
        (message,) = read_line(b'{"jsonrpc":"2.0","id":1,"result":{"text":' + text + b"}}")
        assert isinstance(message, JSONRPCResponse)
        assert "\ufffd" in message.result["text"]
        json.dumps(message.result, ensure_ascii=False).encode()

    @pytest.mark.parametrize(
        "broken",
        [
            b'{"jsonrpc":"2.0","id":7,"result":{"a":nonsense}}',
            b'{"result":{"a":nonsense},"jsonrpc":"2.0","id":7}',
            b'{"result":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'},"jsonrpc":"2.0","id":7}',
            b'{"jsonrpc":"2.0","id":7,"result":"no object"}',
        ],
        ids=["id first", "id last", "deep", "no object"],
    )
    def test_an_answer_that_cant_be_read_is_an_error_for_whoever_waits(self, broken: bytes):
        (message,) = read_line(broken)
        assert isinstance(message, JSONRPCError)
        assert message.id == 7
        assert message.error.message.startswith("the server's answer could not be read")

    @pytest.mark.parametrize(
        ("start", "end"),
        [(b'{"jsonrpc":"2.0","id":"a","result":', b"}"), (b'{"result":', b',"jsonrpc":"2.0","id":"a"}')],
    )
    def test_an_answer_that_is_too_long_is_an_error_that_says_how_long(self, start: bytes, end: bytes):
        (message,) = too_long(OverlongLine(start, end, 300 * 2**20), 128 * 2**20)
        assert isinstance(message, JSONRPCError)
        assert message.id == "a"
        assert message.error.message == ("the server's answer is 300 MiB long, and the gateway takes at most 128 MiB")


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_json, "_SMALL", 16)
    monkeypatch.setattr(long_json, "_LARGE", 24)


@pytest.mark.usefixtures("_small_pieces")
class TestLongOnes:
    """What is read in pieces is what is read at once, wherever the pieces end."""

    @settings(max_examples=100)
    @given(JSON, st.sampled_from([None, 1]), st.booleans())
    def test_equal_what_python_reads(self, value: Any, indent: int | None, is_ascii: bool):
        written = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
        assert read_long_json(written.encode("utf-8", "surrogatepass")) == json.loads(written)

    @given(st.text(alphabet='\\"/\n\u00e9\u65e5\U0001f600u0a', max_size=120), st.booleans())
    def test_strings_of_escapes_equal_what_python_reads(self, text: str, is_ascii: bool):
        assert read_long_json(json.dumps(text, ensure_ascii=is_ascii).encode()) == text

    @given(st.lists(st.integers() | st.floats(allow_nan=False) | st.text("a,]", max_size=3)))
    def test_arrays_of_short_items_equal_what_python_reads(self, items: list[Any]):
        assert read_long_json(json.dumps(items).encode()) == items

    @settings(max_examples=100)
    @given(JSON, st.integers(0, 200), st.sampled_from([b"", b",", b"]", b"}", b'"', b"x", b"\\", b"\xff"]))
    def test_what_python_does_not_read_is_not_read_either(self, value: Any, at: int, put: bytes):
        written = json.dumps(value).encode()
        broken = written[:at] + put + written[at + 1 :]
        try:
            expected = json.loads(broken, strict=False)
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011
                read_long_json(broken)
        else:
            assert read_long_json(broken) == expected or math.isnan(expected)
