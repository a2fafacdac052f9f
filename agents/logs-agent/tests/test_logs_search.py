"""`search_logs`: literal or by regular expression, bounded."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client

from logs_agent.matching import matcher
from logs_agent.scan import Scan
from logs_agent.searching import MAX_CHARS, MAX_HIT_CHARS
from logs_agent.server import mcp
from tests.every import every
from tests.server.servers import running

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def log(logs: Path) -> Path:
    path = logs / "app.log"
    lines = [
        f"2025-01-02T10:00:{second:02}Z {'ERROR' if second % 10 == 0 else 'INFO'} item {second}" for second in range(60)
    ]
    path.write_text("\n".join([*lines, "2025-01-02T10:01:00Z INFO Total (a+b)* = [7] ÄÖ"]) + "\n")
    return path


def messages(found: dict[str, Any]) -> list[str]:
    return [hit["text"].split(" ", 2)[2] for hit in found["hits"]]


class TestMatching:
    @every(
        ("query", "n_caseless", "n_exact"),
        [("(a+b)* = [7]", 1, 1), ("(A+B)*", 1, 0), ("äö", 1, 0), ("total", 1, 0), ("Total", 1, 1)],
    )
    def test_a_query_is_literal_and_caseless_unless_case_is_to_matter(
        self, log: Path, call: Call, query: str, n_caseless: int, n_exact: int
    ) -> None:
        assert call("search_logs", path="app.log", query=query)["matches"] == n_caseless
        assert call("search_logs", path="app.log", query=query, ignore_case=False)["matches"] == n_exact

    def test_a_regular_expression_is_one_only_when_asked_for(self, log: Path, call: Call) -> None:
        query = r"item [45]\d$"
        assert call("search_logs", path="app.log", query=query)["matches"] == 0
        assert call("search_logs", path="app.log", query=query, regex=True)["matches"] == 20

    def test_lines_of_a_stack_trace_are_searched(self, log: Path, call: Call) -> None:
        log.write_text("2025-01-02T10:00:00Z ERROR x\nTraceback (most recent call last):\nKeyError: 'lost'\n")
        (hit,) = call("search_logs", path="app.log", query="lost")["hits"]
        assert (hit["line"], hit["level"], hit["text"].count("\n")) == (1, "ERROR", 2)

    def test_level_and_window_narrow_it(self, log: Path, call: Call) -> None:
        found = call("search_logs", path="app.log", query="item", min_level="ERROR", since="2025-01-02T10:00:30Z")
        assert messages(found) == ["item 30", "item 40", "item 50"]


class TestHostileExpressions:
    @every("query", [r"(a+)+$", r"(a|aa)+$", r"(.*)*x", r"(a*)*b", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
    def test_nothing_backtracks_for_ever(self, log: Path, call: Call, query: str) -> None:
        log.write_text(("a" * 60_000 + "!\n") * 20)
        start = time.process_time()
        call("search_logs", path="app.log", query=query, regex=True, ignore_case=False)
        assert time.process_time() - start < 5

    @every("query", ["(.*){1000}", "(a?){1000}a{1000}b", "(?:a?){1000}(?:a?){1000}(a?){1000}b"])
    def test_one_match_is_short_however_large_the_expression(self, query: str) -> None:
        wanted = matcher(query, regex=True, ignore_case=True)
        start = time.thread_time()
        wanted.find("a" * 60_000 + "!")
        assert time.thread_time() - start < 5

    def test_records_searched_in_part_are_told(self, log: Path, call: Call) -> None:
        log.write_text("a" * 60_000 + "!\nshort\n")
        found = call("search_logs", path="app.log", query="(.*){1000}", regex=True)
        assert found["read"]["truncated"]
        assert "of 1 long records only the beginning was searched" in found["read"]["notes"][0]

    def test_an_expression_that_repeats_too_much_is_refused(self, log: Path, refusal: Callable[..., str]) -> None:
        told = refusal("search_logs", path="app.log", query=r"\pL{100}", regex=True)
        assert told.startswith("too large a regular expression: '\\\\pL{100}' comes to ")
        assert told.endswith("10000 are allowed; repeat less, such as {0,100}, or use * or + without a count")

    @pytest.mark.outside
    def test_work_stops_when_the_caller_leaves(self, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Over HTTP, with minutes of work to do."""
        with gzip.open(logs / "app.log.gz", "wb", compresslevel=1) as packed:
            packed.write(("a" * 60_000 + "!\n").encode() * 200)
        monkeypatch.setenv("LOGS_AGENT_MAX_SCAN_S", "60")
        began, ended, kinds = threading.Event(), threading.Event(), []
        enter, leave = Scan.__enter__, Scan.__exit__

        def entered(scan: Scan) -> Scan:
            began.set()
            return enter(scan)

        def left(scan: Scan, kind: Any, *more: Any) -> None:
            leave(scan, kind, *more)
            kinds.append(kind)
            ended.set()

        monkeypatch.setattr(Scan, "__enter__", entered)
        monkeypatch.setattr(Scan, "__exit__", left)

        async def leave_early(base: str) -> None:
            arguments = {"path": "app.log.gz", "query": "(a?){1000}a{1000}b", "regex": True}
            async with Client(f"{base}/mcp") as client, anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "search_logs", arguments)
                await anyio.to_thread.run_sync(began.wait, 60)
                tasks.cancel_scope.cancel()

        with running(mcp) as base:
            anyio.run(leave_early, base)
            assert ended.wait(100)
        assert kinds == [asyncio.CancelledError]

    @every("query", ["(", "[", r"(?=a)", r"(a)\1", "((a{100}){100}){100}", "*", "(?P<n", "\\"])
    def test_an_expression_it_cannot_run_is_refused_with_the_reason(
        self, log: Path, refusal: Callable[..., str], query: str
    ) -> None:
        assert refusal("search_logs", path="app.log", query=query, regex=True).startswith("not a regular expression")

    @every("query", [r"\C", r"\pN", r"(?i)ÄÖ", r"\x{c4}", r"[^\x00-\x7f]", "", r"\z"])
    def test_odd_but_valid_expressions_do_no_harm(self, log: Path, call: Call, query: str) -> None:
        assert call("search_logs", path="app.log", query=query or "()", regex=True)["matches"] >= 1


class TestBounds:
    def test_the_first_or_the_newest_hits_are_shown_and_all_are_counted(self, log: Path, call: Call) -> None:
        found = call("search_logs", path="app.log", query="item", max_hits=2)
        assert (messages(found), found["matches"], found["truncated"]) == (["item 0", "item 1"], 60, True)
        found = call("search_logs", path="app.log", query="item", max_hits=2, newest=True)
        assert (messages(found), found["matches"], found["truncated"]) == (["item 58", "item 59"], 60, True)
        assert call("search_logs", path="app.log", query="item", max_hits=60)["truncated"] is False

    def test_a_long_record_is_cut_around_its_match(self, log: Path, call: Call) -> None:
        log.write_text("2025-01-02T10:00:00Z INFO " + "x" * 20_000 + "needle" + "y" * 20_000 + "\n")
        (hit,) = call("search_logs", path="app.log", query="needle")["hits"]
        assert "needle" in hit["text"]
        assert len(hit["text"]) <= MAX_HIT_CHARS + 2

    def test_the_whole_result_is_bounded(self, log: Path, call: Call) -> None:
        log.write_text(("2025-01-02T10:00:00Z INFO " + "x" * 5_000 + "\n") * 500)
        found = call("search_logs", path="app.log", query="x", max_hits=200, context=10)
        assert sum(len(str(hit)) for hit in found["hits"]) < 1.2 * MAX_CHARS
        assert found["truncated"]


class TestContext:
    @every(
        ("arguments", "around"),
        [
            ({"query": "item 30", "context": 2}, [(["28", "29"], ["31", "32"])]),
            pytest.param({"query": "Total", "context": 3}, [(["57", "58", "59"], [])], id="it ends with the log"),
            pytest.param(
                {"query": r"item 3[01]$", "regex": True, "context": 1},
                [(["29"], ["31"]), (["30"], ["32"])],
                id="neighbours share it",
            ),
            pytest.param(
                {"query": "item", "max_hits": 1, "newest": True, "context": 1}, [(["58"], ["ÄÖ"])], id="of the newest"
            ),
        ],
    )
    def test_records_around_a_hit_are_shown(
        self, log: Path, call: Call, arguments: dict[str, Any], around: list[tuple[list[str], list[str]]]
    ) -> None:
        hits = call("search_logs", path="app.log", **arguments)["hits"]
        shown = [[[line[-2:] for line in hit.get(side, [])] for side in ("before", "after")] for hit in hits]
        assert shown == [[before, after] for before, after in around]
