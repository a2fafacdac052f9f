"""What a log tells its operator, from real files."""

from __future__ import annotations

import tomllib

import pytest

from agent_utilities.usage.model import DAY_MS, Listed, Read
from agent_utilities.usage.report import (
    CallRow,
    EmptySearch,
    ResultRow,
    UncalledTool,
    UsageReport,
    merged,
    read_report,
    read_results,
)
from tests.every import every
from tests.usage.written_logs import NOW_MS, call, log_of, search

TODAY = NOW_MS // DAY_MS


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hub.db"


def listed(tool: str, n_lists: int, n_tokens: int, days_ago: int = 0, **more) -> Listed:
    return Listed(NOW_MS - days_ago * DAY_MS, "hub", tool, n_lists=n_lists, n_tokens=n_tokens, **more)


class TestCalls:
    def test_are_told_by_tool_and_server_with_errors_and_percentiles(self, path):
        events = [call("a", ms=n, ok=n > 3) for n in range(1, 101)] + [call("b", ms=7.5, upstream="git")]
        report = read_report(log_of(path, events), NOW_MS)
        assert report.tools == (CallRow("hub", "", "a", 100, 3, 50, 95), CallRow("hub", "git", "b", 1, 0, 7.5, 7.5))
        assert report.servers == (CallRow("hub", "", "", 100, 3, 50, 95), CallRow("hub", "git", "", 1, 0, 7.5, 7.5))

    def test_are_counted_by_day(self, path):
        report = read_report(log_of(path, [call("a"), call("b"), call("a", 48)]), NOW_MS)
        assert report.calls_by_day == {TODAY - 2: 1, TODAY: 2}

    def test_are_of_the_days_and_the_server_that_are_meant(self, path):
        log_of(path, [call("a"), call("b", 24), call("c", server="other")])
        assert [row.tool for row in read_report(path, NOW_MS, server="hub", days=1).tools] == ["a"]


class TestUncalled:
    def test_are_what_was_listed_and_never_called_with_what_it_cost(self, path):
        log_of(
            path, [call("a"), listed("a", 10, 50), listed("b", 10, 50), listed("b", 5, 60, 1), listed("c", 1, 1_000)]
        )
        report = read_report(path, NOW_MS)
        assert report.uncalled == (UncalledTool("hub", "", "c", 1, 1_000), UncalledTool("hub", "", "b", 15, 800))
        assert report.n_listed_tokens == 2_300

    def test_count_what_was_called_before_the_days_that_are_meant(self, path):
        log_of(path, [call("a", 72), listed("a", 1, 50)])
        assert [row.tool for row in read_report(path, NOW_MS, days=2).uncalled] == ["a"]
        assert read_report(path, NOW_MS, days=4).uncalled == ()


def answered(tool: str, n_tokens: int, n_given: int, **more):
    return call(tool, result_tokens=n_tokens, given_tokens=n_given, **more)


def read(projection: str, n_tokens: int = 1_000, n_selected: int = 60, tool: str = "a", days_ago: int = 0) -> Read:
    return Read(NOW_MS - days_ago * DAY_MS, "hub", tool, projection, n_tokens, n_selected)


class TestResults:
    def test_are_told_by_tool_with_their_share_of_all_that_is_paid(self, path):
        log_of(
            path, [answered("a", 900, 80), answered("a", 100, 20), answered("b", 300, 300, upstream="git"), call("c")]
        )
        log_of(path, [listed("a", 10, 40), listed("c", 10, 20)])
        assert read_report(path, NOW_MS).results == (
            ResultRow("hub", "git", "b", 1, 300, 300, share=0.3),
            ResultRow("hub", "", "a", 2, 1_000, 100, share=0.1),
        )

    def test_that_callers_read_on_in_have_the_projection_that_they_selected_most(self, path):
        reads = [*[read("[].name")] * 3, read("[].name", 7_000, 260), *[read("[].id")] * 3, *[read("", 9_000, 0)] * 9]
        (row,) = read_report(log_of(path, [answered("a", 900, 80), *reads]), NOW_MS).results
        assert (row.projection, row.n_reads, row.saved) == ("[].name", 4, pytest.approx(0.956))

    @every(
        "reads",
        [
            [read("[].name")] * 2,
            [read("[].name"), read("[].id"), read("[].at")],
            [read("[].name", 1_000, 1_000)] * 3,
            [read("", 1_000, 0)] * 3,
            [read("[].name", tool="b")] * 3,
            [read("[].name", days_ago=31)] * 3,
        ],
        ids=["two", "three that differ", "the whole", "ranges", "another tool's", "long ago"],
    )
    def test_have_no_projection_that_is_not_derived_from_reads(self, tmp_path, reads):
        path = log_of(tmp_path / "hub.db", [answered("a", 900, 80), *reads])
        (row,) = read_report(path, NOW_MS).results
        assert (row.projection, row.setting) == ("", "")

    @every("tool", ["list_issues", "list.issues", 'a "quoted" \\ name', "zähle_😀"])
    def test_have_a_setting_that_a_file_may_hold(self, tool):
        projection = '"@graph"[].{name: name}'
        row = ResultRow("hub", "", tool, 1, 900, 80, projection, 3, 0.9)
        assert tomllib.loads(row.setting) == {"results": {tool: {"select": projection}}}

    def test_of_a_name_that_no_line_can_hold_have_no_setting(self):
        assert ResultRow("hub", "", "a\x7fb", 1, 900, 80, "[].name", 3, 0.9).setting == ""

    def test_are_read_alone_as_in_the_whole_report(self, path):
        log_of(path, [answered("a", 900, 80), *[read("[].name")] * 3, listed("a", 10, 40)])
        whole, alone = read_report(path, NOW_MS), read_results(path, NOW_MS, server="hub", days=30, subject=None)
        assert alone == UsageReport({}, results=whole.results, n_listed_tokens=400)

    def test_of_several_logs_are_shares_of_all_of_them(self, path, tmp_path):
        other = log_of(tmp_path / "other.db", [answered("b", 300, 300, server="other")])
        log_of(path, [answered("a", 100, 100)])
        report = merged([read_report(each, NOW_MS) for each in (path, other)])
        assert [(row.tool, row.share) for row in report.results] == [("b", 0.75), ("a", 0.25)]


class TestSearches:
    def test_that_found_nothing_are_told_with_their_words_where_kept(self, path):
        log_of(
            path, [search(0, request="fax it"), search(0, request="fax it"), search(0), search(3, request="mail it")]
        )
        report = read_report(path, NOW_MS)
        assert (report.n_searches, report.n_empty_searches) == (4, 3)
        assert report.empty_searches == (EmptySearch("hub", "fax it", 2),)


class TestSeveralLogs:
    def test_are_one_report(self, path, tmp_path):
        other = log_of(tmp_path / "other.db", [call("b", server="other"), call("b", server="other"), search(0)])
        log_of(path, [call("a"), listed("x", 1, 5)])
        report = merged([read_report(each, NOW_MS) for each in (path, other)])
        assert [row.tool for row in report.tools] == ["b", "a"]
        assert report.calls_by_day == {TODAY: 3}
        assert (report.n_searches, report.n_empty_searches, report.n_listed_tokens) == (1, 1, 5)

    def test_of_none_is_empty(self):
        assert merged([]) == UsageReport({})


def test_no_log_tells_nothing(path):
    assert read_report(path, NOW_MS) == UsageReport({})
