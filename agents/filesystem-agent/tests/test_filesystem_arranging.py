"""`move_file`, `delete_file`, `create_directory`: one step, nothing lost that was not named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from tests.every import every

Call = Callable[..., dict[str, Any]]


class TestMoving:
    def test_a_file_or_a_directory_with_what_is_in_it_gets_its_new_name(self, call: Call, root: Path) -> None:
        (root / "x/y").mkdir(parents=True)
        (root / "x/y/a.txt").write_text("text")
        assert call("move_file", source="x/y/a.txt", destination="x/y/b.txt")["kind"] == "file"
        assert call("move_file", source="x", destination="z")["kind"] == "directory"
        assert [str(path.relative_to(root)) for path in sorted(root.rglob("*"))] == ["z", "z/y", "z/y/b.txt"]
        assert (root / "z/y/b.txt").read_text() == "text"

    def test_an_existing_file_is_replaced_only_when_asked(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        (root / "b.txt").write_text("b")
        with pytest.raises(ToolError, match=r"destination exists already: 'b.txt'; set overwrite"):
            call("move_file", source="a.txt", destination="b.txt")
        assert (root / "b.txt").read_text() == "b"
        assert call("move_file", source="a.txt", destination="b.txt", overwrite=True)["replaced"] is True
        assert {path.name: path.read_text() for path in root.iterdir()} == {"b.txt": "a"}

    def test_a_directory_is_never_replaced(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        (root / "x").mkdir()
        (root / "y").mkdir()
        for source, overwrite in (("a.txt", True), ("a.txt", False), ("y", True), ("y", False)):
            with pytest.raises(ToolError, match=r"only a file can replace a file|exists already"):
                call("move_file", source=source, destination="x", overwrite=overwrite)
        assert sorted(path.name for path in root.iterdir()) == ["a.txt", "x", "y"]

    @every(
        ("source", "destination", "told"),
        [
            ("notes.txt", "./notes.txt", r"are the same file"),
            ("x", "x/y", r"can't be moved into itself"),
            ("note.txt", "b.txt", r"no such file or directory: 'note.txt'; nearest: 'notes.txt'"),
            ("notes.txt", "z/a.txt", r"no such file or directory: 'z'"),
            (".", "z", r"an allowed root itself can't be changed"),
        ],
    )
    def test_what_can_not_be_moved_is_said_and_stays(
        self, call: Call, root: Path, source: str, destination: str, told: str
    ) -> None:
        (root / "notes.txt").write_text("a")
        (root / "x").mkdir(exist_ok=True)
        with pytest.raises(ToolError, match=told):
            call("move_file", source=source, destination=destination, overwrite=True)
        assert sorted(path.name for path in root.iterdir()) == ["notes.txt", "x"]
        assert (root / "notes.txt").read_text() == "a"

    def test_a_move_to_another_file_system_is_refused_and_loses_nothing(
        self, make_call: Callable[..., Call], root: Path
    ) -> None:
        other = Path("/dev/shm")
        if not other.is_dir() or other.stat().st_dev == root.stat().st_dev:
            pytest.skip("needs a second file system")
        (root / "a.txt").write_text("a")
        there = other / f"filesystem-agent-test-{root.parent.name}"
        there.mkdir()
        try:
            with pytest.raises(ToolError, match=r"on different file systems"):
                make_call(roots=(root, there))("move_file", source="a.txt", destination=f"{there}/a.txt")
            assert list(there.iterdir()) == []
        finally:
            shutil.rmtree(there)
        assert (root / "a.txt").read_text() == "a"


class TestDeleting:
    def test_a_file_or_an_empty_directory_is_gone(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        (root / "x").mkdir()
        assert call("delete_file", path="a.txt") == {"path": "a.txt", "kind": "file"}
        assert [path.name for path in root.iterdir()] == ["x"]
        call("delete_file", path="x", empty_directory=True)
        assert list(root.iterdir()) == []

    @every(
        ("path", "empty_directory", "told"),
        [
            ("empty", False, r"it is a directory, not a file: 'empty'; empty_directory"),
            ("full", True, r"the directory is not empty: 'full'"),
            ("a.txt", True, r"it is not a directory but a file"),
            ("b.txt", False, r"no such file or directory: 'b.txt'"),
        ],
    )
    def test_what_was_not_asked_for_or_is_not_empty_stays(
        self, call: Call, root: Path, path: str, empty_directory: bool, told: str
    ) -> None:
        for name in ("empty", "full"):
            (root / name).mkdir(exist_ok=True)
        for name in ("full/a.txt", "a.txt"):
            (root / name).write_text("a")
        with pytest.raises(ToolError, match=told):
            call("delete_file", path=path, empty_directory=empty_directory)
        found = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        assert found == ["a.txt", "empty", "full", "full/a.txt"]


class TestCreating:
    def test_a_directory_is_there_with_its_parents_and_one_that_exists_left_alone(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        (root / "x/a.txt").write_text("a")
        assert call("create_directory", path="x/y/z") == {"path": "x/y/z", "created": ["x/y", "x/y/z"]}
        assert (root / "x/y/z").is_dir()
        assert call("create_directory", path="x/y/z")["created"] == []
        assert (root / "x/a.txt").read_text() == "a"

    def test_missing_parents_can_be_an_error_and_a_file_in_the_way_is_one(self, call: Call, root: Path) -> None:
        with pytest.raises(ToolError, match=r"parent directory does not exist: 'x'; set parents"):
            call("create_directory", path="x/y", parents=False)
        assert list(root.iterdir()) == []
        (root / "x").write_text("")
        with pytest.raises(ToolError, match=r"a file or symlink stands where a directory is needed: 'x'"):
            call("create_directory", path="x/y")
