"""`write_file`: all at once or not at all, and never over what the caller did not mean."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from filesystem_agent import renaming
from filesystem_agent.arranging import create_directory, delete_file, move_file
from filesystem_agent.editing import edit_file, write_file
from filesystem_agent.listing import list_directories
from filesystem_agent.viewing import view_file
from filesystem_agent.workspace import Workspace
from tests.every import every

Call = Callable[..., dict[str, Any]]
Unprivileged = Callable[[], AbstractContextManager[None]]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def set_access_list(path: Path, name: str) -> None:
    """Give user 4321 read and write access by an access list, or skip the test where there are none."""
    anyone = 0xFFFFFFFF
    entries = [(1, 6, anyone), (2, 6, 4321), (4, 4, anyone), (0x10, 6, anyone), (0x20, 0, anyone)]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, name, packed)
    except (AttributeError, OSError):
        pytest.skip("this file system has no access lists")


def contents(folder: Path) -> dict[str, str]:
    """Return the text of every file in a folder by its name."""
    return {path.name: path.read_text() for path in folder.iterdir()}


class TestContent:
    def test_a_file_is_created_or_replaced_whole_and_the_result_says_which(self, call: Call, root: Path) -> None:
        assert call("write_file", path="a.txt", content="a much longer text, héllo\n")["created"] is True
        assert (root / "a.txt").read_bytes() == "a much longer text, héllo\n".encode()
        assert call("write_file", path="a.txt", content="text") == {
            "path": "a.txt",
            "size_bytes": 4,
            "sha256": sha256("text"),
            "created": False,
        }
        assert (root / "a.txt").read_text() == "text"

    def test_bytes_come_as_base64(self, call: Call, root: Path) -> None:
        data = bytes(range(256))
        call("write_file", path="a.bin", content=base64.b64encode(data).decode(), as_base64=True)
        assert (root / "a.bin").read_bytes() == data

    @every("content", ["not base64!", "abc", "héé="])
    def test_what_is_no_base64_is_refused(self, call: Call, root: Path, content: str) -> None:
        with pytest.raises(ToolError, match=r"content is not base64"):
            call("write_file", path="a.bin", content=content, as_base64=True)
        assert not (root / "a.bin").exists()

    def test_line_ends_are_written_as_given_in_the_encoding_chosen(self, call: Call, root: Path) -> None:
        call("write_file", path="a.txt", content="a\r\nb\rGrüße\n", encoding="cp1252")
        assert (root / "a.txt").read_bytes() == "a\r\nb\rGrüße\n".encode("cp1252")

    def test_a_character_the_encoding_lacks_is_refused(self, workspace: Workspace, root: Path) -> None:
        with pytest.raises(ToolError, match=r"character that latin-1 can't hold: '日'"):
            write_file(workspace, "a.txt", content="日本", encoding="latin-1")
        with pytest.raises(ToolError, match=r"character that utf-8 can't hold"):
            write_file(workspace, "a.txt", content="a\ud800")
        assert not (root / "a.txt").exists()

    @every("encoding", ["zlib", "rot13", "idna", "punycode", "unicode_escape", "utf-7", ""])
    def test_a_codec_that_is_no_text_encoding_is_refused(self, call: Call, encoding: str) -> None:
        with pytest.raises(ToolError, match=r"unknown text encoding"):
            call("write_file", path="a.txt", content="x", encoding=encoding)

    def test_content_over_the_limit_is_refused(self, make_call: Callable[..., Call], root: Path) -> None:
        with pytest.raises(ToolError, match=r"content is larger than 4 bytes"):
            make_call(roots=(root,), max_write_bytes=4)("write_file", path="a.txt", content="12345")
        assert not (root / "a.txt").exists()


class TestParents:
    @every("base", ["", "{root}/"])
    def test_missing_ones_are_created_when_asked_and_else_named(self, call: Call, root: Path, base: str) -> None:
        path = f"{base.format(root=root)}x{len(base)}/y/a.txt"
        with pytest.raises(ToolError, match=rf"no such file or directory: '.*x{len(base)}'"):
            call("write_file", path=path, content="")
        call("write_file", path=path, content="text", create_parents=True)
        assert (root / f"x{len(base)}/y/a.txt").read_text() == "text"

    def test_neither_a_file_in_their_place_nor_a_directory_is_written(self, call: Call, root: Path) -> None:
        (root / "file").write_text("")
        with pytest.raises(ToolError, match=r"it is not a directory: 'file'"):
            call("write_file", path="file/a.txt", content="")
        (root / "x").mkdir()
        with pytest.raises(ToolError, match=r"it is a directory, not a file: 'x'"):
            call("write_file", path="x", content="")


class TestGuards:
    def test_create_only_spares_an_existing_file_and_a_dangling_link(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("old")
        with pytest.raises(ToolError, match=r"file exists already"):
            call("write_file", path="a.txt", content="new", create_only=True)
        assert (root / "a.txt").read_text() == "old"
        (root / "b.txt").symlink_to("nowhere")
        with pytest.raises(ToolError, match=r"symlink"):
            call("write_file", path="b.txt", content="new", create_only=True)
        assert not (root / "nowhere").exists()

    def test_only_the_expected_hash_lets_a_write_through(self, call: Call, root: Path) -> None:
        with pytest.raises(ToolError, match=r"there is no file with the expected content"):
            call("write_file", path="a.txt", content="new", expected_sha256=sha256("old"))
        assert not (root / "a.txt").exists()
        (root / "a.txt").write_text("theirs")
        with pytest.raises(ToolError, match=rf"has changed since it was read.*{sha256('theirs')}"):
            call("write_file", path="a.txt", content="new", expected_sha256=sha256("old"))
        with pytest.raises(ToolError, match=r"expected_sha256"):
            call("write_file", path="a.txt", content="new", expected_sha256="latest")
        assert (root / "a.txt").read_text() == "theirs"
        seen = call("view_file", path="a.txt")["sha256"]
        call("write_file", path="a.txt", content="new", expected_sha256=seen)
        assert (root / "a.txt").read_text() == "new"


class TestAccess:
    @every(("mode", "kept"), [(0o600, 0o600), (0o640, 0o640), (0o755, 0o755), (0o4755, 0o755)])
    def test_permission_bits_are_kept_but_set_id_bits_dropped(
        self, call: Call, root: Path, mode: int, kept: int
    ) -> None:
        (root / "a.sh").write_text("old")
        (root / "a.sh").chmod(mode)
        call("write_file", path="a.sh", content="new")
        assert (root / "a.sh").stat().st_mode & 0o7777 == kept

    def test_a_new_file_follows_the_umask(self, call: Call, root: Path) -> None:
        before = os.umask(0o027)
        try:
            call("write_file", path="a.txt", content="new")
        finally:
            os.umask(before)
        assert (root / "a.txt").stat().st_mode & 0o777 == 0o640

    @pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
    def test_the_owner_is_kept_where_the_system_allows(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("old")
        os.chown(root / "a.txt", 1234, 1235)
        call("write_file", path="a.txt", content="new")
        state = (root / "a.txt").stat()
        assert (state.st_uid, state.st_gid) == (1234, 1235)

    @pytest.mark.skipif(not hasattr(os, "setxattr"), reason="needs extended attributes")
    def test_attributes_are_kept(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("old")
        try:
            os.setxattr(root / "a.txt", "user.origin", b"here")
        except OSError:
            pytest.skip("this file system has no extended attributes")
        call("write_file", path="a.txt", content="new")
        assert os.getxattr(root / "a.txt", "user.origin") == b"here"

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another group")
    def test_a_group_that_can_not_be_kept_leaves_no_rights_to_another(
        self, workspace: Workspace, root: Path, unprivileged: Unprivileged
    ) -> None:
        root.chmod(0o777)
        (root / "a.txt").write_text("old")
        os.chown(root / "a.txt", 65534, 1235)
        (root / "a.txt").chmod(0o664)
        with unprivileged():
            write_file(workspace, "a.txt", content="new")
        assert (root / "a.txt").stat().st_mode & 0o777 == 0o604

    def test_an_access_list_is_kept(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("old")
        set_access_list(root / "a.txt", "system.posix_acl_access")
        before = os.getxattr(root / "a.txt", "system.posix_acl_access")
        call("write_file", path="a.txt", content="new")
        assert os.getxattr(root / "a.txt", "system.posix_acl_access") == before

    def test_an_access_list_of_the_directory_gives_no_rights_the_old_file_did_not(self, call: Call, root: Path) -> None:
        (root / "a.txt").write_text("old")
        set_access_list(root, "system.posix_acl_default")
        call("write_file", path="a.txt", content="new")
        assert "system.posix_acl_access" not in os.listxattr(root / "a.txt")


class TestRefusedBySystem:
    """The system says no: the error is clear, the old content stands, nothing is left behind."""

    def test_a_file_is_not_replaced_where_it_is_read_only_nor_shown_where_it_may_not_be_read(
        self, workspace: Workspace, root: Path, unprivileged: Unprivileged
    ) -> None:
        root.chmod(0o777)
        (root / "a.txt").write_text("old")
        (root / "a.txt").chmod(0o444)
        with unprivileged(), pytest.raises(ToolError, match=r"permission denied: 'a\.txt'"):
            write_file(workspace, "a.txt", content="new")
        assert (root / "a.txt").read_text() == "old"
        (root / "a.txt").chmod(0)
        with unprivileged(), pytest.raises(ToolError, match=r"permission denied: 'a\.txt'"):
            view_file(workspace, "a.txt")

    @every(
        ("tool", "arguments"),
        [
            (write_file, {"path": "shut/new.txt", "content": "x"}),
            (write_file, {"path": "shut/new.txt", "content": "x", "create_only": True}),
            (write_file, {"path": "shut/a/new.txt", "content": "x", "create_parents": True}),
            (edit_file, {"path": "shut/a.txt", "old_text": "old", "new_text": "new"}),
            (move_file, {"source": "shut/a.txt", "destination": "shut/b.txt"}),
            (delete_file, {"path": "shut/a.txt"}),
            (create_directory, {"path": "shut/x"}),
        ],
    )
    def test_a_directory_that_may_not_be_written_is_left_alone(
        self,
        workspace: Workspace,
        root: Path,
        unprivileged: Unprivileged,
        tool: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> None:
        (root / "shut").mkdir(exist_ok=True)
        (root / "shut").chmod(0o755)
        (root / "shut/a.txt").write_text("old")
        (root / "shut/a.txt").chmod(0o666)
        (root / "shut").chmod(0o555)
        with unprivileged(), pytest.raises(ToolError, match=r"permission denied: 'shut"):
            tool(workspace, **arguments)
        assert contents(root / "shut") == {"a.txt": "old"}

    def test_a_directory_that_may_not_be_read_is_counted_in_a_listing(
        self, workspace: Workspace, root: Path, unprivileged: Unprivileged
    ) -> None:
        (root / "shut").mkdir(mode=0o700)
        (root / "shut").chmod(0)
        with unprivileged():
            assert list_directories(workspace, depth=2).n_unreadable == 1

    @pytest.mark.outside
    def test_a_full_disk_loses_nothing(self, root: Path) -> None:
        unshare = shutil.which("unshare")
        if unshare is None:
            pytest.skip("needs unshare to mount a small file system")
        script = f"""
from pathlib import Path
from fastmcp.exceptions import ToolError
from filesystem_agent.editing import edit_file, write_file
from filesystem_agent.settings import Settings
from filesystem_agent.workspace import Workspace
root = Path({str(root)!r})
(root / "a.txt").write_text("old")
workspace = Workspace(Settings(roots=(root,)))
for tool, arguments in (
    (write_file, {{"content": "x" * 400_000}}),
    (edit_file, {{"old_text": "old", "new_text": "x" * 400_000}}),
):
    try:
        tool(workspace, "a.txt", **arguments)
    except ToolError as error:
        print(tool.__name__, error, [(path.name, path.read_text()) for path in root.iterdir()])
"""
        mount = f'mount -t tmpfs -o size=128k none "{root}" || exit 77; exec "$0" -c "$1"'
        done = subprocess.run(
            [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", mount, sys.executable, script],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0 and ("unshare" in done.stderr or done.returncode == 77):
            pytest.skip("this system forbids mounting a small file system")
        told = "the disk is full, nothing was changed: 'a.txt' [('a.txt', 'old')]"
        assert done.stdout.splitlines() == [f"write_file {told}", f"edit_file {told}"], done.stderr

    def test_a_file_larger_than_the_system_allows_loses_nothing(self, workspace: Workspace, root: Path) -> None:
        (root / "a.txt").write_text("old")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(ToolError, match=r"larger than the system allows, nothing was changed: 'a.txt'"):
                write_file(workspace, "a.txt", content="x" * 100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert contents(root) == {"a.txt": "old"}


class TestNothingLeftBehind:
    @pytest.mark.outside
    def test_a_killed_server_leaves_the_old_file_and_no_other(self, root: Path) -> None:
        script = f"""
import os, sys
from pathlib import Path
from filesystem_agent.editing import write_file
from filesystem_agent.settings import Settings
from filesystem_agent.workspace import Workspace
flush = os.fsync
def wait(fd):
    flush(fd)
    print("flushed", flush=True)
    sys.stdin.read()
os.fsync = wait
write_file(Workspace(Settings(roots=(Path({str(root)!r}),))), "a.txt", content="x" * 1_000_000)
"""
        (root / "a.txt").write_text("old")
        try:
            os.close(os.open(root, os.O_TMPFILE | os.O_WRONLY))
        except (AttributeError, OSError):
            pytest.skip("this file system has no unnamed files")
        with subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "flushed\n"
            server.kill()
        assert contents(root) == {"a.txt": "old"}


class TestPoorerSystems:
    """A system without some of what Linux offers."""

    SYSTEMS = ("no unnamed files", "no exclusive rename", "neither")

    def impoverish(self, patch: pytest.MonkeyPatch, system: str) -> None:
        if system != "no exclusive rename":
            patch.delattr(os, "O_TMPFILE", raising=False)
        if system != "no unnamed files":
            patch.setattr(renaming, "_exclusive_call", lambda: None)

    @every("system", SYSTEMS)
    def test_files_are_created_replaced_moved_and_spared(
        self, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch, system: str
    ) -> None:
        shutil.rmtree(root / "new", ignore_errors=True)
        with monkeypatch.context() as patch:
            self.impoverish(patch, system)
            call("create_directory", path="old")
            call("write_file", path="old/a.txt", content="first", create_only=True)
            call("write_file", path="old/a.txt", content="second")
            assert contents(root / "old") == {"a.txt": "second"}
            call("move_file", source="old/a.txt", destination="old/b.txt")
            assert contents(root / "old") == {"b.txt": "second"}
            call("write_file", path="old/a.txt", content="other")
            with pytest.raises(ToolError, match=r"exists already"):
                call("move_file", source="old/a.txt", destination="old/b.txt")
            call("move_file", source="old", destination="new")
        assert contents(root / "new") == {"a.txt": "other", "b.txt": "second"}
        assert [path.name for path in root.iterdir()] == ["new"]

    @every("system", SYSTEMS)
    def test_a_failed_flush_leaves_no_temporary_file(
        self, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch, system: str
    ) -> None:
        def fail(fd: int) -> None:
            raise OSError(errno.EIO, "fault")

        (root / "a.txt").write_text("old")
        with monkeypatch.context() as patch:
            self.impoverish(patch, system)
            patch.setattr(os, "fsync", fail)
            with pytest.raises(ToolError, match=r"the disk reported an input/output error"):
                call("write_file", path="a.txt", content="new")
        assert contents(root) == {"a.txt": "old"}
