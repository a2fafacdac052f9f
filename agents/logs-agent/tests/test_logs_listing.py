"""`list_logs` and the names of logs."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logs_agent.naming import looks_like_log, siblings
from tests.every import every

Call = Callable[..., dict[str, Any]]


class TestNames:
    @every(
        "name",
        [
            "app.log",
            "app.log.1",
            "app.log.2.gz",
            "app.log-20250131",
            "app.log-20250131.gz",
            "app.log.2025-01-31",
            "syslog",
            "syslog.1",
            "access_log",
            "error_log.3",
            "events.jsonl",
            "catalina.out",
            "APP.LOG",
            "app.1.log",
            "nginx-access.log.14.gz",
        ],
    )
    def test_a_logs_name_is_known(self, name: str) -> None:
        assert looks_like_log(name)

    @every(
        "name",
        [
            "main.py",
            "catalog",
            "blog.html",
            "data.1",
            "archive.gz",
            "README.md",
            ".app.log",
            "a.out",
            "a.logo",
        ],
    )
    def test_another_files_name_is_not_taken_for_a_logs(self, name: str) -> None:
        assert not looks_like_log(name)

    @every(
        ("log", "names", "expected"),
        [
            (
                "app.log",
                ["app.log", "app.log.1", "app.log.10.gz", "app.log.2.gz", "app.log-20250101", "other.log.1"],
                ["app.log-20250101", "app.log.10.gz", "app.log.2.gz", "app.log.1"],
            ),
            pytest.param("app.log", ["app.log.1", "app.log.1.gz"], ["app.log.1"], id="one that is being packed"),
            pytest.param(
                "app.log", ["app.log.bak", "app.logs", "app.log.1.txt", "myapp.log.1"], [], id="names that begin alike"
            ),
        ],
    )
    def test_siblings_come_oldest_first_and_each_once(self, log: str, names: list[str], expected: list[str]) -> None:
        assert siblings(log, names) == expected


class TestListing:
    def test_each_log_is_listed_with_its_format_and_siblings(self, logs: Path, call: Call) -> None:
        (logs / "app.log").write_text("2025-01-02 10:00:00 INFO hi\n")
        (logs / "app.log.1").write_text("2025-01-01 10:00:00 INFO hi\n")
        (logs / "sub").mkdir()
        (logs / "sub" / "events.jsonl").write_text('{"level":"info","msg":"hi"}\n')
        found = {log["path"]: (log["format"], log.get("rotated")) for log in call("list_logs")["logs"]}
        assert found == {"app.log": ("plain", ["app.log.1"]), "sub/events.jsonl": ("json", None)}

    def test_gzip_is_told_by_content_not_by_name(self, logs: Path, call: Call) -> None:
        (logs / "packed.log").write_bytes(gzip.compress(b'{"level":"info","msg":"hi"}\n'))
        (logs / "plain.log.gz").write_text("2025-01-02 10:00:00 INFO hi\n")
        found = {log["path"]: (log.get("gzip", False), log["format"]) for log in call("list_logs")["logs"]}
        assert found == {"packed.log": (True, "json"), "plain.log.gz": (False, "plain")}

    def test_a_pattern_replaces_the_guess_by_name_and_subfolders_can_be_left_out(self, logs: Path, call: Call) -> None:
        (logs / "sub").mkdir()
        for name in ("app.log", "notes.txt", "sub/a.log"):
            (logs / name).write_text("x\n")
        assert [log["path"] for log in call("list_logs", pattern="*.txt")["logs"]] == ["notes.txt"]
        assert [log["path"] for log in call("list_logs", recursive=False)["logs"]] == ["app.log"]

    def test_only_more_logs_than_the_limit_are_flagged(self, logs: Path, call: Call) -> None:
        for number in range(3):
            (logs / f"{number}a.log").touch()
        for limit, n, truncated in ((2, 2, True), (3, 3, False)):
            found = call("list_logs", limit=limit)
            assert (len(found["logs"]), found["truncated"]) == (n, truncated), limit
            assert {log["format"] for log in found["logs"]} == {"empty"}

    def test_a_name_that_is_not_utf8_is_left_out_and_a_change_time_out_of_range_unknown(
        self, logs: Path, call: Call
    ) -> None:
        os.close(os.open(os.fsencode(logs) + b"/bad\xff.log", os.O_CREAT | os.O_WRONLY))
        (logs / "app.log").write_text("Jan  2 10:00:00 host app: hi\n")
        os.utime(logs / "app.log", (0, -5_000_000_000))
        assert [(log["path"], log["modified"]) for log in call("list_logs")["logs"]] == [("app.log", None)]

    def test_logs_lying_too_deep_are_flagged_as_left_out(self, logs: Path, call: Call) -> None:
        deep = logs.joinpath(*"d" * 40)
        deep.mkdir(parents=True)
        (deep / "a.log").touch()
        assert call("list_logs") == {"logs": [], "truncated": True}
