"""`diff_files` and the diffs of edits: right when applied, bounded when large."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from filesystem_agent.replacing import replace_text
from filesystem_agent.text import split_lines
from filesystem_agent.unified import NO_NEWLINE, find_changes, unified_diff
from tests.every import every

Call = Callable[..., dict[str, Any]]

lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=25)


HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def apply(diff: str, old: str) -> str:
    """Return what a strict reading of a unified diff makes of `old`: every header and context line must be true."""
    old_lines, made, at = split_lines(old), [], 0
    left = [0, 0]
    body = split_lines(diff)[2:]
    for index, line in enumerate(body):
        if header := HEADER.fullmatch(line):
            assert left == [0, 0]
            left = [int(header[2] or 1), int(header[4] or 1)]
            start = int(header[1]) - (left[0] > 0)
            made += old_lines[at:start]
            at = start
            assert len(made) == int(header[3]) - (left[1] > 0)
        elif line != NO_NEWLINE:
            text = line[1:]
            if index + 1 < len(body) and body[index + 1] == NO_NEWLINE:
                text = text.removesuffix("\n")
            if line[0] in " -":
                assert old_lines[at] == text
                at += 1
                left[0] -= 1
            if line[0] in " +":
                made.append(text)
                left[1] -= 1
    assert left == [0, 0]
    return "".join(made + old_lines[at:])


class TestFiles:
    @every(
        ("old", "new", "shown"),
        [
            (b"one\ntwo\n", b"one\nzwei\n", "--- a.txt\n+++ b.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"),
            (b"one\n", b"one\r\n", "--- a.txt\n+++ b.txt\n@@ -1 +1 @@\n-one\n+one\r\n"),
            (b"one\n", b"one\n", ""),
        ],
    )
    def test_changes_are_shown_even_of_line_ends_and_equal_files_have_none(
        self, call: Call, root: Path, old: bytes, new: bytes, shown: str
    ) -> None:
        (root / "a.txt").write_bytes(old)
        (root / "b.txt").write_bytes(new)
        diff = call("diff_files", old_path="a.txt", new_path="b.txt")
        assert (diff["diff"], diff["are_identical"]) == (shown, old == new)

    def test_binary_files_are_compared_but_not_shown(self, call: Call, root: Path) -> None:
        (root / "a.bin").write_bytes(b"\0a")
        (root / "b.bin").write_bytes(b"\0b")
        diff = call("diff_files", old_path="a.bin", new_path="b.bin")
        assert (diff["are_binary"], diff["are_identical"], diff["diff"]) == (True, False, "")

    def test_a_missing_file_is_named(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("")
        with pytest.raises(ToolError, match=r"no such file or directory: 'b.txt'"):
            call("diff_files", old_path="a.txt", new_path="b.txt")

    def test_a_long_diff_is_cut_and_a_file_over_the_limit_refused(
        self, make_call: Callable[..., Call], root: Path
    ) -> None:
        (root / "a.txt").write_text("x\n" * 3_000)
        (root / "b.txt").write_text("y\n" * 3_000)
        diff = make_call(roots=(root,), max_result_chars=1_000)("diff_files", old_path="a.txt", new_path="b.txt")
        assert (len(diff["diff"]), diff["truncated"]) == (1_000, True)
        with pytest.raises(ToolError, match=r"file is larger than 5999 bytes"):
            make_call(roots=(root,), max_read_bytes=5_999)("diff_files", old_path="a.txt", new_path="b.txt")


class TestHostileInput:
    def test_a_comparison_that_takes_long_becomes_a_rough_one(self) -> None:
        old = [f"{number % 150}\n" for number in range(15_000)]
        new = [f"{number * 7 % 150}\n" for number in range(15_000)]
        changes, is_minimal = find_changes(old, new, time.monotonic() + 0.01)
        assert is_minimal is False
        assert len(changes) == 1

    def test_texts_too_long_to_compare_become_a_rough_one_at_once_unless_the_change_is_small(self) -> None:
        old = [f"{number}\n" for number in range(100_000)]
        for new, expected in (
            ([old[0], *(f"-{number}\n" for number in range(99_998)), old[-1]], (1, 99_999, False)),
            ([*old[:50_000], "new\n", *old[50_000:]], (50_000, 50_000, True)),
        ):
            (change,), is_minimal = find_changes(old, new, time.monotonic() + 60)
            assert (change.old_start, change.old_end, is_minimal) == expected


class TestLaws:
    @settings(deadline=None)
    @given(old=lines, new=lines, n_context=st.integers(0, 4), is_rough=st.booleans())
    def test_law_a_diff_applied_to_the_old_text_is_the_new_one(
        self, old: list[str], new: list[str], n_context: int, is_rough: bool
    ) -> None:
        deadline = 0.0 if is_rough else time.monotonic() + 60
        changes, _ = find_changes(old, new, deadline)
        diff, _ = unified_diff(
            old, new, changes, old_name="a", new_name="b", n_context_lines=n_context, max_chars=10**6
        )
        assert apply(diff, "".join(old)) == "".join(new)

    @settings(deadline=None)
    @given(
        text=st.text("ab\n", max_size=25),
        old=st.text("ab\n", min_size=1, max_size=4),
        new=st.text("ab\n", max_size=4),
    )
    def test_law_the_diff_of_an_edit_applied_to_the_old_text_is_the_edited_one(
        self, text: str, old: str, new: str
    ) -> None:
        assume(old in text and old != new)
        edit = replace_text(text, old, new, shown="a", replace_all=True, max_chars=10**6, max_diff_chars=10**6)
        assert edit.text == text.replace(old, new)
        assert apply(edit.diff, text) == edit.text
