"""Nothing outside the allowed roots can be read, written or learned of."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from tests.every import every

pytestmark = pytest.mark.usefixtures("outside_is_untouched")

Call = Callable[..., dict[str, Any]]

ONE_PATH_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("view_file", {}),
    ("view_file", {"as_base64": True}),
    ("tail_file", {}),
    ("edit_file", {"old_text": "SECRET", "new_text": "x"}),
    ("write_file", {"content": "x"}),
    ("write_file", {"content": "x", "create_only": True}),
    ("write_file", {"content": "x", "create_parents": True}),
    ("search_files", {"pattern": "SECRET"}),
    ("delete_file", {}),
]


def link(path: Path, target: Path | str) -> None:
    """Make a symlink, in place of the one that the combination before made."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


DIRECTORY_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_directories", {}),
    ("find_files", {"pattern": "**"}),
    ("search_files", {"pattern": "SECRET"}),
    ("delete_file", {"empty_directory": True}),
]


@every(("tool", "arguments"), [*ONE_PATH_CALLS, ("file_info", {})])
class TestPathsThatLeave:
    def test_dot_dot_is_refused(self, call: Call, outside: Path, tool: str, arguments: dict[str, Any]) -> None:
        with pytest.raises(ToolError, match=r"outside the allowed roots|contains '\.\.'"):
            call(tool, path="../outside/secret.txt", **arguments)

    def test_dot_dot_below_a_directory_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        (root / "a").mkdir(exist_ok=True)
        with pytest.raises(ToolError, match=r"outside the allowed roots|contains '\.\.'"):
            call(tool, path="a/../../outside/secret.txt", **arguments)

    def test_an_absolute_path_is_refused(self, call: Call, outside: Path, tool: str, arguments: dict[str, Any]) -> None:
        with pytest.raises(ToolError, match=r"outside the allowed roots"):
            call(tool, path=str(outside / "secret.txt"), **arguments)

    def test_an_absolute_path_that_climbs_out_of_the_root_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        with pytest.raises(ToolError, match=r"outside the allowed roots|contains '\.\.'"):
            call(tool, path=f"{root}/../outside/secret.txt", **arguments)

    def test_a_directory_whose_name_starts_like_the_root_is_refused(
        self, call: Call, root: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        twin = root.with_name("inside2")
        twin.mkdir(exist_ok=True)
        (twin / "secret.txt").write_text("SECRET")
        with pytest.raises(ToolError, match=r"outside the allowed roots"):
            call(tool, path=str(twin / "secret.txt"), **arguments)
        assert (twin / "secret.txt").read_text() == "SECRET"


@every(("tool", "arguments"), [*ONE_PATH_CALLS[:-1], ("file_info", {"with_sha256": True})])
@every("is_relative", [True, False])
class TestSymlinksThatLeave:
    def test_a_link_in_the_middle_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any], is_relative: bool
    ) -> None:
        link(root / "door", "../outside" if is_relative else outside)
        with pytest.raises(ToolError, match=r"symlink|outside the allowed roots"):
            call(tool, path="door/secret.txt", **arguments)

    def test_a_link_to_a_link_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any], is_relative: bool
    ) -> None:
        link(root / "door", "../outside" if is_relative else outside)
        link(root / "porch", "door")
        with pytest.raises(ToolError, match=r"symlink|outside the allowed roots"):
            call(tool, path="porch/secret.txt", **arguments)

    def test_a_dangling_link_in_the_middle_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any], is_relative: bool
    ) -> None:
        link(root / "door", "../outside/new" if is_relative else outside / "new")
        with pytest.raises(ToolError, match=r"symlink|outside the allowed roots"):
            call(tool, path="door/secret.txt", **arguments)


@every(("tool", "arguments"), ONE_PATH_CALLS[:-1])
class TestLastSymlinks:
    def test_a_last_link_that_leaves_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        link(root / "paper", outside / "secret.txt")
        with pytest.raises(ToolError, match=r"symlink"):
            call(tool, path="paper", **arguments)

    def test_a_dangling_last_link_that_leaves_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        link(root / "paper", outside / "new.txt")
        with pytest.raises(ToolError, match=r"symlink"):
            call(tool, path="paper", **arguments)

    def test_a_refusal_does_not_tell_where_a_link_leads(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        link(root / "paper", outside / "secret.txt")
        with pytest.raises(ToolError) as caught:
            call(tool, path="paper", **arguments)
        assert "secret" not in str(caught.value)

    def test_a_loop_of_links_is_refused(self, call: Call, root: Path, tool: str, arguments: dict[str, Any]) -> None:
        link(root / "a", "b")
        link(root / "b", "a")
        with pytest.raises(ToolError, match=r"symlink"):
            call(tool, path="a", **arguments)


@every(("tool", "arguments"), DIRECTORY_CALLS)
class TestDirectoriesThatLeave:
    def test_a_linked_directory_outside_is_refused(
        self, call: Call, root: Path, outside: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        link(root / "door", outside)
        with pytest.raises(ToolError, match=r"symlink"):
            call(tool, path="door", **arguments)

    def test_the_parent_of_the_root_is_refused(self, call: Call, tool: str, arguments: dict[str, Any]) -> None:
        with pytest.raises(ToolError, match=r"outside the allowed roots|contains '\.\.'"):
            call(tool, path="..", **arguments)


class TestWalks:
    def test_a_search_does_not_enter_linked_directories(self, call: Call, root: Path, outside: Path) -> None:
        (root / "door").symlink_to(outside)
        assert call("search_files", pattern="SECRET")["matches"] == []

    def test_a_search_does_not_read_linked_files(self, call: Call, root: Path, outside: Path) -> None:
        (root / "paper").symlink_to(outside / "secret.txt")
        assert call("search_files", pattern="SECRET")["matches"] == []

    def test_finding_does_not_enter_linked_directories(self, call: Call, root: Path, outside: Path) -> None:
        (root / "door").symlink_to(outside)
        assert call("find_files", pattern="**", kind="any")["paths"] == ["door"]

    def test_a_deep_listing_shows_a_link_but_not_what_is_behind(self, call: Call, root: Path, outside: Path) -> None:
        (root / "door").symlink_to(outside)
        assert [entry["path"] for entry in call("list_directories", depth=5)["entries"]] == ["door"]


class TestMoves:
    @every("name", ["../outside/x", "door/x", "{outside}/x"])
    def test_a_move_out_is_refused(self, call: Call, root: Path, outside: Path, name: str) -> None:
        link(root / "door", outside)
        (root / "mine").write_text("mine")
        with pytest.raises(ToolError):
            call("move_file", source="mine", destination=name.format(outside=outside))
        assert (root / "mine").read_text() == "mine"

    @every("name", ["../outside/secret.txt", "door/secret.txt", "{outside}/secret.txt"])
    def test_a_move_in_is_refused(self, call: Call, root: Path, outside: Path, name: str) -> None:
        link(root / "door", outside)
        with pytest.raises(ToolError):
            call("move_file", source=name.format(outside=outside), destination="taken")
        assert not (root / "taken").exists()

    def test_a_move_onto_a_link_replaces_nothing_outside(self, call: Call, root: Path, outside: Path) -> None:
        (root / "mine").write_text("mine")
        (root / "paper").symlink_to(outside / "secret.txt")
        with pytest.raises(ToolError, match=r"only a file can replace a file"):
            call("move_file", source="mine", destination="paper", overwrite=True)

    def test_directories_are_not_made_behind_a_link(self, call: Call, root: Path, outside: Path) -> None:
        (root / "door").symlink_to(outside)
        with pytest.raises(ToolError, match=r"symlink"):
            call("create_directory", path="door/new")

    @every("path", [".", "", "/", "{root}"])
    def test_the_root_itself_is_not_deleted(self, call: Call, root: Path, path: str) -> None:
        with pytest.raises(ToolError):
            call("delete_file", path=path.format(root=root), empty_directory=True)
        assert root.is_dir()


class TestLinksThatStay:
    def test_a_link_inside_is_followed_for_reading(self, call: Call, root: Path) -> None:
        (root / "real").mkdir()
        (root / "real/a.txt").write_text("text")
        (root / "latest").symlink_to("real")
        assert call("view_file", path="latest/a.txt")["text"] == "text"

    def test_the_result_names_the_real_path(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("text")
        (root / "b.txt").symlink_to(root / "a.txt")
        assert call("view_file", path="b.txt")["path"] == "a.txt"

    def test_a_link_that_climbs_but_stays_inside_is_followed(self, call: Call, root: Path) -> None:
        (root / "x/y").mkdir(parents=True)
        (root / "a.txt").write_text("text")
        (root / "x/y/up").symlink_to("../../a.txt")
        assert call("tail_file", path="x/y/up")["text"] == "text"

    def test_a_link_inside_is_not_followed_for_writing(self, call: Call, root: Path) -> None:
        (root / "real").mkdir()
        (root / "latest").symlink_to("real")
        with pytest.raises(ToolError, match=r"path goes through a symlink: 'latest'"):
            call("write_file", path="latest/a.txt", content="x")

    def test_a_link_may_lead_to_another_root(self, make_call: Callable[..., Call], root: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (other / "a.txt").write_text("text")
        (root / "door").symlink_to(other)
        assert make_call(roots=(root, other))("view_file", path="door/a.txt")["path"] == str(other / "a.txt")

    def test_deleting_a_link_leaves_what_it_leads_to(self, call: Call, root: Path, outside: Path) -> None:
        (root / "paper").symlink_to(outside / "secret.txt")
        assert call("delete_file", path="paper")["kind"] == "symlink"
        assert not (root / "paper").is_symlink()

    def test_info_on_a_link_that_leaves_tells_no_target(self, call: Call, root: Path, outside: Path) -> None:
        (root / "paper").symlink_to(outside / "secret.txt")
        assert call("file_info", path="paper")["link_target"] is None

    def test_info_on_a_link_that_stays_tells_its_target(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("")
        (root / "b.txt").symlink_to("a.txt")
        assert call("file_info", path="b.txt")["link_target"] == "a.txt"

    def test_dot_dot_inside_the_root_is_fine_for_reading(self, call: Call, root: Path) -> None:
        (root / "x").mkdir()
        (root / "a.txt").write_text("text")
        assert call("view_file", path="x/../a.txt")["path"] == "a.txt"


class TestHardLinks:
    def test_writing_a_hard_linked_file_leaves_the_other_name_alone(
        self, call: Call, root: Path, tmp_path: Path
    ) -> None:
        elsewhere = tmp_path / "elsewhere.txt"
        elsewhere.write_text("SECRET")
        os.link(elsewhere, root / "a.txt")
        call("write_file", path="a.txt", content="mine")
        assert elsewhere.read_text() == "SECRET"


@every(("tool", "arguments"), [*ONE_PATH_CALLS[:7], ("search_files", {"pattern": "x"}), ("delete_file", {})])
class TestSpecialFiles:
    def test_a_fifo_is_refused_without_blocking(
        self, call: Call, root: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        if not (root / "pipe").exists():
            os.mkfifo(root / "pipe")
        with pytest.raises(ToolError, match=r"fifo"):
            call(tool, path="pipe", **arguments)
        assert stat.S_ISFIFO((root / "pipe").stat().st_mode)

    def test_a_socket_is_refused(
        self, call: Call, root: Path, tool: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(root)
        (root / "s").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
            with pytest.raises(ToolError, match=r"socket"):
                call(tool, path="s", **arguments)

    @pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
    def test_a_device_is_refused(self, call: Call, root: Path, tool: str, arguments: dict[str, Any]) -> None:
        (root / "zero").unlink(missing_ok=True)
        try:
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:
            pytest.skip("this system forbids making devices")
        with pytest.raises(ToolError, match=r"device"):
            call(tool, path="zero", **arguments)


class TestSpecialFilesInWalks:
    def test_a_search_passes_by_a_fifo(self, call: Call, root: Path) -> None:
        os.mkfifo(root / "pipe")
        (root / "a.txt").write_text("needle")
        assert [match["path"] for match in call("search_files", pattern="needle")["matches"]] == ["a.txt"]

    def test_a_listing_names_the_kind(self, call: Call, root: Path) -> None:
        os.mkfifo(root / "pipe")
        assert call("list_directories")["entries"][0]["kind"] == "fifo"

    def test_a_move_of_a_fifo_is_refused(self, call: Call, root: Path) -> None:
        os.mkfifo(root / "pipe")
        with pytest.raises(ToolError, match=r"only files and directories are moved"):
            call("move_file", source="pipe", destination="pipe2")


HOSTILE_NAMES = {
    "nul": "a\0b",
    "newline": "a\nb",
    "escape": "a\x1b[31mb",
    "delete": "a\x7fb",
    "c1 control": "a\x9bb",
    "right-to-left override": "a\u202etxt.exe",
    "line separator": "a\u2028b",
    "long name": "x" * 256,
    "long name in bytes": "é" * 128,
    "long path": "x/" * 2_500 + "x",
    "many names": "x/" * 300 + "x",
}


@every("name", HOSTILE_NAMES.values())
@every(("tool", "arguments"), [*ONE_PATH_CALLS, ("create_directory", {})])
class TestHostileNames:
    def test_the_name_is_refused_in_a_bounded_message(
        self, call: Call, root: Path, name: str, tool: str, arguments: dict[str, Any]
    ) -> None:
        with pytest.raises(ToolError) as caught:
            call(tool, path=name, **arguments)
        assert len(str(caught.value)) < 500
        assert str(caught.value).isprintable()
        assert list(root.iterdir()) == []


class TestHostileNamesOnDisk:
    def test_they_are_listed_escaped_and_marked(self, call: Call, root: Path) -> None:
        names = (b"a\nb", b"\xff\xfe", b"\x1b]0;x\x07", "a\u202eb".encode(), b"caf\xe9")
        for name in names:
            with open(os.path.join(os.fsencode(root), name), "wb"):
                pass
        entries = call("list_directories")["entries"]
        assert len(entries) == len(names)
        assert all(entry["path"].isprintable() and entry["is_addressable"] is False for entry in entries)

    def test_finding_counts_what_no_tool_accepts(self, call: Call, root: Path) -> None:
        with open(os.path.join(os.fsencode(root), b"a\xff.txt"), "wb"):
            pass
        found = call("find_files", pattern="*.txt")
        assert (found["paths"], found["n_unaddressable"]) == (["a\\xff.txt"], 1)

    def test_a_name_that_only_looks_like_an_option_is_fine(self, call: Call, root: Path) -> None:
        call("write_file", path="-rf *", content="x")
        assert (root / "-rf *").read_text() == "x"

    def test_a_name_of_many_scripts_is_fine(self, call: Call, root: Path) -> None:
        name = "naïve-日本語-👩‍👩‍👧.txt"
        call("write_file", path=name, content="x")
        assert call("find_files", pattern="*.txt")["paths"] == [name]

    def test_a_nearest_name_is_never_one_that_deceives(self, call: Call, root: Path) -> None:
        (root / "note\x1b.txt").write_text("")
        with pytest.raises(ToolError) as caught:
            call("view_file", path="note.txt")
        assert "nearest" not in str(caught.value)


class TestRoots:
    def test_the_default_is_the_current_directory(
        self, make_call: Callable[..., Call], root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "a.txt").write_text("text")
        monkeypatch.chdir(root)
        monkeypatch.delenv("FILESYSTEM_AGENT_ROOTS", raising=False)
        assert make_call()("view_file", path="a.txt")["text"] == "text"

    def test_they_come_from_the_environment(
        self, make_call: Callable[..., Call], root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FILESYSTEM_AGENT_ROOTS", f"{root}{os.pathsep}{outside}")
        assert make_call()("view_file", path=f"{outside}/secret.txt")["text"] == "SECRET\n"

    def test_a_path_in_a_second_root_is_shown_as_it_must_be_given(
        self, make_call: Callable[..., Call], root: Path, outside: Path
    ) -> None:
        call = make_call(roots=(root, outside))
        (path,) = call("find_files", pattern="*", path=str(outside))["paths"]
        assert call("view_file", path=path)["text"] == "SECRET\n"

    def test_a_missing_root_is_named_with_its_variable(self, make_call: Callable[..., Call], root: Path) -> None:
        with pytest.raises(ToolError, match=r"root can't be opened.*FILESYSTEM_AGENT_ROOTS"):
            make_call(roots=(root / "nope",))("list_directories")

    def test_a_root_that_is_a_file_is_refused(self, make_call: Callable[..., Call], outside: Path) -> None:
        with pytest.raises(ToolError, match=r"it is not a directory"):
            make_call(roots=(outside / "secret.txt",))("list_directories")

    def test_a_root_given_through_a_link_is_reached_by_both_spellings(
        self, make_call: Callable[..., Call], root: Path, tmp_path: Path
    ) -> None:
        (root / "a.txt").write_text("text")
        (tmp_path / "alias").symlink_to(root)
        call = make_call(roots=(tmp_path / "alias",))
        assert [call("view_file", path=f"{tmp_path}/{name}/a.txt")["path"] for name in ("alias", "inside")] == [
            "a.txt",
            "a.txt",
        ]

    def test_a_root_replaced_by_a_link_after_start_leads_nowhere_else(
        self, call: Call, root: Path, outside: Path
    ) -> None:
        call("list_directories")
        root.rename(root.with_name("moved"))
        root.symlink_to(outside)
        assert call("find_files", pattern="*")["paths"] == []

    def test_a_setting_that_is_no_number_is_named(
        self, make_call: Callable[..., Call], root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from filesystem_agent.workspace import Workspace

        monkeypatch.setenv("FILESYSTEM_AGENT_MAX_READ_BYTES", "lots")
        with pytest.raises(ToolError, match=r"FILESYSTEM_AGENT_MAX_READ_BYTES is not valid.*'lots'"):
            _ = Workspace().settings
