"""Lines of every format become records with the right time, level and message."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logs_agent.durations import timing_of
from logs_agent.formats import PARSERS, Format, detect, parse_access, parse_json, parse_logfmt, parse_plain
from logs_agent.records import Record, continues
from logs_agent.templates import template_of_record
from logs_agent.timestamps import LATEST, parse_iso, shown
from tests.every import every

TEN, TEN_AND_A_HALF = "2025-01-02T10:00:00Z", "2025-01-02T10:00:00.500Z"
WRITTEN = datetime(2025, 3, 1, 12, 0, tzinfo=UTC).timestamp()
"""When the file was last changed."""


def seen(line: str, parser: Any = parse_plain) -> tuple[str | None, str | None, str] | None:
    record = parser(line, 1, WRITTEN)
    return record and (shown(record.time), record.level, record.message)


class TestPlain:
    @every(
        ("line", "time", "level", "message"),
        [
            ("2025-01-02T10:00:00Z ERROR disk full", TEN, "ERROR", "disk full"),
            (
                "2025-01-02 10:00:00,123 - app.db - WARNING - slow",
                "2025-01-02T10:00:00.123Z",
                "WARNING",
                "slow",
            ),
            ("2025-01-02T10:00:00.123456789+02:00 INFO hi", "2025-01-02T08:00:00.123Z", "INFO", "hi"),
            ("2025-01-02 10:00:00 +0200 INFO hi", "2025-01-02T08:00:00Z", "INFO", "hi"),
            ("2025-01-02 10:00:00 UTC [12] FATAL: no space", TEN, "CRITICAL", "no space"),
            ("[2025-01-02 10:00:00] [WARN] low", TEN, "WARNING", "low"),
            ("[2025-01-02T10:00:00Z] local.ERROR: boom", TEN, "ERROR", "boom"),
            ("2025/01/02 10:00:00 [error] 12#0: open failed", TEN, "ERROR", "12#0: open failed"),
            ("[Thu Jan 02 10:00:00.5 2025] [core:error] [pid 1] no", TEN_AND_A_HALF, "ERROR", "[pid 1] no"),
            ("Feb  3 10:00:00 host sshd[1]: error: kex", "2025-02-03T10:00:00Z", "ERROR", "kex"),
            ("Dec 31 23:59:59 host cron[1]: ran", "2024-12-31T23:59:59Z", None, "host cron[1]: ran"),
            ("Feb 29 10:00:00 host x: y", "2024-02-29T10:00:00Z", None, "host x: y"),
            ("<11>Feb  3 10:00:00 host app: oops", "2025-02-03T10:00:00Z", "ERROR", "host app: oops"),
            ("<34>1 2025-01-02T10:00:00Z host su - - - failed", TEN, "CRITICAL", "host su - - - failed"),
            ("INFO 2025-01-02 10:00:00,000 views 12 done", TEN, "INFO", "views 12 done"),
            ("1735812000.250 ERROR x", "2025-01-02T10:00:00.250Z", "ERROR", "x"),
            ("E0203 10:00:00.123456   12 main.go:7] boom", "2025-02-03T10:00:00Z", "ERROR", "boom"),
            (
                "2025-01-02 10:00:00.5  WARN 7 --- [x] a.B : hm",
                TEN_AND_A_HALF,
                "WARNING",
                "7 --- [x] a.B : hm",
            ),
            ("2025-01-02T10:00:00Z level=warn something", TEN, "WARNING", "something"),
            pytest.param("1970-01-02 00:00:00 INFO x", "1970-01-02T00:00:00Z", "INFO", "x", id="no zone is UTC"),
            ("ERROR:root:it broke", None, "ERROR", "root:it broke"),
            ("INFO:     started", None, "INFO", "started"),
            ("[CRITICAL] melt down", None, "CRITICAL", "melt down"),
        ],
    )
    def test_a_head_gives_time_level_and_message(
        self, line: str, time: str | None, level: str | None, message: str
    ) -> None:
        assert seen(line) == (time, level, message)

    @every(
        "line",
        [
            "",
            "   at foo",
            "hello",
            "2025-13-45 99:00:00 x",
            "Foo 12 10:00:00 x",
            "0000-00-00 00:00:00 x",
            "Errors occurred",
        ],
    )
    def test_a_line_without_a_true_head_begins_no_record(self, line: str) -> None:
        assert seen(line) is None

    def test_the_first_level_word_wins_and_one_deep_in_a_sentence_does_not_cut_the_message(self) -> None:
        assert (seen("2025-01-02T10:00:00Z INFO no ERROR found") or ())[1] == "INFO"
        message = "the first request of the day ended in ERROR 5"
        assert seen(f"2025-01-02T10:00:00Z {message}") == ("2025-01-02T10:00:00Z", "ERROR", message)


class TestJson:
    @every(
        ("line", "time", "level", "message"),
        [
            ('{"time":"2025-01-02T10:00:00Z","level":"error","msg":"x"}', TEN, "ERROR", "x"),
            (
                '{"@timestamp":"2025-01-02T10:00:00Z","log":{"level":"warn"},"message":"x"}',
                TEN,
                "WARNING",
                "x",
            ),
            ('{"ts":1735812000.5,"level":"info","msg":"x"}', TEN_AND_A_HALF, "INFO", "x"),
            ('{"time":1735812000500,"level":50,"msg":"x"}', TEN_AND_A_HALF, "ERROR", "x"),
            (
                '{"ts":1735812000500000000,"severity":"CRITICAL","message":"x"}',
                TEN_AND_A_HALF,
                "CRITICAL",
                "x",
            ),
            ('{"timestamp":"1735812000","level":3,"short_message":"x"}', TEN, "ERROR", "x"),
            ('{"method":"GET","path":"/a","status":503}', None, "ERROR", "GET /a 503"),
            (
                '{"log":"ERROR it broke\\n","stream":"stderr","time":"2025-01-02T10:00:00Z"}',
                TEN,
                "ERROR",
                "it broke\n",
            ),
            ('{"time":true,"level":true,"msg":"x"}', None, None, "x"),
            ('{"time":1e400,"level":[1],"msg":"x"}', None, None, "x"),
            ('{"time":NaN,"level":null,"msg":"x"}', None, None, "x"),
        ],
    )
    def test_the_usual_keys_are_known(self, line: str, time: str | None, level: str | None, message: str) -> None:
        assert seen(line, parse_json) == (time, level, message)

    def test_a_lone_surrogate_or_deep_nesting_in_a_message_is_survived(self) -> None:
        assert (seen('{"msg":"a\\ud800b"}', parse_json) or ("", "", ""))[2].encode()
        line = '{"msg":' + "[" * 900 + "]" * 900 + ',"level":"error"}'
        assert (seen(line, parse_json) or ())[1] == "ERROR"

    @every("line", ["[" * 30_000, '{"a":' * 10_000, '{"a":' + "1" * 5_000 + "}", "{}x", "{", "7"])
    def test_broken_or_hostile_json_is_no_record(self, line: str) -> None:
        assert seen(line, parse_json) is None


class TestLogfmt:
    def test_pairs_are_read(self) -> None:
        line = 'time="2025-01-02T10:00:00Z" level=warning msg="say \\"hi\\"" duration=12ms'
        assert seen(line, parse_logfmt) == ("2025-01-02T10:00:00Z", "WARNING", 'say "hi"')


class TestAccess:
    COMMON = '10.0.0.1 - bob [02/Jan/2025:10:00:00 +0100] "GET /a?b=1 HTTP/1.1" 404 12'

    @every(
        "line",
        [
            COMMON,
            COMMON + ' "-" "Mozilla/5.0 (X11; \\"quoted\\")"',
            COMMON + ' "-" "curl" 0.012',
            COMMON.replace("10.0.0.1", "example.org:443 ::1"),
            COMMON.replace("bob", "bob the builder"),
        ],
    )
    def test_common_and_combined_lines_are_read(self, line: str) -> None:
        assert seen(line, parse_access) == ("2025-01-02T09:00:00Z", "WARNING", "GET /a 404")

    def test_a_garbage_request_is_kept(self) -> None:
        line = '10.0.0.1 - - [02/Jan/2025:10:00:00 +0000] "\\x16\\x03\\x01" 400 0'
        assert (seen(line, parse_access) or ())[1] == "WARNING"


class TestDetection:
    LINES: dict[Format, str] = {  # noqa: RUF012
        "json": '{"level":"info","msg":"x"}',
        "access": TestAccess.COMMON,
        "logfmt": "time=2025-01-02T10:00:00Z level=info msg=x",
        "plain": "2025-01-02 10:00:00 INFO x",
    }

    @every("name", LINES)
    def test_each_format_is_told_even_behind_a_banner(self, name: Format) -> None:
        assert detect([self.LINES[name]] * 3) == name
        assert detect(["starting", *[self.LINES[name]] * 3]) == name
        assert detect([]) == "plain"


KEYS = st.sampled_from(["time", "level", "msg", "status", "stack", "path", "method"])
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)


LONG = 65_536
UNIT = st.sampled_from(
    ["a", "a=", '"', '\\\\"', "a:1 ", " ", "1.", "x\\t", "[", "] ", "A_", "a.b$", "::1", "1-", "''", "0x", "@"]
)
HEADS = st.sampled_from(
    [
        "",
        "{",
        "time=",
        '1 - - [02/Jan/2025:10:00:00 +0000] "',
        "2025-01-02T10:00:00Z ",
        "<1>",
        "[",
        "Traceback (",
        "  at ",
    ]
)


class TestHostileLines:
    @settings(max_examples=50, deadline=None)
    @given(head=HEADS, units=st.lists(UNIT, min_size=1, max_size=3))
    def test_no_line_of_the_greatest_length_takes_long(self, head: str, units: list[str]) -> None:
        line = (head + "".join(units) * LONG)[:LONG]
        start = time.process_time()
        for parse in PARSERS.values():
            record = parse(line, 1, WRITTEN) or Record(1, line, line)
            template_of_record(record)
            timing_of(record, None)
            record.join(line)
            continues(line, record)
        assert time.process_time() - start < 2


class TestLaws:
    @given(line=st.text(max_size=300))
    def test_no_line_breaks_a_parser(self, line: str) -> None:
        line = line.encode("utf-8", "replace").decode()
        for parse in PARSERS.values():
            record = parse(line, 1, WRITTEN)
            assert record is None or record.time is None or 0 <= record.time < LATEST

    @settings(max_examples=50, deadline=None)
    @given(fields=st.dictionaries(KEYS, VALUES))
    def test_no_value_breaks_the_json_parser(self, fields: dict[str, Any]) -> None:
        record = parse_json(json.dumps(fields), 1, WRITTEN)
        assert record is not None
        record.message.encode()

    @given(moment=st.floats(0, LATEST - 1))
    def test_a_shown_time_reads_back_as_the_same(self, moment: float) -> None:
        assert parse_iso(shown(moment) or "") == pytest.approx(moment, abs=0.0011)
