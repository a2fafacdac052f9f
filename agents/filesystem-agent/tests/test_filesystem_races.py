"""A real process swaps directories and files for links to the outside, as fast as it can, while every tool works."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from filesystem_agent.arranging import create_directory, delete_file, move_file
from filesystem_agent.comparing import diff_files
from filesystem_agent.editing import edit_file, write_file
from filesystem_agent.finding import find_files
from filesystem_agent.listing import file_info, list_directories
from filesystem_agent.registration import bind
from filesystem_agent.searching import search_files
from filesystem_agent.tailing import tail_file
from filesystem_agent.viewing import view_file
from filesystem_agent.workspace import Workspace

ATTACKER = """
import ctypes, os, sys
root = os.open(sys.argv[1], os.O_RDONLY)
exchange = ctypes.CDLL(None, use_errno=True).renameat2
def swap(a, b):
    if exchange(root, a, root, b, 2) != 0:  # RENAME_EXCHANGE
        sys.exit(f"cannot exchange: {os.strerror(ctypes.get_errno())}")
swap(b"door", b"door.link")
print("ready", flush=True)
while True:
    swap(b"door", b"door.link")
    swap(b"below/deep", b"below/deep.link")
    os.symlink(sys.argv[2], ".new", dir_fd=root)
    os.rename(".new", "paper", src_dir_fd=root, dst_dir_fd=root)
    with open(os.open(".new", os.O_CREAT | os.O_WRONLY, dir_fd=root), "w") as paper:
        paper.write("mine\\n")
    os.rename(".new", "paper", src_dir_fd=root, dst_dir_fd=root)
"""
N_LEAST_OF_EACH = 3
N_ROUNDS = 60
N_READS_A_ROUND = 3
N_MOST_SECONDS = 90.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the attacker exchanges names with renameat2")


@pytest.fixture
def attacked(root: Path, outside: Path) -> Iterator[Path]:
    """The root, under attack for as long as the test runs."""
    (outside / "deep").mkdir()
    for name in ("note.txt", "deep/note.txt"):
        (outside / name).write_text("SECRET\n")
    for name in ("door", "below/deep"):
        (root / name).mkdir(parents=True)
        (root / name / "note.txt").write_text("mine\n")
        (root / f"{name}.link").symlink_to(outside)
    (root / "paper").write_text("mine\n")
    attacker = subprocess.Popen(
        [sys.executable, "-c", ATTACKER, str(root), str(outside / "note.txt")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert attacker.stdout is not None
    assert attacker.stderr is not None
    try:
        if attacker.stdout.readline() != "ready\n":
            pytest.skip(attacker.stderr.read())
        yield root
        assert attacker.poll() is None, "the attack ended early"
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()
        attacker.stderr.close()


def check_outside(outside: Path) -> None:
    assert sorted(path.name for path in outside.rglob("*")) == ["deep", "note.txt", "note.txt", "secret.txt"]
    assert {path.read_text() for path in outside.rglob("*.txt")} == {"SECRET\n"}


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "view through a directory": (view_file, {"path": "door/note.txt"}),
    "view through two": (view_file, {"path": "below/deep/note.txt"}),
    "view a file": (view_file, {"path": "paper"}),
    "view as base64": (view_file, {"path": "door/note.txt", "as_base64": True}),
    "tail": (tail_file, {"path": "door/note.txt"}),
    "tail a file": (tail_file, {"path": "paper"}),
    "diff": (diff_files, {"old_path": "door/note.txt", "new_path": "paper"}),
    "info": (file_info, {"path": "door/note.txt", "with_sha256": True}),
    "list": (list_directories, {"path": "door"}),
    "list all": (list_directories, {"depth": 5}),
    "find": (find_files, {"pattern": "**", "path": "door"}),
    "find all": (find_files, {"pattern": "**/secret.txt"}),
    "search": (search_files, {"pattern": "SECRET", "path": "door"}),
    "search all": (search_files, {"pattern": "SECRET"}),
    "write": (write_file, {"path": "door/new.txt", "content": "mine\n"}),
    "write over": (write_file, {"path": "door/note.txt", "content": "mine\n"}),
    "write over a file": (write_file, {"path": "paper", "content": "mine\n"}),
    "write below new directories": (
        write_file,
        {"path": "door/a/b/new.txt", "content": "mine\n", "create_parents": True},
    ),
    "edit": (edit_file, {"path": "door/note.txt", "old_text": "SECRET", "new_text": "x"}),
    "edit own": (
        edit_file,
        {"path": "door/note.txt", "old_text": "mine", "new_text": "mine!", "dry_run": True},
    ),
    "make": (create_directory, {"path": "door/made/deeper"}),
    "move in": (move_file, {"source": "door/secret.txt", "destination": "taken"}),
    "move out": (
        move_file,
        {"source": "door/new.txt", "destination": "below/deep/new.txt", "overwrite": True},
    ),
    "delete": (delete_file, {"path": "door/secret.txt"}),
    "delete new": (delete_file, {"path": "below/deep/new.txt"}),
    "delete a directory": (delete_file, {"path": "door/deep", "empty_directory": True}),
}
QUICK = (view_file, tail_file, diff_files, file_info)
ROUND = [name for name, (tool, _) in CALLS.items() for _ in range(N_READS_A_ROUND if tool in QUICK else 1)]


@pytest.mark.outside
class TestSwappedForLinks:
    def test_no_tool_reads_or_changes_anything_outside(
        self, workspace: Workspace, attacked: Path, outside: Path
    ) -> None:
        leaks: list[str] = []
        for _ in range(N_ROUNDS):
            for name in ROUND:
                function, arguments = CALLS[name]
                try:
                    result = str(bind(function, workspace)(**arguments))
                except ToolError as error:
                    result = str(error)
                shown = result.replace("'SECRET'", "").replace("door/secret.txt", "")
                if "SECRET" in shown or "U0VDUkVU" in shown or "secret" in shown:
                    leaks.append(f"{name}: {result}")
        assert leaks == []
        check_outside(outside)
        assert not (attacked / "taken").exists()

    def test_both_sides_of_the_race_are_met(self, workspace: Workspace, attacked: Path, outside: Path) -> None:
        met: Counter[bool] = Counter()
        deadline = time.monotonic() + N_MOST_SECONDS
        while min(met[True], met[False]) < N_LEAST_OF_EACH and time.monotonic() < deadline:
            try:
                met[view_file(workspace, "door/note.txt").text == "mine\n"] += 1
            except ToolError:
                met[False] += 1
        assert min(met[True], met[False]) >= N_LEAST_OF_EACH

    def test_the_attack_beats_a_check_before_an_open(self, attacked: Path) -> None:
        def read_as_others_do() -> str:
            try:
                path = (attacked / "door/note.txt").resolve()
            except OSError:  # exchanged between the steps of resolving
                return ""
            return path.read_text() if path.is_relative_to(attacked.resolve()) else ""

        deadline = time.monotonic() + N_MOST_SECONDS
        while (read := read_as_others_do()) != "SECRET\n" and time.monotonic() < deadline:
            pass
        assert read == "SECRET\n"


class TestLostUpdates:
    def test_of_many_concurrent_edits_none_is_lost(self, workspace: Workspace, root: Path) -> None:
        n_edits = 24
        (root / "list.txt").write_text("start\n")

        def add(number: int) -> None:
            while True:
                try:
                    edit_file(workspace, "list.txt", old_text="start\n", new_text=f"start\n{number}\n")
                except ToolError as error:
                    if "has changed since it was read" not in str(error):
                        raise
                else:
                    return

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(n_edits)))
        assert sorted(map(int, (root / "list.txt").read_text().split()[1:])) == list(range(n_edits))

    def test_of_many_exclusive_writes_one_wins(self, workspace: Workspace, root: Path) -> None:
        def write(number: int) -> bool:
            try:
                write_file(workspace, "once.txt", content=str(number), create_only=True)
            except ToolError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(write, range(24))) == 1

    def test_a_reader_sees_the_old_file_or_the_new_one_and_nothing_between(
        self, workspace: Workspace, root: Path
    ) -> None:
        texts = {letter * 50_000 for letter in "ab"}
        (root / "a.txt").write_text("a" * 50_000)
        seen: set[str] = set()

        def write(number: int) -> None:
            write_file(workspace, "a.txt", content="ab"[number % 2] * 50_000)

        with ThreadPoolExecutor(1) as pool:
            writes = [pool.submit(write, number) for number in range(30)]
            while not all(write.done() for write in writes):
                seen.add((root / "a.txt").read_text())
        assert seen <= texts
