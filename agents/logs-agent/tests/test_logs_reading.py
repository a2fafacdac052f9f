"""Any bytes are read, in constant memory and within the budget."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from logs_agent.counting import count_by_level
from logs_agent.reading import MAX_LINE_BYTES, Budget, Flaws, lines
from logs_agent.slowness import find_slow_requests
from logs_agent.summarizing import summarize_errors
from tests.every import every

Call = Callable[..., dict[str, Any]]
LINE = "2025-01-02T10:00:00Z INFO hello number {}\n"


def read(path: Path, budget: Budget | None = None) -> tuple[list[str], Flaws]:
    flaws = Flaws()
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(lines(fd, path.name, budget or Budget(1 << 30, float("inf"), 0), flaws)), flaws
    finally:
        os.close(fd)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "app.log"


class TestBytes:
    @every(
        ("data", "expected"),
        [
            (b"", []),
            (b"\n", [""]),
            (b"a\nb", ["a", "b"]),
            (b"a\r\nb\r\n", ["a", "b"]),
            (b"\xef\xbb\xbfa\n", ["a"]),
            (b"caf\xe9 \xff\xfe\n", ["caf\ufffd \ufffd\ufffd"]),
            (b"a\0b\0\n", ["ab"]),
            (b"\0" * 10 + b"a\n", ["a"]),
            (b"\x1b[31mERROR\x1b[0m x\n", ["ERROR x"]),
            (b"\xed\xa0\x80\n", ["\ufffd\ufffd\ufffd"]),
        ],
    )
    def test_lines_come_as_clean_text(self, log: Path, data: bytes, expected: list[str]) -> None:
        log.write_bytes(data)
        assert read(log)[0] == expected

    def test_a_line_of_megabytes_is_cut_and_counted_but_a_hole_of_nuls_is_nothing(self, log: Path) -> None:
        log.write_bytes(b"\0" * 3_000_000 + b"hello\n" + b"x" * 5_000_000 + b"\nnext\n")
        found, flaws = read(log)
        assert (found, flaws) == (["hello", "x" * MAX_LINE_BYTES, "next"], Flaws(clipped_lines=1))

    @every("length", [MAX_LINE_BYTES - 1, MAX_LINE_BYTES])
    @every("end", [b"\n", b"\r\n", b""])
    def test_a_line_of_just_the_limit_is_not_cut(self, log: Path, length: int, end: bytes) -> None:
        log.write_bytes(b"x" * length + end)
        found, flaws = read(log)
        assert ([len(line) for line in found], flaws.clipped_lines) == ([length], 0)

    @every("tool", ["tail_log", "count_by_level", "summarize_errors", "log_histogram", "find_slow_requests"])
    @every("data", [b"", b"\n\n\n", b"\0" * 100, bytes(range(256)) * 50, b"\x1f\x8b", b"\xff\xfe"])
    def test_every_reading_tool_survives_any_bytes(self, log: Path, call: Call, tool: str, data: bytes) -> None:
        log.write_bytes(data)
        assert call(tool, path="app.log")


WRONG_CHECKSUM = bytearray(gzip.compress(b"a\nb\n"))
WRONG_CHECKSUM[-6] ^= 0xFF


class TestGzip:
    DATA = "".join(LINE.format(number) for number in range(20_000)).encode()

    @every(
        ("data", "expected", "damaged"),
        [
            pytest.param(gzip.compress(b"a\n") + gzip.compress(b"b\n") + b"\0" * 512, ["a", "b"], False, id="two"),
            pytest.param(gzip.compress(b""), [], False, id="empty"),
            pytest.param(WRONG_CHECKSUM, ["a", "b"], True, id="wrong checksum"),
            pytest.param(gzip.compress(b"a\n") + b"garbage", ["a"], True, id="garbage behind"),
        ],
    )
    def test_all_members_are_read_as_one_and_damage_is_flagged(
        self, log: Path, data: bytes, expected: list[str], damaged: bool
    ) -> None:
        log.write_bytes(data)
        assert read(log) == (expected, Flaws(damaged_gzip=["app.log"] if damaged else []))

    @every("keep", [0.25, 0.5, 0.99])
    def test_a_cut_off_file_yields_all_that_can_be_unpacked(self, log: Path, keep: float) -> None:
        packed = gzip.compress(self.DATA)
        cut = packed[: int(len(packed) * keep)]
        log.write_bytes(cut)
        readable = zlib.decompressobj(31).decompress(cut).decode()
        found, flaws = read(log)
        assert ("\n".join(found), flaws.damaged_gzip) == (readable.rstrip("\n"), ["app.log"])

    def test_damage_is_said_in_a_tools_result(self, log: Path, call: Call) -> None:
        log.write_bytes(gzip.compress(self.DATA)[:-2000])
        account = call("count_by_level", path="app.log")["read"]
        assert (account["damaged_gzip"], account["truncated"]) == (["app.log"], True)


class TestBudget:
    def test_a_gzip_bomb_ends_at_the_size_limit(self, log: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = zlib.compressobj(9, wbits=31)
        block = bytes(1 << 20)
        log.write_bytes(b"".join(stream.compress(block) for _ in range(16)) + stream.flush())
        monkeypatch.setenv("LOGS_AGENT_MAX_SCAN_MIB", "8")
        account = call("count_by_level", path="app.log")["read"]
        assert account["truncated"]
        assert "size limit" in account["notes"][0]

    def test_a_bomb_never_fills_the_memory(self, log: Path) -> None:
        stream = zlib.compressobj(9, wbits=31)
        block = b"x" * (1 << 20)
        log.write_bytes(b"".join(stream.compress(block) for _ in range(64)) + stream.flush())
        tracemalloc.start()
        try:
            found, flaws = read(log)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (len(found), flaws.clipped_lines) == (1, 1)
        assert peak < 4_000_000

    def test_the_time_limit_ends_reading(self, log: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        log.write_text("".join(LINE.format(number) for number in range(1000)))
        monkeypatch.setenv("LOGS_AGENT_MAX_SCAN_S", "0.0000001")
        account = call("count_by_level", path="app.log")["read"]
        assert (account["records"], account["truncated"]) == (0, True)

    @every("value", ["-1", "many", "nan", "0", "inf"])
    def test_a_malformed_setting_is_refused_by_name(
        self, log: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        log.write_text("x\n")
        monkeypatch.setenv("LOGS_AGENT_MAX_SCAN_MIB", value)
        assert "LOGS_AGENT_MAX_SCAN_MIB" in refusal("count_by_level", path="app.log")

    def test_a_log_growing_while_read_is_read_up_to_where_it_was(self, log: Path) -> None:
        log.write_text("one\ntwo\n")
        fd = os.open(log, os.O_RDONLY)
        source = lines(fd, "app.log", Budget(1 << 30, float("inf"), 0), Flaws())
        first = next(source)
        with log.open("a") as more:
            more.write("three\n" * 100_000)
        assert [first, *source] == ["one", "two"]
        os.close(fd)


N_RECORDS = 8_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty megabytes, every message another one, every fifth an error with a stack trace."""
    path = tmp_path_factory.mktemp("large") / "app.log"
    padding = "x" * 4_000
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad\n'

    def text() -> Iterator[str]:
        for number in range(N_RECORDS):
            level = "ERROR" if number % 5 == 0 else "INFO"
            name = "".join(chr(97 + int(digit)) for digit in str(number))
            clock = f"10:{number // 200:02}:00"
            yield f"2025-01-02T{clock}Z {level} {name} took {number % 997} ms {padding}\n"
            if level == "ERROR":
                yield trace

    with path.open("w") as file:
        file.writelines(text())
    return path


@pytest.mark.outside
class TestMemory:
    @every("tool", [count_by_level, summarize_errors, find_slow_requests])
    def test_a_large_file_is_analysed_in_a_few_megabytes(
        self, large: Path, tool: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LOGS_AGENT_ROOTS", str(large.parent))
        assert large.stat().st_size > 30_000_000
        tracemalloc.start()
        try:
            result = tool(path="app.log")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert result["read"]["records"] == N_RECORDS
        assert peak < 16_000_000

    def test_reading_stops_when_the_caller_does(self, large: Path) -> None:
        fd = os.open(large, os.O_RDONLY)
        budget = Budget(1 << 30, float("inf"), 0)
        assert len(list(islice(lines(fd, "app.log", budget, Flaws()), 3))) == 3
        os.close(fd)
        assert (1 << 30) - budget.bytes_left < 1_000_000
