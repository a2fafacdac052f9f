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
    def test_the_text_is_replaced(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\ntwo\nthree\n")
        call("edit_file", path="a.txt", old_text="two", new_text="zwei")
        assert (root / "a.txt").read_text() == "one\nzwei\nthree\n"

    def test_the_diff_shows_the_change_in_context(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 21)))
        edit = call("edit_file", path="a.txt", old_text="10\n", new_text="ten\nand more\n")
        assert edit["diff"] == (
            "--- a.txt\n+++ a.txt\n@@ -7,7 +7,8 @@\n 7\n 8\n 9\n-10\n+ten\n+and more\n 11\n 12\n 13\n"
        )

    def test_the_hash_is_that_of_the_new_content(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\n")
        edit = call("edit_file", path="a.txt", old_text="one", new_text="two")
        assert edit["sha256"] == hashlib.sha256(b"two\n").hexdigest()

    def test_text_that_occurs_twice_is_refused_with_its_lines(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("x\ny\nx\n")
        with pytest.raises(ToolError, match=r"old_text occurs more than once: 'x'; at lines 1, 3"):
            call("edit_file", path="a.txt", old_text="x", new_text="z")
        assert (root / "a.txt").read_text() == "x\ny\nx\n"

    def test_text_that_overlaps_itself_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("aaa")
        with pytest.raises(ToolError, match=r"more than once"):
            call("edit_file", path="a.txt", old_text="aa", new_text="b")

    def test_all_are_replaced_when_asked(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("x\ny\nx\n")
        assert call("edit_file", path="a.txt", old_text="x", new_text="z", replace_all=True)["n_replacements"] == 2
        assert (root / "a.txt").read_text() == "z\ny\nz\n"

    def test_text_that_does_not_occur_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\n")
        with pytest.raises(ToolError, match=r"old_text does not occur in the file: 'two'"):
            call("edit_file", path="a.txt", old_text="two", new_text="x")

    def test_a_near_miss_is_pointed_out(self, call: Call, root: Path) -> None:
        (root / "a.py").write_text("def f():\n    return 1\n")
        with pytest.raises(ToolError, match=r"its first line is at line 2, check white space"):
            call("edit_file", path="a.py", old_text="\treturn 1\n", new_text="\treturn 2\n")

    def test_the_same_text_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\n")
        with pytest.raises(ToolError, match=r"are the same"):
            call("edit_file", path="a.txt", old_text="one", new_text="one")

    def test_empty_text_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\n")
        with pytest.raises(ToolError, match=r"old_text"):
            call("edit_file", path="a.txt", old_text="", new_text="one")

    def test_text_can_be_deleted(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\ntwo\n")
        call("edit_file", path="a.txt", old_text="two\n", new_text="")
        assert (root / "a.txt").read_text() == "one\n"

    def test_backslashes_and_dollars_mean_themselves(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text(r"a.*b")
        call("edit_file", path="a.txt", old_text=".*", new_text=r"\1$0\g<0>")
        assert (root / "a.txt").read_text() == r"a\1$0\g<0>b"

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

    def test_a_file_over_the_limit_is_refused(self, make_call: Callable[..., Call], root: Path) -> None:
        (root / "a.txt").write_text("x" * 100)
        with pytest.raises(ToolError, match=r"file is larger than 99 bytes"):
            make_call(roots=(root,), max_read_bytes=99)(
                "edit_file", path="a.txt", old_text="x", new_text="y", replace_all=True
            )

    def test_an_edit_that_would_swell_the_file_is_refused_before_it_is_made(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("x" * 100_000)
        with pytest.raises(ToolError, match=r"the edited file would be larger"):
            call("edit_file", path="a.txt", old_text="x", new_text="y" * 100_000, replace_all=True)


class TestLineEnds:
    def test_a_crlf_file_is_edited_with_plain_line_feeds(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
        call("edit_file", path="a.txt", old_text="one\ntwo\n", new_text="1\n2\n2b\n")
        assert (root / "a.txt").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"

    def test_what_is_viewed_in_a_crlf_file_can_be_edited(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
        seen = call("view_file", path="a.txt")["text"]
        call("edit_file", path="a.txt", old_text=seen, new_text=seen + "three\n")
        assert (root / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"

    def test_a_mixed_file_keeps_every_other_line(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"one\r\ntwo\nthree\r\n")
        call("edit_file", path="a.txt", old_text="two\n", new_text="2\n")
        assert (root / "a.txt").read_bytes() == b"one\r\n2\nthree\r\n"

    def test_a_mixed_file_is_matched_by_its_crlf_lines_too(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\n")
        call("edit_file", path="a.txt", old_text="one\ntwo\n", new_text="1\n2\n")
        assert (root / "a.txt").read_bytes() == b"1\r\n2\r\nthree\n"

    def test_a_missing_last_line_end_stays_missing(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("one\ntwo")
        edit = call("edit_file", path="a.txt", old_text="two", new_text="2")
        assert (root / "a.txt").read_text() == "one\n2"
        assert edit["diff"].endswith("-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n")


class TestEncodings:
    def test_bytes_that_are_no_text_are_kept(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes(b"caf\xe9\none\n")
        call("edit_file", path="a.txt", old_text="one", new_text="öne")
        assert (root / "a.txt").read_bytes() == b"caf\xe9\n" + "öne\n".encode()

    def test_another_encoding_is_used_when_named(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes("Grüße\n".encode("cp1252"))
        call("edit_file", path="a.txt", old_text="Grüße", new_text="Größe", encoding="cp1252")
        assert (root / "a.txt").read_bytes() == "Größe\n".encode("cp1252")

    @every("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
    def test_a_byte_order_mark_is_obeyed_and_kept(self, call: Call, root: Path, encoding: str) -> None:
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        (root / "a.txt").write_bytes((mark + "one\n").encode(encoding))
        call("edit_file", path="a.txt", old_text="one", new_text="zwö")
        assert (root / "a.txt").read_bytes() == (mark + "zwö\n").encode(encoding)

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
