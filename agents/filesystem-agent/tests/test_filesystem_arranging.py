"""`move_file`, `delete_file`, `create_directory`: one step, nothing lost that was not named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

Call = Callable[..., dict[str, Any]]


class TestMoving:
    def test_a_file_gets_its_new_name(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("text")
        call("move_file", source="a.txt", destination="b.txt")
        assert {path.name: path.read_text() for path in root.iterdir()} == {"b.txt": "text"}

    def test_a_directory_moves_with_what_is_in_it(self, call: Call, root: Path) -> None:
        (root / "x/y").mkdir(parents=True)
        (root / "x/y/a.txt").write_text("text")
        assert call("move_file", source="x", destination="z")["kind"] == "directory"
        assert (root / "z/y/a.txt").read_text() == "text"

    def test_an_existing_file_is_spared(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        (root / "b.txt").write_text("b")
        with pytest.raises(ToolError, match=r"destination exists already: 'b.txt'; set overwrite"):
            call("move_file", source="a.txt", destination="b.txt")
        assert (root / "b.txt").read_text() == "b"

    def test_an_existing_file_is_replaced_when_asked(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        (root / "b.txt").write_text("b")
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

    def test_a_file_onto_itself_is_refused(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        with pytest.raises(ToolError, match=r"are the same file"):
            call("move_file", source="a.txt", destination="./a.txt", overwrite=True)
        assert (root / "a.txt").read_text() == "a"

    def test_a_directory_into_itself_is_refused(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        with pytest.raises(ToolError, match=r"can't be moved into itself"):
            call("move_file", source="x", destination="x/y")

    def test_a_missing_source_is_named_with_the_nearest(self, call: Call, root: Path) -> None:
        (root / "notes.txt").write_text("")
        with pytest.raises(ToolError, match=r"no such file or directory: 'note.txt'; nearest: 'notes.txt'"):
            call("move_file", source="note.txt", destination="b.txt")

    def test_a_missing_destination_directory_is_named(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        with pytest.raises(ToolError, match=r"no such file or directory: 'x'"):
            call("move_file", source="a.txt", destination="x/a.txt")

    def test_a_root_is_not_moved(self, call: Call) -> None:
        with pytest.raises(ToolError, match=r"an allowed root itself can't be changed"):
            call("move_file", source=".", destination="x")

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
    def test_a_file_is_gone(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        assert call("delete_file", path="a.txt") == {"path": "a.txt", "kind": "file"}
        assert list(root.iterdir()) == []

    def test_a_directory_needs_to_be_asked_for(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        with pytest.raises(ToolError, match=r"it is a directory, not a file: 'x'; empty_directory"):
            call("delete_file", path="x")
        assert (root / "x").is_dir()

    def test_an_empty_directory_is_gone_when_asked_for(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        call("delete_file", path="x", empty_directory=True)
        assert list(root.iterdir()) == []

    def test_a_full_directory_stays(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        (root / "x/a.txt").write_text("a")
        with pytest.raises(ToolError, match=r"the directory is not empty: 'x'"):
            call("delete_file", path="x", empty_directory=True)
        assert (root / "x/a.txt").read_text() == "a"

    def test_a_file_asked_for_as_a_directory_stays(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("a")
        with pytest.raises(ToolError, match=r"it is not a directory but a file"):
            call("delete_file", path="a.txt", empty_directory=True)
        assert (root / "a.txt").exists()

    def test_a_missing_file_is_named(self, call: Call) -> None:
        with pytest.raises(ToolError, match=r"no such file or directory: 'a.txt'"):
            call("delete_file", path="a.txt")


class TestCreating:
    def test_a_directory_is_there_with_its_parents(self, call: Call, root: Path) -> None:
        assert call("create_directory", path="x/y/z") == {"path": "x/y/z", "created": ["x", "x/y", "x/y/z"]}
        assert (root / "x/y/z").is_dir()

    def test_one_that_exists_is_left_alone(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        (root / "x/a.txt").write_text("a")
        assert call("create_directory", path="x")["created"] == []
        assert (root / "x/a.txt").read_text() == "a"

    def test_missing_parents_can_be_an_error(self, call: Call, root: Path) -> None:
        with pytest.raises(ToolError, match=r"parent directory does not exist: 'x'; set parents"):
            call("create_directory", path="x/y", parents=False)
        assert list(root.iterdir()) == []

    def test_a_file_in_the_way_is_named(self, call: Call, root: Path) -> None:
        (root / "x").write_text("")
        with pytest.raises(ToolError, match=r"a file or symlink stands where a directory is needed: 'x'"):
            call("create_directory", path="x/y")
