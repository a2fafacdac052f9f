"""The tools that list, find and search: complete within their limits, and honest about those."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp.exceptions import ToolError
from hypothesis import given, settings
from hypothesis import strategies as st

from filesystem_agent.globbing import parse_glob
from filesystem_agent.matching import block_bytes, compile_pattern, match_lines
from filesystem_agent.searching import FoundLines, search_files
from filesystem_agent.workspace import Workspace
from tests.every import every

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def tree(root: Path) -> Path:
    """A small source tree."""
    for name, text in {
        "README.md": "# Title\nneedle here\n",
        "src/main.py": "import os\n\nneedle = 1\nprint(needle)\n",
        "src/pkg/units.py": "# nothing\n",
        "src/pkg/deep/more.py": "NEEDLE\n",
        "docs/a.md": "needle\r\nsecond needle\r\n",
        ".git/config": "needle\n",
        "node_modules/x/index.js": "needle\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


class TestListing:
    @every(
        ("arguments", "expected"),
        [
            ({}, [".git", "README.md", "docs", "node_modules", "src"]),
            ({"path": "src", "depth": 2}, ["src/main.py", "src/pkg", "src/pkg/deep", "src/pkg/units.py"]),
            ({"path": "src", "depth": 9, "directories_only": True}, ["src/pkg", "src/pkg/deep"]),
        ],
    )
    def test_entries_come_in_name_order_as_deep_as_asked(
        self, call: Call, tree: Path, arguments: dict[str, Any], expected: list[str]
    ) -> None:
        assert [entry["path"] for entry in call("list_directories", **arguments)["entries"]] == expected

    def test_a_file_has_a_size_and_a_time(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("12345")
        (entry,) = call("list_directories")["entries"]
        assert (entry["kind"], entry["size_bytes"]) == ("file", 5)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", entry["modified"])

    @every(("limit", "n", "stopped_at"), [(2, 2, "limit of 2 entries"), (5, 5, None)])
    def test_only_a_list_longer_than_its_limit_is_cut_and_names_it(
        self, make_call: Callable[..., Call], tree: Path, limit: int, n: int, stopped_at: str | None
    ) -> None:
        listing = make_call(roots=(tree,), max_entries=limit)("list_directories")
        assert (len(listing["entries"]), listing["stopped_at"]) == (n, stopped_at)
        assert listing["truncated"] is (stopped_at is not None)

    def test_a_file_is_no_directory_and_a_missing_one_is_named_with_the_nearest(self, call: Call, tree: Path) -> None:
        with pytest.raises(ToolError, match=r"it is not a directory but a file: 'README.md'"):
            call("list_directories", path="README.md")
        with pytest.raises(ToolError, match=r"no such file or directory: 'src/pgk'; nearest: 'src/pkg'"):
            call("list_directories", path="src/pgk")


class TestInfo:
    def test_a_file_is_described(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("text")
        (root / "a.txt").chmod(0o640)
        info = call("file_info", path="a.txt", with_sha256=True)
        assert (info["kind"], info["size_bytes"], info["mode"], info["is_binary"], info["n_hard_links"]) == (
            "file",
            4,
            "0640",
            False,
            1,
        )
        assert info["sha256"] == "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"

    def test_the_root_is_described_and_a_missing_path_named(self, call: Call) -> None:
        assert call("file_info", path=".")["kind"] == "directory"
        with pytest.raises(ToolError, match=r"no such file or directory: 'nope'"):
            call("file_info", path="nope")


class TestFinding:
    @every(
        ("pattern", "arguments", "expected"),
        [
            ("*.py", {}, ["src/main.py", "src/pkg/deep/more.py", "src/pkg/units.py"]),
            ("src/*.py", {}, ["src/main.py"]),
            ("src/**/*.py", {}, ["src/main.py", "src/pkg/deep/more.py", "src/pkg/units.py"]),
            ("**/pkg/**", {}, ["src/pkg/deep/more.py", "src/pkg/units.py"]),
            ("src/*/units.py", {}, ["src/pkg/units.py"]),
            ("[mu]*.py", {}, ["src/main.py", "src/pkg/deep/more.py", "src/pkg/units.py"]),
            ("m???.py", {}, ["src/main.py", "src/pkg/deep/more.py"]),
            ("./src/main.py", {}, ["src/main.py"]),
            ("*.PY", {}, []),
            ("*/more.py", {"path": "src/pkg"}, ["src/pkg/deep/more.py"]),
            ("p*", {"kind": "directory"}, ["src/pkg"]),
            ("*.py", {"exclude": ["src/pkg/deep"]}, ["src/main.py", "src/pkg/units.py"]),
        ],
    )
    def test_a_pattern_finds_its_files_below_the_path(
        self, call: Call, tree: Path, pattern: str, arguments: dict[str, Any], expected: list[str]
    ) -> None:
        assert call("find_files", pattern=pattern, **arguments)["paths"] == expected

    def test_what_is_excluded_is_counted_and_nothing_is_when_told_so(self, call: Call, tree: Path) -> None:
        found = call("find_files", pattern="config")
        assert (found["paths"], found["n_excluded"]) == ([], 2)
        assert call("find_files", pattern="config", exclude=[])["paths"] == [".git/config"]

    def test_a_cut_result_names_its_limit(self, make_call: Callable[..., Call], tree: Path) -> None:
        found = make_call(roots=(tree,))("find_files", pattern="*.py", max_results=2)
        assert (len(found["paths"]), found["truncated"], found["stopped_at"]) == (2, True, "limit of 2 paths")
        found = make_call(roots=(tree,), max_scanned_entries=3)("find_files", pattern="*.py")
        assert found["stopped_at"] == "limit of scanned entries"

    def test_a_tree_deeper_than_the_limit_is_cut_and_says_so(self, call: Call, root: Path) -> None:
        (root / "/".join(["d"] * 120)).mkdir(parents=True)
        found = call("find_files", pattern="**", kind="directory")
        assert (len(found["paths"]), found["stopped_at"]) == (101, "depth of 100 directories")

    @every("pattern", ["/etc/*", "../*", "a/../*", "/"])
    def test_a_pattern_that_leaves_is_refused(self, call: Call, pattern: str) -> None:
        with pytest.raises(ToolError, match=r"pattern must be relative to path"):
            call("find_files", pattern=pattern)

    @every("pattern", ["*a" * 100 + "b", "**/" * 200 + "b", "[a-z]*" * 100 + "!"])
    def test_a_hostile_pattern_costs_little(self, make_call: Callable[..., Call], root: Path, pattern: str) -> None:
        (root / ("a" * 250)).write_text("")
        call = make_call(roots=(root,), time_limit_s=30)
        assert call("find_files", pattern=pattern)["stopped_at"] is None

    @settings(deadline=None)
    @given(pattern=st.text("ab*/", min_size=1, max_size=8), path=st.text("ab/", min_size=1, max_size=8))
    def test_law_globs_agree_with_a_regular_expression(self, pattern: str, path: str) -> None:
        parts = [part for part in pattern.split("/") if part]
        names = [name for name in path.split("/") if name]
        if not parts or not names or pattern.startswith("/"):
            return
        if "/" not in pattern and parts != ["**"]:
            parts.insert(0, "**")
        source = ""
        for part in parts:
            source += "(?:[^/]+/)*" if part == "**" else re.escape(part).replace(r"\*", "[^/]*") + "/"
        if parts[-1] == "**":
            source += "[^/]+/"
        glob = parse_glob(pattern)
        states = glob.start
        for name in names:
            states = glob.step(states, name)
        assert glob.accepts(states) == bool(re.fullmatch(source, "/".join(names) + "/"))


class TestSearching:
    def test_matches_tell_path_line_column_and_text(self, call: Call, tree: Path) -> None:
        matches = call("search_files", pattern="needle")["matches"]
        assert [(match["path"], match["line"], match["column"], match["text"]) for match in matches] == [
            ("README.md", 2, 1, "needle here"),
            ("docs/a.md", 1, 1, "needle"),
            ("docs/a.md", 2, 8, "second needle"),
            ("src/main.py", 3, 1, "needle = 1"),
            ("src/main.py", 4, 7, "print(needle)"),
        ]

    def test_case_can_be_ignored_beyond_ascii_too(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("NEEDLE\nGRÜSSE\n")
        for number, pattern in enumerate(("needle", "grüsse"), 1):
            assert call("search_files", pattern=pattern)["matches"] == [], pattern
            found = call("search_files", pattern=pattern, ignore_case=True)
            assert [match["line"] for match in found["matches"]] == [number], pattern

    def test_a_glob_or_the_path_of_one_file_limits_what_is_searched(self, call: Call, tree: Path) -> None:
        found = call("search_files", pattern="needle", glob="*.md")
        assert {match["path"] for match in found["matches"]} == {"README.md", "docs/a.md"}
        found = call("search_files", pattern="os", path="src/main.py")
        assert (len(found["matches"]), found["n_files_searched"]) == (1, 1)

    @every(
        ("pattern", "is_regex", "lines"),
        [
            ("a.b", False, [2]),
            ("a.b", True, [1, 2]),
            (r"^\w+\d{2}$", True, [3]),
            pytest.param("two$", True, [4], id="a dollar before crlf"),
            pytest.param(r"a.b\s+ab12", True, [], id="no match spans lines"),
        ],
    )
    def test_a_pattern_is_literal_unless_asked_and_matches_within_a_line(
        self, call: Call, root: Path, pattern: str, is_regex: bool, lines: list[int]
    ) -> None:
        (root / "a.txt").write_bytes(b"axb\na.b\nab12\ntwo\r\n")
        found = call("search_files", pattern=pattern, is_regex=is_regex)
        assert [match["line"] for match in found["matches"]] == lines

    @every(
        ("pattern", "told"),
        [
            *((pattern, "not a valid RE2 regular expression") for pattern in ("(", r"(a)\1", "(?=a)", "a{1001}", "*")),
            ("[ab]{1000}" * 50, "too large once its repetitions are counted out"),
        ],
    )
    def test_an_expression_that_is_not_valid_or_grows_too_large_is_refused(
        self, call: Call, pattern: str, told: str
    ) -> None:
        with pytest.raises(ToolError, match=told):
            call("search_files", pattern=pattern, is_regex=True)

    @every("pattern", ["(.*){1000}", "(a?){1000}a{1000}b", "(a?){1000}(a?){1000}(a?){1000}b"])
    def test_one_block_is_matched_in_a_short_time_however_large_the_pattern(self, pattern: str) -> None:
        compiled = compile_pattern(pattern, is_regex=True, ignore_case=True)
        start = time.thread_time()
        next(match_lines(iter([b"a" * block_bytes(compiled)]), compiled))
        assert time.thread_time() - start < 5

    def test_work_stops_when_the_caller_leaves(self, workspace: Workspace, root: Path) -> None:
        with (root / "a.txt").open("wb") as file:
            file.write(b"text\n" * 4_000)
            file.truncate(1 << 40)
        began, found = threading.Event(), []

        def search() -> FoundLines:
            began.set()
            return search_files(workspace, "needle")

        async def call() -> None:
            found.append(await anyio.to_thread.run_sync(search))

        async def leave_early() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await anyio.to_thread.run_sync(began.wait)
                tasks.cancel_scope.cancel()

        anyio.run(leave_early)
        assert found == []

    @every("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*a){25}b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
    def test_an_expression_that_stalls_others_costs_little(
        self, make_call: Callable[..., Call], root: Path, pattern: str
    ) -> None:
        (root / "a.txt").write_text("a" * 50_000 + "!\n")
        found = make_call(roots=(root,), time_limit_s=30)("search_files", pattern=pattern, is_regex=True)
        assert found["stopped_at"] is None

    def test_utf_16_is_searched_and_binary_files_are_skipped_and_counted(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_bytes("one\nneedle\n".encode("utf-16"))
        (root / "a.bin").write_bytes(b"\0needle")
        found = call("search_files", pattern="needle")
        assert [(match["path"], match["line"]) for match in found["matches"]] == [("a.txt", 2)]
        assert (found["n_binary"], found["n_files_searched"]) == (1, 1)

    def test_a_cut_result_names_its_limit(self, make_call: Callable[..., Call], root: Path) -> None:
        (root / "a.txt").write_text(("x" * 200 + "\n") * 50)
        found = make_call(roots=(root,))("search_files", pattern="x", max_results=3)
        assert (len(found["matches"]), found["truncated"], found["stopped_at"]) == (3, True, "limit of 3 lines")
        found = make_call(roots=(root,), max_result_chars=1_000)("search_files", pattern="x")
        assert (len(found["matches"]), found["stopped_at"]) == (4, "limit of result size")

    def test_a_column_counts_characters_and_a_long_line_is_shown_around_its_match(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("日" * 5_000 + "needle" + "b" * 5_000)
        (match,) = call("search_files", pattern="needle")["matches"]
        assert (match["column"], len(match["text"]) <= 301, "needle" in match["text"]) == (5_001, True, True)

    def test_the_time_limit_is_kept_and_named(self, make_call: Callable[..., Call], root: Path) -> None:
        with (root / "a.txt").open("wb") as file:
            file.write(b"text\n" * 4_000)
            file.truncate(1 << 40)
        found = make_call(roots=(root,), time_limit_s=0.2)("search_files", pattern="needle")
        assert found["stopped_at"] == "time limit of 0.2 s"

    @settings(deadline=None)
    @given(
        text=st.text("ab\n", max_size=40),
        pattern=st.sampled_from(["a", "b$", "^a", "ab", "a*", "^$", "[^a]", "b+a"]),
        n_block=st.integers(1, 9),
    )
    def test_law_it_finds_the_lines_that_match_one_by_one(self, text: str, pattern: str, n_block: int) -> None:
        data = text.encode()
        blocks = [data[at : at + n_block] for at in range(0, len(data), n_block)]
        compiled = compile_pattern(pattern, is_regex=True, ignore_case=False)
        found = [match.line for match in match_lines(blocks, compiled) if match]
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        assert found == [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]
