"""Lines are joined to records, and scans cover rotated siblings."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logs_agent.records import MAX_RECORD_LINES
from logs_agent.roots import Roots
from logs_agent.scan import Scan
from tests.every import every

Call = Callable[..., dict[str, Any]]

PYTHON = """Traceback (most recent call last):
  File "a.py", line 3, in run
    raise KeyError(name)
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 9, in main
ValueError: bad
"""
JAVA = """java.lang.IllegalStateException: closed
\tat com.example.Pool.take(Pool.java:12)
\t... 12 more
Caused by: java.io.IOException: reset
\tat com.example.Net.read(Net.java:7)
"""
JSON = '{"level":"error","msg":"x"}\n'


def records(logs: Path, text: str, **options: Any) -> list[tuple[int, str | None, int]]:
    """Return (line, level, number of joined lines) of each record."""
    (logs / "app.log").write_text(text)
    with Scan(Roots((str(logs),)), "app.log", **options) as scan:
        return [(record.line, record.level, len(record.more)) for record in scan]


class TestJoining:
    @every(("trace", "n_lines"), [(PYTHON, 8), (JAVA, 5)])
    @every("head", ["2025-01-02 10:00:00 ERROR failed", "ERROR:root:failed", "[error] failed"])
    def test_a_stack_trace_belongs_to_its_record(self, logs: Path, head: str, trace: str, n_lines: int) -> None:
        found = records(logs, f"{head}\n{trace}{head}\n")
        assert [(level, more) for _, level, more in found] == [("ERROR", n_lines), ("ERROR", 0)]

    def test_a_line_without_a_time_belongs_to_the_timed_record_before_or_is_one_of_its_own(self, logs: Path) -> None:
        text = "2025-01-02 10:00:00 INFO query\nSELECT 1\nERROR in the text\n2025-01-02 10:00:01 INFO next\n"
        assert records(logs, text) == [(1, "INFO", 2), (4, "INFO", 0)]
        assert records(logs, "one\ntwo\n  more of two\nthree\n") == [(1, None, 0), (2, None, 1), (4, None, 0)]

    def test_a_record_without_a_level_that_bears_a_trace_is_an_error(self, logs: Path) -> None:
        assert records(logs, f"2025-01-02 10:00:00 oops\n{PYTHON}") == [(1, "ERROR", 8)]

    @every(
        ("text", "options", "expected"),
        [
            pytest.param(JSON + PYTHON + JSON, {}, [(1, "ERROR", 8), (12, "ERROR", 0)], id="a trace"),
            pytest.param(
                JSON + "Starting up\n" + JSON, {}, [(1, "ERROR", 0), (2, None, 0), (3, "ERROR", 0)], id="a banner"
            ),
            pytest.param(JSON[:-2] + ',"stack":"Error: x\\n  at f (a.js:1)"}\n', {}, [(1, "ERROR", 2)], id="a field"),
            pytest.param(JSON, {"format": "plain"}, [(1, None, 0)], id="a forced format"),
        ],
    )
    def test_a_trace_among_or_in_json_lines_is_joined_and_a_banner_stands_alone(
        self, logs: Path, text: str, options: dict[str, Any], expected: list[tuple[int, str | None, int]]
    ) -> None:
        assert records(logs, text, **options) == expected

    def test_an_endless_record_goes_on_in_parts_counted_once(self, logs: Path, call: Call) -> None:
        body = "".join(f"line {number}\n" for number in range(3 * MAX_RECORD_LINES))
        (logs / "app.log").write_text("2025-01-02 10:00:00 ERROR dump\n" + body)
        assert call("count_by_level", path="app.log")["counts"] == {"ERROR": 1}
        last = call("search_logs", path="app.log", query=f"line {3 * MAX_RECORD_LINES - 1}")
        assert last["matches"] == 1


class TestSiblings:
    @pytest.fixture
    def rotated(self, logs: Path) -> Path:
        (logs / "app.log").write_text("2025-01-03T00:00:00Z INFO three\n")
        (logs / "app.log.1").write_text("2025-01-02T00:00:00Z INFO two\n")
        (logs / "app.log.2.gz").write_bytes(gzip.compress(b"2025-01-01T00:00:00Z INFO one\n"))
        return logs

    def test_they_are_read_oldest_first_when_asked_for(self, rotated: Path, call: Call) -> None:
        found = call("search_logs", path="app.log", query="INFO", include_rotated=True)
        assert [hit["file"] for hit in found["hits"]] == ["app.log.2.gz", "app.log.1", "app.log"]
        assert call("count_by_level", path="app.log")["read"]["files"] == ["app.log"]

    def test_each_is_read_once_even_while_the_live_log_is_missing(self, rotated: Path, call: Call) -> None:
        (rotated / "app.log.3").hardlink_to(rotated / "app.log.1")
        assert call("count_by_level", path="app.log", include_rotated=True)["total"] == 3
        (rotated / "app.log").unlink()
        assert call("count_by_level", path="app.log", include_rotated=True)["total"] == 2

    def test_a_rotation_after_opening_hides_nothing(self, rotated: Path) -> None:
        with Scan(Roots((str(rotated),)), "app.log", include_rotated=True) as scan:
            (rotated / "app.log.1").rename(rotated / "app.log.9")
            (rotated / "app.log").rename(rotated / "app.log.1")
            assert [record.message for record in scan] == ["one", "two", "three"]

    def test_files_are_closed_after_a_refusal(self, rotated: Path, refusal: Callable[..., str]) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            refusal("count_by_level", path="app.log", include_rotated=True, since="yesterday")
            refusal("count_by_level", path="gone.log", include_rotated=True)
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 5


class TestWindows:
    @pytest.fixture(autouse=True)
    def _log(self, logs: Path) -> None:
        hours = "".join(f"2025-01-02T{hour:02}:00:00Z INFO hour {hour}\n" for hour in range(24))
        (logs / "app.log").write_text("no time here\n" + hours)

    @every(
        ("since", "until", "expected"),
        [
            ("2025-01-02T10:00:00Z", "2025-01-02T12:00:00Z", 2),
            ("2025-01-02 10:00:00", "2025-01-02 12:00:00", 2),
            ("2025-01-02T10:00:00+02:00", "2025-01-02T12:00:00+02:00", 2),
            ("2025-01-02T22:00", None, 2),
            (None, "2025-01-02T02:00:00z", 2),
            ("2025-01-02", "2025-01-03", 24),
            ("9999-12-31", None, 0),
            (None, None, 25),
            ("1h", "now", 0),
            ("99999d", None, 24),
        ],
    )
    def test_a_window_is_half_open_and_in_utc(
        self, call: Call, since: str | None, until: str | None, expected: int
    ) -> None:
        assert call("count_by_level", path="app.log", since=since, until=until)["total"] == expected

    def test_records_without_a_time_are_said_to_be_left_out(self, call: Call) -> None:
        account = call("count_by_level", path="app.log", since="2025-01-02")["read"]
        assert account["notes"] == ["1 records bear no time and are outside every time window"]

    @every(
        ("since", "told"),
        [
            ("2025-01-03", "not a window"),
            *(
                (since, f"not a time: {since!r} in 'since'")
                for since in ("yesterday", "2025-13-01", "-1h", "1y", "10:00", "٣h")
            ),
        ],
    )
    def test_a_window_that_ends_before_it_begins_and_a_time_that_is_none_are_refused(
        self, refusal: Callable[..., str], since: str, told: str
    ) -> None:
        assert refusal("count_by_level", path="app.log", since=since, until="2025-01-02").startswith(told)
