"""What an upstream writes to stderr, kept in bounds and readable."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from fastmcp import Client

from agent_utilities.gateway.upstreams.processes import stderr_log
from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog, log_file, logged, read_log
from tests.every import every
from tests.gateway.upstreams.processes import PATIENCE_S, Over, upstream


class TestLines:
    def test_the_last_are_given_oldest_first_in_whatever_pieces_they_came(self):
        log = StderrLog()
        for piece in (b"one\ntw", b"o", b"\nthr", b"ee"):
            log.feed(piece)
        assert log.last_lines(2) == ["two", "three"]

    def test_notes_are_on_disk_alone(self, tmp_path: Path):
        log = StderrLog(tmp_path / "git.log")
        log.feed(b"half a line")
        log.note("exited with status 1")
        log.flush(PATIENCE_S)
        assert log.last_lines(9) == ["half a line"]
        told = [line.partition(" ")[2] for line in read_log(tmp_path / "git.log", 9)]
        assert told == ["half a line", "-- exited with status 1"]

    @every(
        ("written", "shown"),
        [
            (b"\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"10 %\r20 %\r30 %", "30 %"),
            (b"windows\r", "windows"),
            (b"a\x00b\x08c\x9b", "a\\x00b\\x08c\ufffd"),
            ("a\u202eb\x9bc".encode(), "a\\x202eb\\x9bc"),
            (b"tab\there", "tab\there"),
            (b"not utf-8: \xff", "not utf-8: \ufffd"),
            ("grüße 日本 😀".encode(), "grüße 日本 😀"),
        ],
    )
    def test_what_would_act_on_a_terminal_is_made_harmless(self, written: bytes, shown: str):
        log = StderrLog()
        log.feed(written + b"\n")
        assert log.last_lines(1) == [shown]

    def test_secrets_are_hidden_in_whatever_pieces_they_come(self, tmp_path: Path):
        log = StderrLog(tmp_path / "git.log")
        log.hide(["s3cret-t0ken"])
        for piece in (b"the key s3cret", b"-t0ken is", b" bad\n"):
            log.feed(piece)
        log.note("s3cret-t0ken")
        log.flush(PATIENCE_S)
        told = [line.partition(" ")[2] for line in read_log(tmp_path / "git.log", 9)]
        assert told == ["the key [hidden] is bad", "-- [hidden]"]


class TestFloods:
    def test_the_last_lines_of_one_are_kept_and_how_much_was_left_out_is_told(self, tmp_path: Path):
        log = StderrLog(tmp_path / "git.log")
        for _ in range(1000):
            log.feed(b"noise\n" * 10_000)
        log.feed(b"the end\n")
        log.flush(PATIENCE_S)
        assert log.last_lines(1) == ["the end"]
        told = [line for line in read_log(tmp_path / "git.log", 100_000) if "were left out" in line]
        # The writer may get a turn in the middle of it on a busy machine: it says so once for each stretch left out.
        assert told
        assert 40_000 < sum(int(line.split()[2]) for line in told) < 59_000

    def test_one_without_a_line_end_takes_no_memory_and_its_line_is_kept_once_cut(self):
        log, piece = StderrLog(), b"x" * 10_000
        tracemalloc.start()
        try:
            for _ in range(30):
                log.feed(piece)
            n_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert n_bytes < 100_000
        log.feed(b"\nnext\n")
        cut, following = log.last_lines(9)
        assert cut == "x" * stderr_log.MAX_LINE_CHARACTERS + "..."
        assert following == "next"

    def test_half_a_secret_at_a_cut_is_not_shown(self):
        log = StderrLog()
        log.hide(["s3cret-t0ken"])
        for _ in range(200):
            log.feed(b"s3cret-t0ken" * 5_000)
        log.feed(b"\n")
        assert "t0ken" not in "".join(log.last_lines(200))


class TestOnDisk:
    def test_lines_are_read_back_with_their_time(self, tmp_path: Path):
        log = StderrLog(tmp_path / "logs" / "git.log")
        log.feed(b"one\ntwo\n")
        log.flush(PATIENCE_S)
        (line,) = read_log(tmp_path / "logs" / "git.log", 1)
        time, _, text = line.partition(" ")
        assert text == "two"
        assert time.endswith("Z")

    def test_where_there_is_none_nothing_is_read(self, tmp_path: Path):
        assert read_log(tmp_path / "git.log", 10) == []

    def test_it_takes_no_more_than_its_bound(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(stderr_log, "RATE_BYTES", 1e12)
        log = StderrLog(tmp_path / "git.log", max_bytes=20_000)
        for n in range(5_000):
            log.feed(b"line %d\n" % n)
        log.flush(PATIENCE_S)
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 20_000
        assert len(list(tmp_path.iterdir())) == 2
        assert [line.partition(" ")[2] for line in read_log(tmp_path / "git.log", 300)] == [
            f"line {n}" for n in range(4_700, 5_000)
        ]

    def test_nobody_else_may_read_it(self, tmp_path: Path):
        log = StderrLog(tmp_path / "logs" / "git.log")
        log.note("started")
        log.flush(PATIENCE_S)
        assert (tmp_path / "logs").stat().st_mode & 0o077 == 0
        assert (tmp_path / "logs" / "git.log").stat().st_mode & 0o077 == 0

    def test_a_link_in_its_place_is_not_followed(self, tmp_path: Path):
        (tmp_path / "git.log").symlink_to(tmp_path / "elsewhere")
        log = StderrLog(tmp_path / "git.log")
        log.note("started")
        log.flush(PATIENCE_S)
        assert not (tmp_path / "elsewhere").exists()

    def test_a_disk_that_takes_nothing_is_no_trouble(self):
        log = StderrLog(Path("/proc/nowhere/git.log"))
        log.feed(b"one\n")
        log.flush(PATIENCE_S)
        assert log.last_lines(1) == ["one"]

    def test_a_disk_that_hangs_holds_up_nobody_and_has_the_last_lines_when_it_goes_on(self, tmp_path: Path):
        os.mkfifo(path := tmp_path / "git.log")  # to be opened for writing it waits for a reader
        log = StderrLog(path, max_bytes=20_000)
        for n in range(1_000):
            log.feed(b"line %d\n" % n)
        log.flush(0)
        numbers = [0]
        with open(os.open(path, os.O_RDWR)) as disk:  # a writer too, so that nothing ends between two writes
            while numbers[-1] < 999:
                numbers.append(int(disk.readline().split()[-1]))
        assert 300 < len(numbers) < 1_000
        assert numbers[-300:] == [*range(700, 1_000)]


@pytest.mark.outside
@pytest.mark.anyio
async def test_a_process_that_floods_is_still_answered_by_and_costs_no_memory():
    began = time.monotonic()
    async with upstream(f"stderr-flood={64 * 2**20}") as faulty, Client(Over(faulty), mode="legacy") as client:
        before = memory_kib()
        while "the flood is over" not in faulty.stderr.last_lines(1):
            assert time.monotonic() - began < PATIENCE_S
            result = await client.call_tool("echo", {"text": "hello"})
            assert result.content[0].text == "hello"
        assert memory_kib() - before < 16 * 1024
        assert time.monotonic() - began > 1.9  # it is read at rest between 64 KiB, however fast it writes


def memory_kib() -> int:
    """Return the memory that this process takes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_a_name_that_is_a_path_stays_in_the_folder(tmp_path: Path) -> None:
    names = ["../../evil", "a/b", "..", "git", "100%"]
    folder = tmp_path / "logs"
    for name in names:
        log = StderrLog(log_file(folder, name))
        log.feed(b"said\n")
        log.flush(PATIENCE_S)
    assert {path.parent for path in tmp_path.rglob("*.log")} == {folder}
    assert logged(folder) == sorted(names)
