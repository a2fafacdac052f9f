"""Errors, levels, volume, slowness and change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs_agent.durations import Spread, timing_of
from logs_agent.formats import PARSERS, Format
from logs_agent.tally import MAX_TEMPLATES
from logs_agent.templates import MAX_TEMPLATE_CHARS, template_of
from tests.every import every

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "app.log"


def at(minute: int, level: str, message: str) -> str:
    return f"2025-01-02T{10 + minute // 60:02}:{minute % 60:02}:00Z {level} {message}\n"


class TestTemplates:
    @every(
        ("message", "template"),
        [
            ("user 17 logged in", "user <num> logged in"),
            ("took 12ms, 3.5 MB", "took <num>ms, <num> MB"),
            ("offset -5", "offset <num>"),
            ("id 550e8400-e29b-41d4-a716-446655440000 gone", "id <uuid> gone"),
            ("at 0xDEADbeef", "at <hex>"),
            ("commit 9f86d081884c7d65", "commit <hex>"),
            ("no 'a b' in \"c d\"", "no <text> in <text>"),
            ("can't open 'x', won't retry", "can't open <text>, won't retry"),
            ("from 10.0.0.1:8080 to ::1", "from <ip> to ::<num>"),
            ("since 2025-01-02T10:00:00.5Z", "since <time>"),
            ("mail a.b@c.org bounced", "mail <email> bounced"),
            ("req_7fk29dkf02kd92kd done", "<id> done"),
            ("GET /users/12/orders/34", "GET /users/<num>/orders/<num>"),
            ("decade facade deadbeef", "decade facade deadbeef"),
            ("  spaces \t between ", "spaces between"),
            ("first\nsecond", "first"),
        ],
    )
    def test_particulars_are_taken_out(self, message: str, template: str) -> None:
        assert template_of(message) == template

    @given(st.text(max_size=2000))
    def test_any_message_has_a_bounded_template(self, message: str) -> None:
        assert len(template_of(message)) <= MAX_TEMPLATE_CHARS


class TestErrors:
    def test_errors_are_grouped_with_counts_times_and_a_sample(self, log: Path, call: Call) -> None:
        log.write_text(
            at(0, "INFO", "fine")
            + "".join(at(n, "ERROR", f"order {n} failed") for n in (1, 2, 3))
            + at(9, "FATAL", "out")
        )
        found = call("summarize_errors", path="app.log")
        assert (found["total"], found["n_groups"], found["truncated"]) == (4, 2, False)
        assert found["groups"][0] == {
            "template": "order <num> failed",
            "count": 3,
            "level": "ERROR",
            "first_seen": "2025-01-02T10:01:00Z",
            "last_seen": "2025-01-02T10:03:00Z",
            "line": 2,
            "sample": "2025-01-02T10:01:00Z ERROR order 1 failed",
        }

    def test_the_exception_tells_groups_apart(self, log: Path, call: Call) -> None:
        trace = 'Traceback (most recent call last):\n  File "a.py", line 1\n'
        log.write_text("".join(at(n, "ERROR", f"job {n} failed") + f"{trace}{name}: {n}\n" for n, name in enumerate(["KeyError", "OSError", "KeyError"])))  # fmt: skip  # noqa: E501
        groups = call("summarize_errors", path="app.log")["groups"]
        assert [(group["template"], group["count"]) for group in groups] == [
            ("job <num> failed | KeyError: <num>", 2),
            ("job <num> failed | OSError: <num>", 1),
        ]

    def test_ever_new_templates_are_counted_but_not_kept(self, log: Path, call: Call) -> None:
        names = ("".join(chr(97 + int(digit)) for digit in str(number)) for number in range(MAX_TEMPLATES + 100))
        log.write_text("".join(at(0, "ERROR", name) for name in names))
        found = call("summarize_errors", path="app.log")
        assert (found["total"], found["n_groups"], found["truncated"]) == (MAX_TEMPLATES + 100, MAX_TEMPLATES, True)
        assert found["read"]["notes"] == ["100 errors of ever new templates are in total but in no group"]

    def test_warnings_count_when_asked_for_and_more_groups_than_shown_are_flagged(
        self, log: Path, call: Call, refusal: Callable[..., str]
    ) -> None:
        log.write_text(at(0, "WARN", "a") + at(1, "ERROR", "b"))
        assert call("summarize_errors", path="app.log")["total"] == 1
        found = call("summarize_errors", path="app.log", min_level="WARNING", top=1)
        assert (found["total"], len(found["groups"]), found["n_groups"], found["truncated"]) == (2, 1, 2, True)
        assert "CRITICAL" in refusal("summarize_errors", path="app.log", min_level="BAD")


class TestLevels:
    def test_records_are_counted_most_severe_first_and_what_was_read_is_accounted_for(
        self, log: Path, call: Call
    ) -> None:
        log.write_text(
            at(4, "INFO", "a") + at(1, "ERROR", "b") + at(2, "warn:", "c") + at(3, "", "d") + at(0, "INFO", "e")
        )
        found = call("count_by_level", path="app.log")
        assert list(found["counts"].items()) == [("ERROR", 1), ("WARNING", 1), ("INFO", 2), ("UNKNOWN", 1)]
        assert found["read"] == {
            "files": ["app.log"],
            "formats": ["plain"],
            "records": 5,
            "first_time": "2025-01-02T10:00:00Z",
            "last_time": "2025-01-02T10:04:00Z",
            "truncated": False,
        }


class TestHistogram:
    def test_buckets_hold_levels_and_empty_ones_are_left_out_and_untimed_records_aside(
        self, log: Path, call: Call
    ) -> None:
        log.write_text("ERROR x\nERROR y\n" + at(0, "INFO", "a") + at(4, "ERROR", "b") + at(11, "INFO", "c") + "\n")
        found = call("log_histogram", path="app.log", bucket="5m")
        assert (found["bucket_s"], found["untimed"]) == (300, 2)
        assert found["buckets"] == [
            {"start": "2025-01-02T10:00:00Z", "total": 2, "levels": {"ERROR": 1, "INFO": 1}},
            {"start": "2025-01-02T10:10:00Z", "total": 1, "levels": {"INFO": 1}},
        ]

    @every(
        ("arguments", "bucket_s", "notes"),
        [
            ({}, 600, None),
            ({"bucket": "1s"}, 300, "widened from 1 s"),
            pytest.param({"bucket": "7s"}, 7 * 16, "widened from 7 s", id="an odd length widens by doubling"),
        ],
    )
    def test_the_bucket_fits_the_span_by_itself_or_widens_and_says_so(
        self, log: Path, call: Call, arguments: dict[str, str], bucket_s: int, notes: str | None
    ) -> None:
        log.write_text("".join(at(minute, "INFO", "a") for minute in range(600)))
        found = call("log_histogram", path="app.log", **arguments)
        assert (found["bucket_s"], sum(bucket["total"] for bucket in found["buckets"])) == (bucket_s, 600)
        assert notes is None or notes in found["read"]["notes"][0]

    def test_times_all_over_the_calendar_stay_bounded(self, log: Path, call: Call) -> None:
        log.write_text("".join(f"{1970 + n % 220}-01-{1 + n % 28:02}T{n % 24:02}:00:00Z INFO a\n" for n in range(3000)))
        found = call("log_histogram", path="app.log")
        assert len(found["buckets"]) <= 60
        assert sum(bucket["total"] for bucket in found["buckets"]) == 3000

    @every("bucket", ["0s", "5", "m", "-5m", "1y", "1.5h"])
    def test_a_length_that_is_none_is_refused(self, log: Path, refusal: Callable[..., str], bucket: str) -> None:
        log.write_text("x\n")
        assert refusal("log_histogram", path="app.log", bucket=bucket).startswith("not a length of time")


ACCESS = '10.0.0.1 - - [02/Jan/2025:10:00:00 +0000] "GET /users/{} HTTP/1.1" 200 12 "-" "curl/8.0"'


class TestDurations:
    @every(
        ("format", "line", "ms"),
        [
            ("plain", "2025-01-02T10:00:00Z INFO GET /a took 12ms", 12),
            ("plain", "2025-01-02T10:00:00Z INFO done in 1.5 s", 1500),
            ("plain", "2025-01-02T10:00:00Z INFO done in 2 tries", None),
            ("plain", "2025-01-02T10:00:00Z INFO Completed 200 OK in 45ms (Views: 3.1ms)", 45),
            ("plain", "2025-01-02T10:00:00Z INFO duration_s=0.25 x=1", 250),
            ("plain", "2025-01-02T10:00:00Z INFO latency=80", 80),
            ("plain", "2025-01-02T10:00:00Z INFO GET /a 200 (35.2 ms)", 35.2),
            ("plain", "2025-01-02T10:00:00Z INFO nothing 12", None),
            ("json", '{"msg":"x","duration_ms":12}', 12),
            ("json", '{"msg":"x","duration":"1.5s"}', 1500),
            ("json", '{"msg":"x","duration":"1m2.5s"}', 62_500),
            ("json", '{"msg":"x","latency":"350µs"}', 0.35),
            ("json", '{"msg":"x","request_time":"0.250"}', 250),
            ("json", '{"msg":"x","responseTime":7}', 7),
            ("json", '{"msg":"x","event":{"duration":5000000}}', 5),
            ("json", '{"msg":"took 9ms"}', 9),
            ("json", '{"msg":"x","duration":true}', None),
            ("json", '{"msg":"x","duration":-1}', None),
            ("json", '{"msg":"x","duration":NaN}', None),
            ("json", '{"msg":"x","duration":1e999}', None),
            ("logfmt", "level=info msg=x duration=12.5ms", 12.5),
            ("access", ACCESS, None),
            ("access", ACCESS + " 0.120", 120),
            ("access", ACCESS + ' "0.120"', 120),
            ("access", ACCESS + " rt=3 uct=0.1", 3000),
            ("access", ACCESS + " 120000", 120),
            ("access", ACCESS + ' "10.1.2.3"', None),
        ],
    )
    def test_a_duration_is_read_with_its_unit(self, format: Format, line: str, ms: float | None) -> None:
        record = PARSERS[format](line, 1, 0.0)
        assert record is not None
        timing = timing_of(record, None)
        assert (timing and timing.ms) == (ms and pytest.approx(ms))

    @given(st.lists(st.floats(0.01, 1e7), min_size=1, max_size=200), st.sampled_from([50, 90, 95, 99]))
    def test_a_percentile_is_within_one_percent(self, durations: list[float], percent: int) -> None:
        spread = Spread()
        for ms in durations:
            spread.add(ms)
        exact = sorted(durations)[max(0, -(-len(durations) * percent // 100) - 1)]
        assert spread.percentile(percent) == pytest.approx(
            exact, rel=0.011, abs=0.0012
        )  # it is rounded to microseconds


class TestSlowRequests:
    @pytest.fixture(autouse=True)
    def _access(self, log: Path) -> None:
        log.write_text("".join(ACCESS.format(n) + f" {n / 1000}\n" for n in range(100)) + ACCESS.format("x") + "\n")

    def test_the_slowest_come_first_and_all_above_the_threshold_are_counted(self, call: Call) -> None:
        found = call("find_slow_requests", path="app.log", threshold_ms=90, top=3)
        assert [(slow["duration_ms"], slow["request"]) for slow in found["slowest"]] == [
            (99.0, "GET /users/99"), (98.0, "GET /users/98"), (97.0, "GET /users/97"),
        ]  # fmt: skip
        assert (found["n_slow"], found["truncated"]) == (10, True)

    def test_percentiles_are_of_all_timed_requests_and_of_routes_without_their_ids(self, call: Call) -> None:
        found = call("find_slow_requests", path="app.log", threshold_ms=90)
        latency = found["latency"]
        assert (latency["count"], latency["max_ms"], latency["mean_ms"]) == (100, 99.0, 49.5)
        assert latency["p50_ms"] == pytest.approx(49, rel=0.011)
        assert latency["p95_ms"] == pytest.approx(94, rel=0.011)
        assert [(route["route"], route["latency"]["count"]) for route in found["routes"]] == [("GET /users/<num>", 100)]
        assert call("find_slow_requests", path="app.log", unit="ms")["latency"]["max_ms"] == 0.099

    def test_a_log_without_durations_says_so(self, log: Path, call: Call) -> None:
        log.write_text(at(0, "INFO", "hi"))
        found = call("find_slow_requests", path="app.log")
        assert (found["latency"], found["read"]["notes"]) == (None, ["no record bears a duration"])


class TestComparison:
    WINDOWS = {  # noqa: RUF012
        "before_since": "2025-01-02T10:00:00Z",
        "before_until": "2025-01-02T11:00:00Z",
        "after_since": "2025-01-02T11:00:00Z",
        "after_until": "2025-01-02T11:30:00Z",
    }

    @pytest.fixture(autouse=True)
    def _two_hours(self, log: Path) -> None:
        before = [at(n, "ERROR", f"steady {n}") for n in range(60)] + [at(n, "ERROR", f"gone {n}") for n in range(5)]
        before += [at(n, "ERROR", f"rising {n}") for n in range(2)]
        after = [at(60 + n, "ERROR", f"steady {n}") for n in range(30)] + [
            at(60, "ERROR", "brand new"),
            at(60, "INFO", "hi"),
        ]
        after += [at(60 + n, "ERROR", f"rising {n}") for n in range(10)]
        log.write_text("".join(before + after) + at(95, "ERROR", "too late"))

    def test_new_gone_and_changed_are_told_with_levels_and_rates_per_minute_of_each_window(self, call: Call) -> None:
        found = call("compare_windows", path="app.log", **self.WINDOWS)
        shown = {kind: [change["template"] for change in found[kind]] for kind in ("new", "gone", "changed")}
        assert shown == {"new": ["brand new"], "gone": ["gone <num>"], "changed": ["rising <num>"]}
        (change,) = found["changed"]
        rates = (change["before"], change["after"], change["before_per_min"], change["after_per_min"])
        assert rates == (2, 10, 0.0333, 0.3333)
        assert (found["levels_before"], found["levels_after"]) == ({"ERROR": 67}, {"ERROR": 41, "INFO": 1})

    def test_windows_may_overlap_but_not_end_before_they_begin(self, call: Call, refusal: Callable[..., str]) -> None:
        windows = self.WINDOWS | {"after_since": self.WINDOWS["before_since"]}
        assert call("compare_windows", path="app.log", **windows)["gone"] == []
        windows = self.WINDOWS | {"before_until": "2025-01-02T09:00:00Z"}
        assert refusal("compare_windows", path="app.log", **windows).startswith("not a window")

    def test_a_higher_ratio_shows_fewer_changes(self, call: Call) -> None:
        assert call("compare_windows", path="app.log", **self.WINDOWS, min_ratio=20)["changed"] == []
