"""`rotate_log` and `delete_log` beside real writer processes: no line is lost."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from logs_agent.rotating import rotate_log

Call = Callable[..., dict[str, Any]]

HOLDER = """
import sys
log = open(sys.argv[1], "a", buffering=1)
log.write("held\\n")
print("ready", flush=True)
for line in sys.stdin:
    log.write(line)
    print("written", flush=True)
"""
REOPENER = """
import os, sys
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, b"line %d\\n" % number)
    os.close(fd)
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether a file has a writer")


@pytest.fixture
def log(logs: Path) -> Path:
    path = logs / "app.log"
    path.write_text("one\n")
    return path


class Holder:
    """A process that keeps a log open and writes the lines it is told."""

    def __init__(self, log: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(log)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._said("ready")

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self._said("written")

    def end(self) -> None:
        self.process.communicate(timeout=100)

    def _said(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == word + "\n"


@pytest.fixture
def holder(log: Path) -> Iterator[Holder]:
    writer = Holder(log)
    yield writer
    writer.end()


def everything(log: Path) -> list[str]:
    """Return all lines of a log and its siblings, in no order."""
    found = []
    for path in log.parent.iterdir():
        data = path.read_bytes()
        found += (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode().splitlines()
    return found


def names(log: Path) -> set[str]:
    return {path.name for path in log.parent.iterdir()}


class TestRotation:
    def test_the_log_becomes_the_first_sibling_and_starts_empty_while_older_ones_move_up(
        self, log: Path, call: Call
    ) -> None:
        log.chmod(0o640)
        for word in ("two", "three", "four"):
            done = call("rotate_log", path="app.log")
            assert (done["rotated"], done["rotated_to"], log.read_text()) == (True, "app.log.1", "")
            log.write_text(f"{word}\n")
        texts = [(log.parent / f"app.log{suffix}").read_text() for suffix in (".3", ".2", ".1", "")]
        assert texts == ["one\n", "two\n", "three\n", "four\n"]
        assert log.stat().st_mode & 0o777 == 0o640

    def test_siblings_past_those_to_keep_are_deleted(self, log: Path, call: Call) -> None:
        for number in range(4):
            log.write_text(f"{number}\n")
            done = call("rotate_log", path="app.log", keep=2)
        assert names(log) == {"app.log", "app.log.1", "app.log.2"}
        assert done["deleted"] == ["app.log.3"]

    def test_nothing_else_in_the_folder_is_touched_nor_a_sibling_beyond_a_gap(self, log: Path, call: Call) -> None:
        others = ("app.log.bak", "app.log.1.txt", "app.log-1", "app_log.1", "myapp.log.1", "app.log.old.1")
        for name in (*others, "app.log.5"):
            (log.parent / name).write_text(name)
        call("rotate_log", path="app.log")
        assert (log.parent / "app.log.5").read_text() == "app.log.5"
        log.write_text("two\n")
        call("rotate_log", path="app.log", keep=1, compress=True)
        assert [(log.parent / name).read_text() for name in others] == list(others)

    def test_an_empty_log_is_left_alone(self, log: Path, call: Call) -> None:
        log.write_text("")
        done = call("rotate_log", path="app.log")
        assert (done["rotated"], names(log)) == (False, {"app.log"})

    def test_a_rotated_file_is_not_rotated_again_and_a_folder_in_the_way_stops_it_before_anything_is_lost(
        self, log: Path, refusal: Callable[..., str]
    ) -> None:
        (log.parent / "app.log.1").write_text("old\n")
        assert "rotate 'app.log' instead" in refusal("rotate_log", path="app.log.1")
        (log.parent / "app.log.1").unlink()
        (log.parent / "app.log.1").mkdir()
        refusal("rotate_log", path="app.log")
        assert log.read_text() == "one\n"


@linux_only
class TestCompression:
    def test_a_file_nobody_writes_to_is_packed_and_its_packed_siblings_move_up_and_can_be_read(
        self, log: Path, call: Call
    ) -> None:
        done = call("rotate_log", path="app.log", compress=True)
        assert (done["rotated_to"], done["compressed"]) == ("app.log.1.gz", ["app.log.1.gz"])
        assert names(log) == {"app.log", "app.log.1.gz"}
        assert gzip.decompress((log.parent / "app.log.1.gz").read_bytes()) == b"one\n"
        log.write_text("two\n")
        call("rotate_log", path="app.log", compress=True)
        assert names(log) == {"app.log", "app.log.1.gz", "app.log.2.gz"}
        found = call("search_logs", path="app.log", query="o", include_rotated=True)
        assert [hit["text"] for hit in found["hits"]] == ["one", "two"]

    @pytest.mark.outside
    def test_a_file_still_written_to_is_not_packed_before_a_later_rotation(
        self, log: Path, call: Call, holder: Holder
    ) -> None:
        done = call("rotate_log", path="app.log", compress=True)
        assert (done["writer_attached"], done["compressed"]) == (True, [])
        assert "may still be written to" in done["notes"][0]
        holder.write("late")
        holder.end()
        log.write_text("two\n")
        call("rotate_log", path="app.log", compress=True)
        assert gzip.decompress((log.parent / "app.log.2.gz").read_bytes()) == b"one\nheld\nlate\n"

    def test_a_writer_that_comes_while_packing_keeps_its_file(self, log: Path) -> None:
        log.write_bytes(os.urandom(20_000_000))

        def open_late() -> BinaryIO:
            while not any(path.stat().st_size for path in log.parent.glob(".app.log.1.*")):
                pass
            return (log.parent / "app.log.1").open("ab")

        with ThreadPoolExecutor() as pool:
            late = pool.submit(open_late)
            done = rotate_log("app.log", compress=True)
            with late.result(timeout=30) as file:
                file.write(b"late\n")
        assert done["compressed"] == []
        assert (log.parent / "app.log.1").read_bytes().endswith(b"late\n")

    def test_an_existing_packed_file_is_never_overwritten(self, log: Path, call: Call) -> None:
        for name in ("app.log.3", "app.log.3.gz"):
            (log.parent / name).write_bytes(gzip.compress(b"precious") if name.endswith("gz") else b"three\n")
        call("rotate_log", path="app.log", compress=True)
        assert gzip.decompress((log.parent / "app.log.3.gz").read_bytes()) == b"precious"
        assert (log.parent / "app.log.3").read_text() == "three\n"


@linux_only
class TestWriters:
    @pytest.mark.outside
    def test_a_writer_that_keeps_the_file_open_loses_nothing(self, log: Path, call: Call, holder: Holder) -> None:
        for number in range(4):
            call("rotate_log", path="app.log", keep=1, compress=True)
            holder.write(f"after {number}")
            log.open("a").close()
            log.write_text(f"new {number}\n")
        assert [f"after {number}" in everything(log) for number in range(4)] == [True] * 4
        assert "held" in everything(log)

    @pytest.mark.outside
    def test_writers_that_reopen_lose_nothing_under_many_rotations(self, log: Path) -> None:
        n_lines = 30_000
        writer = subprocess.Popen(
            [sys.executable, "-c", REOPENER, str(log), str(n_lines)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        n_rotations = 0
        while writer.poll() is None and n_rotations < 40:
            n_rotations += rotate_log("app.log", keep=1000, compress=n_rotations % 2 == 0)["rotated"]
        writer.communicate(timeout=60)
        assert n_rotations > 3
        assert sorted(everything(log)) == sorted(["one", *(f"line {number}" for number in range(n_lines))])

    def test_rotations_at_the_same_time_lose_nothing(self, log: Path) -> None:
        def work(number: int) -> None:
            for turn in range(10):
                with log.open("a") as file:
                    file.write(f"{number}-{turn}\n")
                rotate_log("app.log", keep=1000)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        expected = ["one", *(f"{number}-{turn}" for number in range(6) for turn in range(10))]
        assert sorted(everything(log)) == sorted(expected)


class TestDeletion:
    def test_the_log_alone_is_deleted_and_its_siblings_only_when_asked(self, log: Path, call: Call) -> None:
        for name in ("app.log.1", "app.log.2.gz", "app.log-20250101", "app.log.bak", "other.log.1"):
            (log.parent / name).write_text("x")
        before = names(log)
        assert call("delete_log", path="app.log") == {"deleted": ["app.log"], "freed_bytes": 4}
        assert names(log) == before - {"app.log"}
        log.write_text("one\n")
        call("delete_log", path="app.log", include_rotated=True)
        assert names(log) == {"app.log.bak", "other.log.1"}

    @pytest.mark.outside
    @linux_only
    def test_a_log_being_written_to_is_kept_unless_that_is_said_to_be_fine(
        self, log: Path, call: Call, refusal: Callable[..., str], holder: Holder
    ) -> None:
        assert "a process is writing to 'app.log'" in refusal("delete_log", path="app.log")
        assert log.exists()
        call("delete_log", path="app.log", even_if_open=True)
        assert not log.exists()

    @linux_only
    def test_a_reader_does_not_count_as_a_writer(self, log: Path, call: Call) -> None:
        with log.open():
            call("delete_log", path="app.log")
        assert not log.exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may delete anywhere")
    def test_a_folder_one_may_not_write_to_is_told_as_such(self, log: Path, refusal: Callable[..., str]) -> None:
        log.parent.chmod(0o500)
        try:
            assert "permission denied" in refusal("delete_log", path="app.log")
        finally:
            log.parent.chmod(0o700)
