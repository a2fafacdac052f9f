"""`edit_file`: exactly the text meant, and every other byte as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from tests.every import every

Call = Callable[..., dict[str, Any]]


class TestReplacement:
    @every(
        ("before", "old", "new", "after"),
        [
            ("one\ntwo\nthree\n", "two", "zwei", "one\nzwei\nthree\n"),
            ("one\ntwo\n", "two\n", "", "one\n"),
            (r"a.*b", ".*", r"\1$0\g<0>", r"a\1$0\g<0>b"),
        ],
    )
    def test_the_text_is_replaced_literally_and_the_hash_is_that_of_the_new_content(
        self, call: Call, root: Path, before: str, old: str, new: str, after: str
    ) -> None:
        (root / "a.txt").write_text(before)
        edit = call("edit_file", path="a.txt", old_text=old, new_text=new)
        assert (root / "a.txt").read_text() == after
        assert edit["sha256"] == hashlib.sha256(after.encode()).hexdigest()

    def test_the_diff_shows_the_change_in_context(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 21)))
        edit = call("edit_file", path="a.txt", old_text="10\n", new_text="ten\nand more\n")
        assert edit["diff"] == (
            "--- a.txt\n+++ a.txt\n@@ -7,7 +7,8 @@\n 7\n 8\n 9\n-10\n+ten\n+and more\n 11\n 12\n 13\n"
        )

    def test_text_that_occurs_twice_is_replaced_only_when_all_are_asked_for(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("x\ny\nx\n")
        with pytest.raises(ToolError, match=r"old_text occurs more than once: 'x'; at lines 1, 3"):
            call("edit_file", path="a.txt", old_text="x", new_text="z")
        assert (root / "a.txt").read_text() == "x\ny\nx\n"
        assert call("edit_file", path="a.txt", old_text="x", new_text="z", replace_all=True)["n_replacements"] == 2
        assert (root / "a.txt").read_text() == "z\ny\nz\n"

    @every(
        ("before", "old", "new", "told"),
        [
            ("aaa", "aa", "b", r"more than once"),
            ("one\n", "two", "x", r"old_text does not occur in the file: 'two'"),
            (
                "def f():\n    return 1\n",
                "\treturn 1\n",
                "\treturn 2\n",
                r"its first line is at line 2, check white space",
            ),
            ("one\n", "one", "one", r"are the same"),
            ("one\n", "", "one", r"old_text"),
        ],
    )
    def test_text_that_is_not_there_just_once_is_refused_and_told_why(
        self, call: Call, root: Path, before: str, old: str, new: str, told: str
    ) -> None:
        (root / "a.txt").write_text(before)
        with pytest.raises(ToolError, match=told):
            call("edit_file", path="a.txt", old_text=old, new_text=new)
        assert (root / "a.txt").read_text() == before

    def test_a_dry_run_changes_nothing(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\n")
        edit = call("edit_file", path="a.txt", old_text="one", new_text="two", dry_run=True)
        assert (edit["applied"], (root / "a.txt").read_text()) == (False, "one\n")
        assert edit["diff"] == "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two\n"

    def test_another_hash_than_expected_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\n")
        with pytest.raises(ToolError, match=r"has changed since it was read"):
            call("edit_file", path="a.txt", old_text="one", new_text="two", expected_sha256="0" * 64)
        assert (root / "a.txt").read_text() == "one\n"

    def test_a_missing_file_is_named_with_the_nearest(self, call: Call, root: Path) -> None:
        (root / "notes.txt").write_text("one\n")
        with pytest.raises(ToolError, match=r"no such file or directory: 'note.txt'; nearest: 'notes.txt'"):
            call("edit_file", path="note.txt", old_text="one", new_text="two")


class TestBounds:
    def test_a_long_diff_is_cut_and_says_so(self, make_call: Callable[..., Call], root: Path) -> None:
        (root / "a.txt").write_text("x\n" * 5_000)
        edit = make_call(roots=(root,), max_result_chars=1_000)(
            "edit_file", path="a.txt", old_text="x", new_text="y", replace_all=True
        )
        assert (edit["truncated"], len(edit["diff"])) == (True, 1_000)
        assert (root / "a.txt").read_text() == "y\n" * 5_000

    def test_a_file_over_the_limit_is_refused_and_an_edit_that_would_swell_one(
        self, make_call: Callable[..., Call], root: Path
    ) -> None:
        (root / "a.txt").write_text("x" * 100_000)
        edit = {"path": "a.txt", "old_text": "x", "new_text": "y" * 100_000, "replace_all": True}
        with pytest.raises(ToolError, match=r"file is larger than 99999 bytes"):
            make_call(roots=(root,), max_read_bytes=99_999)("edit_file", **edit)
        with pytest.raises(ToolError, match=r"the edited file would be larger"):
            make_call(roots=(root,))("edit_file", **edit)


class TestLineEnds:
    @every(
        ("before", "old", "new", "after"),
        [
            (b"one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "1\n2\n2b\n", b"1\r\n2\r\n2b\r\nthree\r\n"),
            (b"one\r\ntwo\nthree\r\n", "two\n", "2\n", b"one\r\n2\nthree\r\n"),
            (b"one\r\ntwo\r\nthree\n", "one\ntwo\n", "1\n2\n", b"1\r\n2\r\nthree\n"),
        ],
    )
    def test_lines_are_meant_by_line_feeds_and_keep_their_ends(
        self, call: Call, root: Path, before: bytes, old: str, new: str, after: bytes
    ) -> None:
        (root / "a.txt").write_bytes(before)
        call("edit_file", path="a.txt", old_text=old, new_text=new)
        assert (root / "a.txt").read_bytes() == after

    def test_what_is_viewed_in_a_crlf_file_can_be_edited(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
        seen = call("view_file", path="a.txt")["text"]
        call("edit_file", path="a.txt", old_text=seen, new_text=seen + "three\n")
        assert (root / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"

    def test_a_missing_last_line_end_stays_missing(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\ntwo")
        edit = call("edit_file", path="a.txt", old_text="two", new_text="2")
        assert (root / "a.txt").read_text() == "one\n2"
        assert edit["diff"].endswith("-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n")


class TestEncodings:
    @every(
        ("before", "after", "arguments"),
        [
            (b"caf\xe9\none\n", b"caf\xe9\n" + "zwö\n".encode(), {}),
            ("Grüße one\n".encode("cp1252"), "Grüße zwö\n".encode("cp1252"), {"encoding": "cp1252"}),
            *(("one\n".encode(name), "zwö\n".encode(name), {}) for name in ("utf-8-sig", "utf-16", "utf-32")),
            ("\ufeffone\n".encode("utf-16-be"), "\ufeffzwö\n".encode("utf-16-be"), {}),
        ],
    )
    def test_every_other_byte_and_the_byte_order_mark_are_kept_in_any_encoding(
        self, call: Call, root: Path, before: bytes, after: bytes, arguments: dict[str, str]
    ) -> None:
        (root / "a.txt").write_bytes(before)
        call("edit_file", path="a.txt", old_text="one", new_text="zwö", **arguments)
        assert (root / "a.txt").read_bytes() == after

    def test_half_a_wide_character_is_no_match(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes("表示".encode("shift_jis"))
        with pytest.raises(ToolError, match=r"does not occur"):
            call("edit_file", path="a.txt", old_text="\\", new_text="/", encoding="shift_jis")

    def test_a_binary_file_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.bin").write_bytes(b"one\0two")
        with pytest.raises(ToolError, match=r"file is binary: 'a.bin'; use write_file with as_base64"):
            call("edit_file", path="a.bin", old_text="one", new_text="two")

    def test_text_the_encoding_lacks_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"one")
        with pytest.raises(ToolError, match=r"character that latin-1 can't hold"):
            call("edit_file", path="a.txt", old_text="one", new_text="日", encoding="latin-1")
