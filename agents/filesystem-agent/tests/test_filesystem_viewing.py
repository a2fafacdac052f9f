"""`view_file` and `tail_file`: what is in a file, in bounds, and never garbled."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import given, settings
from hypothesis import strategies as st

from filesystem_agent.contents import read_last_lines
from filesystem_agent.text import split_lines
from tests.every import every

Call = Callable[..., dict[str, Any]]


class TestLines:
    @every(("text", "n_lines"), [("one\ntwo\n", 2), ("", 0)])
    def test_a_whole_file_is_shown(self, call: Call, root: Path, text: str, n_lines: int) -> None:
        (root / "a.txt").write_text(text)
        view = call("view_file", path="a.txt")
        assert (view["text"], view["n_total_lines"], view["truncated"]) == (text, n_lines, False)

    @every(
        ("start", "n_lines", "text", "next_line"), [(2, 2, "2\n3\n", 4), (4, 5, "4\n", None), (3, 2, "3\n4\n", None)]
    )
    def test_a_range_is_shown_with_where_to_go_on_and_the_hash_of_the_whole(
        self, call: Call, root: Path, start: int, n_lines: int, text: str, next_line: int | None
    ) -> None:
        (root / "a.txt").write_text("1\n2\n3\n4\n")
        view = call("view_file", path="a.txt", start_line=start, n_lines=n_lines)
        assert (view["text"], view["next_line"], view["truncated"]) == (text, next_line, next_line is not None)
        assert view["sha256"] == hashlib.sha256(b"1\n2\n3\n4\n").hexdigest()

    @every(
        ("max_read_bytes", "hint"), [(1_000_000, "the file has 2000 lines"), (1_000, "tail_file shows the last lines")]
    )
    def test_a_start_past_the_end_is_refused_with_where_the_end_is(
        self, make_call: Callable[..., Call], root: Path, max_read_bytes: int, hint: str
    ) -> None:
        (root / "a.txt").write_text("1\n" * 2_000)
        call = make_call(roots=(root,), max_read_bytes=max_read_bytes)
        with pytest.raises(ToolError, match=f"past the end of the file: 3000; {hint}"):
            call("view_file", path="a.txt", start_line=3_000)

    def test_only_a_line_feed_ends_a_line(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a\u2028b\x0cc\x85d\n", newline="")
        assert call("view_file", path="a.txt")["n_total_lines"] == 1

    def test_a_directory_is_refused(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        with pytest.raises(ToolError, match=r"it is a directory, not a file: 'x'"):
            call("view_file", path="x")

    @every("arguments", [{"start_line": 0}, {"n_lines": 0}, {"n_lines": 10**9}])
    def test_numbers_out_of_range_are_refused(self, call: Call, root: Path, arguments: dict[str, int]) -> None:
        (root / "a.txt").write_text("1\n")
        with pytest.raises(ToolError, match=r"wrong arguments for view_file"):
            call("view_file", path="a.txt", **arguments)


class TestBounds:
    @every(
        ("text", "shown", "next_line"),
        [("12345678\n" * 1_000, "12345678\n" * 111, 112), ("x" * 5_000, "x" * 1_000, None)],
    )
    def test_text_over_the_limit_ends_at_a_whole_line_where_there_is_one(
        self, make_call: Callable[..., Call], root: Path, text: str, shown: str, next_line: int | None
    ) -> None:
        (root / "a.txt").write_text(text)
        view = make_call(roots=(root,), max_result_chars=1_000)("view_file", path="a.txt")
        assert (view["text"], view["truncated"], view["next_line"]) == (shown, True, next_line)

    def test_a_file_too_large_to_hold_is_still_shown_by_line_and_page(
        self, make_call: Callable[..., Call], root: Path
    ) -> None:
        (root / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 10_001)))
        call = make_call(roots=(root,), max_read_bytes=1_000, max_result_chars=10_000)
        for start in (1, 2, 4_000, 10_000):
            view = call("view_file", path="a.txt", start_line=start, n_lines=1)
            assert (view["text"], view["sha256"]) == (f"{start}\n", None)
        seen = ""
        line: int | None = 1
        while line is not None:
            view = call("view_file", path="a.txt", start_line=line, n_lines=100_000)
            seen += view["text"]
            line = view["next_line"]
        assert seen == (root / "a.txt").read_text()

    def test_counting_lines_stops_at_the_time_limit(self, make_call: Callable[..., Call], root: Path) -> None:
        with (root / "a.txt").open("wb") as file:
            file.write(b"x")
            file.truncate(1 << 40)
        call = make_call(roots=(root,), time_limit_s=0.05)
        with pytest.raises(ToolError, match=r"time limit of 0.05 s"):
            call("view_file", path="a.txt", start_line=2, encoding="utf-8")


class TestEncodings:
    @every(
        ("data", "text", "line_ending"),
        [(b"one\r\ntwo\r\n", "one\ntwo\n", "crlf"), (b"one\r\ntwo\n", "one\r\ntwo\n", "mixed")],
    )
    def test_crlf_is_shown_as_line_feeds_and_mixed_line_ends_as_they_are(
        self, call: Call, root: Path, data: bytes, text: str, line_ending: str
    ) -> None:
        (root / "a.txt").write_bytes(data)
        view = call("view_file", path="a.txt")
        assert (view["text"], view["line_ending"]) == (text, line_ending)

    @every("encoding", ["utf-8-sig", "utf-16", "utf-32"])
    def test_a_byte_order_mark_is_obeyed_and_not_shown(self, call: Call, root: Path, encoding: str) -> None:
        (root / "a.txt").write_bytes("Grüße, 日本\n".encode(encoding))
        assert call("view_file", path="a.txt")["text"] == "Grüße, 日本\n"

    @every("encoding", ["cp1252", "CP1252", "latin1", "iso8859-15"])
    def test_another_encoding_can_be_named(self, call: Call, root: Path, encoding: str) -> None:
        (root / "a.txt").write_bytes("Grüße".encode("latin-1"))
        assert call("view_file", path="a.txt", encoding=encoding)["text"] == "Grüße"

    def test_bytes_that_are_no_text_are_shown_as_escapes_and_counted(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"caf\xe9 \xff\n")
        view = call("view_file", path="a.txt")
        assert (view["text"], view["n_undecodable_bytes"]) == ("caf\\xe9 \\xff\n", 2)

    @every("data", [b"\x7fELF\0\0\0", b"text\0", b"\x91\xbc\xfe\0\0", bytes(range(256)), b"\x1f\x8b\x08\x01" * 50])
    def test_a_binary_file_is_refused_and_base64_offered(self, call: Call, root: Path, data: bytes) -> None:
        (root / "a.bin").write_bytes(data)
        with pytest.raises(ToolError, match=r"file is binary: 'a.bin'; use view_file with as_base64"):
            call("view_file", path="a.bin")

    @every(
        ("arguments", "told"),
        [
            ({}, r"not valid text in this encoding"),
            ({"encoding": "klingon"}, r"unknown text encoding: 'klingon'; one of: ascii, big5"),
        ],
    )
    def test_malformed_utf_16_and_an_unknown_encoding_are_refused(
        self, call: Call, root: Path, arguments: dict[str, str], told: str
    ) -> None:
        (root / "a.txt").write_bytes(b"\xff\xfea\x00\x00\xd8")
        with pytest.raises(ToolError, match=told):
            call("view_file", path="a.txt", **arguments)

    def test_a_multibyte_character_at_the_sample_edge_does_not_make_a_file_binary(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("x" * 8191 + "é" * 10)
        assert call("view_file", path="a.txt")["text"].endswith("éé")


class TestBase64:
    def test_bytes_come_back_whole_or_in_parts(self, make_call: Callable[..., Call], root: Path) -> None:
        data = os.urandom(5_000)
        (root / "a.bin").write_bytes(data)
        whole = make_call(roots=(root,))("view_file", path="a.bin", as_base64=True)
        assert (base64.b64decode(whole["text"]), whole["next_offset_bytes"]) == (data, None)
        assert whole["sha256"] == hashlib.sha256(data).hexdigest()
        call = make_call(roots=(root,), max_result_chars=1_000)
        seen = b""
        offset: int | None = 0
        while offset is not None:
            view = call("view_file", path="a.bin", as_base64=True, offset_bytes=offset)
            seen += base64.b64decode(view["text"])
            offset = view["next_offset_bytes"]
        assert seen == data

    def test_an_offset_without_base64_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("x")
        with pytest.raises(ToolError, match=r"offset_bytes needs as_base64"):
            call("view_file", path="a.txt", offset_bytes=1)


class TestTail:
    @every(
        ("data", "n_lines", "text"),
        [
            (b"1\n2\n3\n", 2, "2\n3\n"),
            (b"1\n2\n3", 2, "2\n3"),
            (b"1\n2\n", 50, "1\n2\n"),
            (b"", 50, ""),
            ("1\n2\n日\n".encode("utf-16"), 1, "日\n"),
        ],
    )
    def test_the_last_lines_are_shown(self, call: Call, root: Path, data: bytes, n_lines: int, text: str) -> None:
        (root / "a.log").write_bytes(data)
        tail = call("tail_file", path="a.log", n_lines=n_lines)
        assert (tail["text"], tail["n_lines"], tail["truncated"]) == (text, len(text.splitlines()), False)

    def test_a_huge_file_costs_no_more_than_its_tail(self, call: Call, root: Path) -> None:
        with (root / "a.log").open("wb") as file:
            file.truncate(1 << 40)
            file.seek(0, os.SEEK_END)
            file.write(b"\n" + b"line\n" * 10_000)
        tail = call("tail_file", path="a.log", n_lines=3)
        assert (tail["text"], tail["truncated"]) == ("line\nline\nline\n", False)

    def test_a_tail_over_the_limit_keeps_its_end(self, make_call: Callable[..., Call], root: Path) -> None:
        (root / "a.log").write_text("é" * 5_000 + "end")
        tail = make_call(roots=(root,), max_result_chars=1_000)("tail_file", path="a.log")
        assert (len(tail["text"]), tail["text"][-4:], tail["truncated"]) == (1_000, "éend", True)
        assert tail["n_undecodable_bytes"] == 0

    def test_a_binary_tail_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.bin").write_bytes(b"\0" * 100)
        with pytest.raises(ToolError, match=r"file is binary"):
            call("tail_file", path="a.bin")

    @settings(deadline=None)
    @given(data=st.text("ab\n", max_size=30), n_lines=st.integers(1, 9), n_block=st.integers(1, 7))
    def test_law_it_is_the_end_of_the_list_of_lines(self, data: str, n_lines: int, n_block: int) -> None:
        from filesystem_agent import contents

        fd = os.memfd_create("text") if hasattr(os, "memfd_create") else pytest.skip("needs memfd")
        before = contents.N_BLOCK_BYTES
        contents.N_BLOCK_BYTES = n_block
        try:
            os.write(fd, data.encode())
            tail, cut = read_last_lines(fd, n_lines, 1_000)
        finally:
            contents.N_BLOCK_BYTES = before
            os.close(fd)
        assert (tail.decode(), cut) == ("".join(split_lines(data)[-n_lines:]), False)
