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


@every(
    "path",
    [
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "{outside}/secret.txt",
        "{root}/../outside/secret.txt",
        pytest.param("{twin}/secret.txt", id="a directory whose name starts like the root's"),
    ],
)
@every(("tool", "arguments"), [*ONE_PATH_CALLS, ("file_info", {})])
def test_no_tool_takes_a_path_that_leaves(
    call: Call, root: Path, outside: Path, path: str, tool: str, arguments: dict[str, Any]
) -> None:
    (root / "a").mkdir(exist_ok=True)
    twin = root.with_name("inside2")
    twin.mkdir(exist_ok=True)
    (twin / "secret.txt").write_text("SECRET")
    with pytest.raises(ToolError, match=r"outside the allowed roots|contains '\.\.'"):
        call(tool, path=path.format(root=root, outside=outside, twin=twin), **arguments)
    assert (twin / "secret.txt").read_text() == "SECRET"


@every("is_relative", [True, False])
@every(("tool", "arguments"), [*ONE_PATH_CALLS[:-1], ("file_info", {"with_sha256": True})])
@every("path", ["door/secret.txt", "porch/secret.txt", "dangling/secret.txt"])
def test_no_tool_goes_through_a_link_that_leaves(
    call: Call, root: Path, outside: Path, path: str, tool: str, arguments: dict[str, Any], is_relative: bool
) -> None:
    link(root / "door", "../outside" if is_relative else outside)
    link(root / "porch", "door")
    link(root / "dangling", "../outside/new" if is_relative else outside / "new")
    with pytest.raises(ToolError, match=r"symlink|outside the allowed roots"):
        call(tool, path=path, **arguments)


@every(("tool", "arguments"), ONE_PATH_CALLS[:-1])
@every("path", ["paper", "dangling", "loop"])
def test_no_tool_uses_a_file_that_is_a_link_that_leaves_or_tells_where_it_leads(
    call: Call, root: Path, outside: Path, path: str, tool: str, arguments: dict[str, Any]
) -> None:
    link(root / "paper", outside / "secret.txt")
    link(root / "dangling", outside / "secretly_new.txt")
    link(root / "loop", "pool")
    link(root / "pool", "loop")
    with pytest.raises(ToolError, match=r"symlink") as caught:
        call(tool, path=path, **arguments)
    assert "secret" not in str(caught.value)


@every(("path", "told"), [("door", r"symlink"), ("..", r"outside the allowed roots|contains '\.\.'")])
@every(("tool", "arguments"), DIRECTORY_CALLS)
def test_no_tool_enters_a_directory_outside(
    call: Call, root: Path, outside: Path, path: str, told: str, tool: str, arguments: dict[str, Any]
) -> None:
    link(root / "door", outside)
    with pytest.raises(ToolError, match=told):
        call(tool, path=path, **arguments)


def test_walks_show_links_but_nothing_behind_them(call: Call, root: Path, outside: Path) -> None:
    (root / "door").symlink_to(outside)
    (root / "paper").symlink_to(outside / "secret.txt")
    assert call("search_files", pattern="SECRET")["matches"] == []
    assert call("find_files", pattern="**", kind="any")["paths"] == ["door", "paper"]
    assert [entry["path"] for entry in call("list_directories", depth=5)["entries"]] == ["door", "paper"]


class TestMoves:
    @every("place", ["../outside", "door", "{outside}"])
    def test_no_move_leads_out_or_in(self, call: Call, root: Path, outside: Path, place: str) -> None:
        link(root / "door", outside)
        (root / "mine").write_text("mine")
        place = place.format(outside=outside)
        with pytest.raises(ToolError):
            call("move_file", source="mine", destination=f"{place}/x")
        with pytest.raises(ToolError):
            call("move_file", source=f"{place}/secret.txt", destination="taken")
        assert (root / "mine").read_text() == "mine"
        assert not (root / "taken").exists()

    def test_a_link_is_not_moved_onto_and_no_directory_made_behind_it(
        self, call: Call, root: Path, outside: Path
    ) -> None:
        (root / "mine").write_text("mine")
        (root / "paper").symlink_to(outside / "secret.txt")
        (root / "door").symlink_to(outside)
        with pytest.raises(ToolError, match=r"only a file can replace a file"):
            call("move_file", source="mine", destination="paper", overwrite=True)
        with pytest.raises(ToolError, match=r"symlink"):
            call("create_directory", path="door/new")

    @every("path", [".", "", "/", "{root}"])
    def test_the_root_itself_is_neither_deleted_nor_moved(self, call: Call, root: Path, path: str) -> None:
        with pytest.raises(ToolError):
            call("delete_file", path=path.format(root=root), empty_directory=True)
        with pytest.raises(ToolError):
            call("move_file", source=path.format(root=root), destination="x")
        assert root.is_dir()


class TestLinksThatStay:
    @every("path", ["latest/a.txt", "b.txt", "x/y/up", "x/../real/a.txt"])
    def test_they_are_followed_for_reading_and_the_result_names_the_real_path(
        self, call: Call, root: Path, path: str
    ) -> None:
        (root / "real").mkdir(exist_ok=True)
        (root / "real/a.txt").write_text("text")
        (root / "x/y").mkdir(parents=True, exist_ok=True)
        link(root / "latest", "real")
        link(root / "b.txt", root / "real/a.txt")
        link(root / "x/y/up", "../../real/a.txt")
        view = call("view_file", path=path)
        assert (view["text"], view["path"]) == ("text", "real/a.txt")

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

    def test_info_tells_the_target_of_a_link_that_stays_and_of_no_other(
        self, call: Call, root: Path, outside: Path
    ) -> None:
        (root / "a.txt").write_text("")
        (root / "b.txt").symlink_to("a.txt")
        (root / "paper").symlink_to(outside / "secret.txt")
        assert call("file_info", path="b.txt")["link_target"] == "a.txt"
        assert call("file_info", path="paper")["link_target"] is None


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
    def test_a_fifo_or_a_socket_is_refused_without_blocking(
        self, call: Call, root: Path, tool: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(root)
        if not (root / "pipe").exists():
            os.mkfifo(root / "pipe")
        (root / "s").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
            with pytest.raises(ToolError, match=r"fifo"):
                call(tool, path="pipe", **arguments)
            with pytest.raises(ToolError, match=r"socket"):
                call(tool, path="s", **arguments)
        assert stat.S_ISFIFO((root / "pipe").stat().st_mode)

    @pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
    def test_a_device_is_refused(self, call: Call, root: Path, tool: str, arguments: dict[str, Any]) -> None:
        (root / "zero").unlink(missing_ok=True)
        try:
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:
            pytest.skip("this system forbids making devices")
        with pytest.raises(ToolError, match=r"device"):
            call(tool, path="zero", **arguments)


def test_a_fifo_is_listed_passed_by_in_a_search_and_not_moved(call: Call, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "a.txt").write_text("needle")
    assert [match["path"] for match in call("search_files", pattern="needle")["matches"]] == ["a.txt"]
    assert [entry["kind"] for entry in call("list_directories")["entries"]] == ["file", "fifo"]
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
    def test_they_are_listed_escaped_marked_and_counted(self, call: Call, root: Path) -> None:
        names = (b"a\nb", b"\xff\xfe", b"\x1b]0;x\x07", "a\u202eb".encode(), b"caf\xe9", b"a\xff.txt")
        for name in names:
            with open(os.path.join(os.fsencode(root), name), "wb"):
                pass
        entries = call("list_directories")["entries"]
        assert len(entries) == len(names)
        assert all(entry["path"].isprintable() and entry["is_addressable"] is False for entry in entries)
        found = call("find_files", pattern="*.txt")
        assert (found["paths"], found["n_unaddressable"]) == (["a\\xff.txt"], 1)

    @every("name", ["-rf *", "naïve-日本語-👩‍👩‍👧.txt"])
    def test_odd_names_that_harm_nobody_are_fine(self, call: Call, root: Path, name: str) -> None:
        call("write_file", path=name, content="x")
        assert (root / name).read_text() == "x"
        assert name in call("find_files", pattern="*")["paths"]

    def test_a_nearest_name_is_never_one_that_deceives(self, call: Call, root: Path) -> None:
        (root / "note\x1b.txt").write_text("")
        with pytest.raises(ToolError) as caught:
            call("view_file", path="note.txt")
        assert "nearest" not in str(caught.value)


class TestRoots:
    def test_they_come_from_the_environment_or_are_the_current_directory(
        self, make_call: Callable[..., Call], root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "a.txt").write_text("text")
        monkeypatch.chdir(root)
        monkeypatch.delenv("FILESYSTEM_AGENT_ROOTS", raising=False)
        assert make_call()("view_file", path="a.txt")["text"] == "text"
        monkeypatch.setenv("FILESYSTEM_AGENT_ROOTS", f"{root}{os.pathsep}{outside}")
        call = make_call()
        (path,) = call("find_files", pattern="*", path=str(outside))["paths"]
        assert call("view_file", path=path)["text"] == "SECRET\n"

    def test_one_that_is_missing_or_a_file_is_refused_with_its_variable(
        self, make_call: Callable[..., Call], root: Path, outside: Path
    ) -> None:
        with pytest.raises(ToolError, match=r"root can't be opened.*FILESYSTEM_AGENT_ROOTS"):
            make_call(roots=(root / "nope",))("list_directories")
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
