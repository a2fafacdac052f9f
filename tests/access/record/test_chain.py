"""A line of a chain, as it is written and as it is read: to the byte, whoever has written it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from agent_utilities.access.record.chain import Head, read_line, write_line
from agent_utilities.errors import InputError
from tests.every import every

HEAD = Head("0123456789abcdef", 6, "a" * 64)


class TestWritten:
    def test_goes_on_from_the_line_before(self) -> None:
        text, after = write_line(HEAD, 1_780_000_000.5, {"event": "call", "n_bytes": 7})
        said = text[: text.index(b',"hash"')]
        start = b'{"chain":"0123456789abcdef","n":7,"prev":"' + b"a" * 64 + b'",'
        assert said == start + b'"at":"2026-05-28T20:26:40.500Z","event":"call","n_bytes":7'
        assert text == said + b',"hash":"' + sha256(said).hexdigest().encode() + b'"}\n'
        assert after == Head(HEAD.chain, 7, sha256(said).hexdigest())

    @every(("at_s", "at"), [(0, "00.000Z"), (1.25, "01.250Z"), (59.9999, "59.999Z")])
    def test_has_its_time_in_milliseconds_of_utc(self, at_s: float, at: str) -> None:
        text, _ = write_line(HEAD, at_s, {})
        assert json.loads(text)["at"] == f"1970-01-01T00:00:{at}"

    def test_has_what_json_does_not_know_as_text(self) -> None:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        text, _ = write_line(HEAD, 0, {"event": "ünï\n", "when": moment})
        assert text.isascii()
        assert text.count(b"\n") == 1
        assert (json.loads(text)["event"], json.loads(text)["when"]) == ("ünï\n", str(moment))

    def test_of_a_new_chain_is_number_0_of_an_id_of_its_own(self) -> None:
        heads = [Head.of_new_chain() for _ in range(9)]
        assert len({head.chain for head in heads}) == 9
        assert all(re.fullmatch("[0-9a-f]{16}", head.chain) for head in heads)
        said = json.loads(write_line(heads[0], 0, {})[0])
        assert (said["n"], said["prev"]) == (0, "0" * 64)


class TestRead:
    def test_is_what_was_written(self) -> None:
        text, after = write_line(HEAD, 1.5, {"event": "call"})
        line = read_line(text.rstrip(b"\n"))
        assert line is not None
        assert (line.head, line.before, line.at) == (after, HEAD.hash, "1970-01-01T00:00:01.500Z")
        assert (line.event, line.is_whole) == ("call", True)

    @every(
        ("old", "new", "event"),
        [
            (b'"call"', b'"kall"', "kall"),
            (b'"n":7', b'"n":8', "call"),
            (b'"event"', b'"\xff\xfe"', ""),
            (b'00:00:01.500Z"', b'\xff\xfe"', ""),
            (b'"call"', b'"call","deep":' + b"[" * 100_000, ""),
            (b',"event":"call"', b"", "None"),
        ],
    )
    def test_shows_that_it_was_changed(self, old: bytes, new: bytes, event: str) -> None:
        text = write_line(HEAD, 1.5, {"event": "call"})[0].rstrip(b"\n")
        assert old in text
        line = read_line(text.replace(old, new))
        assert line is not None
        assert (line.is_whole, line.event) == (False, event)

    @every("cut", [slice(1, None), slice(-1), slice(0, 0), slice(0, 60)])
    def test_is_none_of_a_piece(self, cut: slice) -> None:
        assert read_line(write_line(HEAD, 1.5, {})[0].rstrip(b"\n")[cut]) is None


class TestHead:
    def test_is_read_as_it_is_printed(self) -> None:
        assert str(HEAD) == f"0123456789abcdef:6:{'a' * 64}"
        assert Head.read(f" {HEAD}\n", "argument HEAD") == HEAD

    @every("text", ["", "x", str(HEAD)[:-1], f"{HEAD}0", str(HEAD).upper(), str(HEAD).replace("6", "-1")])
    def test_that_is_none_is_refused_with_what_would_do(self, text: str) -> None:
        with pytest.raises(InputError, match=r"not a head: .*argument HEAD.*CHAIN:NUMBER:HASH"):
            Head.read(text, "argument HEAD")
