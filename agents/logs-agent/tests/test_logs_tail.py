"""`tail_log`: the newest lines, read from the end."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logs_agent.tailing import MAX_CHARS, MAX_LINE_CHARS
from tests.every import every

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "app.log"


class TestLines:
    @every("n_lines", [1, 2, 50, 999, 1000, 1001, 2000])
    @every("end", ["\n", ""])
    def test_the_last_lines_come_oldest_first(self, log: Path, call: Call, n_lines: int, end: str) -> None:
        every = [f"line {number} {'x' * (number % 300)}" for number in range(1000)]
        log.write_text("\n".join(every) + end)
        found = call("tail_log", path="app.log", n_lines=n_lines)
        assert found["lines"] == every[-n_lines:] or found["truncated"]
        assert found["lines"] == every[len(every) - len(found["lines"]) :]

    def test_blank_lines_are_lines_and_an_empty_file_has_none(self, log: Path, call: Call) -> None:
        log.write_text("a\n\n\n")
        assert call("tail_log", path="app.log", n_lines=2)["lines"] == ["", ""]
        log.write_text("")
        assert call("tail_log", path="app.log") == {
            "path": "app.log", "lines": [], "size_bytes": 0, "truncated": False,
        }  # fmt: skip

    def test_gzip_is_read_to_its_end_and_one_cut_off_is_flagged(self, log: Path, call: Call) -> None:
        log.write_bytes(gzip.compress("".join(f"line {number}\n" for number in range(1000)).encode()))
        assert call("tail_log", path="app.log", n_lines=2)["lines"] == ["line 998", "line 999"]
        log.write_bytes(gzip.compress(os.urandom(9000).hex().encode() + b"\nlast\n")[:-9])
        found = call("tail_log", path="app.log", n_lines=1)
        assert (found["damaged_gzip"], found["truncated"]) == (True, True)


class TestBounds:
    def test_a_line_of_megabytes_is_cut_and_flagged(self, log: Path, call: Call) -> None:
        log.write_text("short\n" + "x" * 3_000_000 + "\n")
        found = call("tail_log", path="app.log", n_lines=2)
        assert ([len(line) for line in found["lines"]], found["truncated"]) == ([5, MAX_LINE_CHARS], True)
        log.write_text("x" * 20_000_000)
        assert call("tail_log", path="app.log", n_lines=1)["truncated"]

    def test_the_result_is_bounded_and_keeps_the_newest(self, log: Path, call: Call) -> None:
        log.write_text("".join(f"{number} {'x' * 1500}\n" for number in range(2000)))
        found = call("tail_log", path="app.log", n_lines=2000)
        assert (sum(map(len, found["lines"])) <= MAX_CHARS, found["truncated"]) == (True, True)
        assert found["lines"][-1].startswith("1999 ")

    def test_a_gzip_bomb_ends_at_the_size_limit_and_says_so(
        self, log: Path, call: Call, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.write_bytes(gzip.compress(b"line\n" * 2_000_000))
        monkeypatch.setenv("LOGS_AGENT_MAX_SCAN_MIB", "1")
        assert "not the newest lines" in call("tail_log", path="app.log")["notes"][0]

    def test_a_sparse_file_of_a_terabyte_is_answered_at_once(self, log: Path, call: Call) -> None:
        with log.open("wb") as file:
            file.truncate(1 << 40)
            file.seek(0, os.SEEK_END)
            file.write(b"\nlast\n")
        assert call("tail_log", path="app.log", n_lines=1)["lines"] == ["last"]
