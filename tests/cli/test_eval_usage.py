"""`agent-utilities eval` with what usage teaches: sessions, a server's log, parts left out, and what each part adds."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.cli.app import main
from agent_utilities.cli.evaluation.data import Session
from agent_utilities.cli.evaluation.run import taught_by, taught_without
from agent_utilities.usage import database

WORDS = ("apple", "pear", "plum", "fig", "kiwi", "lime", "nut", "oat", "pea", "rye", "yam", "leek")
TOOLS = [{"id": f"s/{word}", "name": f"tool_{word}", "description": f"Cook {word} soup"} for word in WORDS]
SESSIONS = [
    {"id": "1", "query": "cook apple", "calls": ["s/apple", "s/yam"]},
    {"id": "2", "query": "cook apple", "calls": ["s/apple", "s/yam"]},
    {"id": "3", "query": "cook apple", "calls": ["s/apple", "s/yam"]},
    {"id": "4", "calls": ["s/apple", "s/yam"]},
]
QUERIES = [{"id": "1", "query": "cook some soup", "relevant": ["s/yam"]}]

Run = Callable[..., tuple[int, str, str]]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def tools(tmp_path: Path) -> list[str]:
    return ["--tools", str(lines(tmp_path / "tools.jsonl", TOOLS)), "--ranker", "lexical"]


@pytest.fixture
def sessions(tmp_path: Path) -> list[str]:
    return ["--sessions", str(lines(tmp_path / "sessions.jsonl", SESSIONS))]


@pytest.fixture
def queries(tmp_path: Path) -> list[str]:
    return ["--queries", str(lines(tmp_path / "queries.jsonl", QUERIES))]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A server's log: `tool_yam` answered two requests, the last of them three times."""
    path = tmp_path / "usage.sqlite"
    with sqlite3.connect(path) as connection:
        for statement in database.TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {database.VERSION}")
        for n, request in enumerate(["frobnicate it", "zap the gizmo", "zap the gizmo"]):
            values = (1_700_000_000_000 + n, "kitchen", "tool_yam", f"session {n}", request)
            connection.execute(
                "INSERT INTO calls (at_ms, server, tool, upstream, version, session, turn, ok, ms, revision, subject, "
                "request) VALUES (?, ?, ?, '', '', ?, 1, 1, 2.0, '', '', ?)",
                values,
            )
    connection.close()
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["agent-utilities", "eval", *arguments])
        with pytest.raises(SystemExit) as exited:
            main()
        out, err = capsys.readouterr()
        return int(exited.value.code or 0), out, err

    return run


def measures(run: Run, *arguments: str) -> dict[str, Any]:
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    measured: dict[str, Any] = json.loads(out)
    return measured


class TestSessions:
    def test_the_next_tool_is_found_by_what_other_sessions_called(self, run, tools, sessions) -> None:
        measured = measures(run, *tools, *sessions)
        assert measured["next tool hit@5"] == 1
        assert measured["ablation"]["words alone"] == {"next tool hit@5": 0}

    def test_a_session_without_words_teaches_and_is_not_asked(self, run, tools, sessions) -> None:
        measured = measures(run, *tools, *sessions)
        assert (measured["sessions"], measured["next tools"]) == (3, 3)

    def test_a_session_is_not_taught_by_itself(self, run, tools, tmp_path) -> None:
        alone = lines(tmp_path / "alone.jsonl", SESSIONS[:1])
        assert measures(run, *tools, "--sessions", str(alone))["next tool hit@5"] == 0

    def test_each_part_is_told_apart_and_the_table_fits_a_terminal(self, run, tools, sessions, queries) -> None:
        _, out, _ = run(*tools, *sessions, *queries)
        for name in ("words alone", "words and used_with", "words and all parts", "all without followed_by"):
            assert name in out
        assert max(map(len, out.splitlines())) <= 80

    def test_either_kind_of_edge_finds_it_alone(self, run, tools, sessions) -> None:
        for part in ["used_with", "followed_by"]:
            assert measures(run, *tools, *sessions)["ablation"][f"words and {part}"] == {"next tool hit@5": 1}

    def test_a_line_that_cannot_be_read_is_named(self, run, tools, tmp_path) -> None:
        for row, message in [
            ({"id": "1", "calls": "s/apple"}, "calls can't be read"),
            ({"id": "1", "calls": ["s/none"]}, "no tool has this id"),
            ({"id": "1", "calls": [], "query": 3}, "query can't be read"),
            ({"calls": []}, "id can't be read"),
        ]:
            bad = lines(tmp_path / "bad.jsonl", [row])
            code, _, err = run(*tools, "--sessions", str(bad))
            assert (code, message in err, "bad.jsonl line 1" in err) == (2, True, True)

    def test_a_tool_called_again_is_no_next_tool(self) -> None:
        assert Session("1", ("a", "b", "a", "b", "c")).steps == ((("a",), "b"), (("a", "b", "a", "b"), "c"))

    def test_without_a_session_the_others_teach_as_if_it_had_not_been(self) -> None:
        all_but_last = [Session("1", ("a", "b")), Session("2", ("b", "c", "a"))]
        last = Session("3", ("a", "b", "a"))
        taught = taught_without(last, taught_by([*all_but_last, last]))
        assert taught.followed_by == {("a", "b"): 1, ("b", "c"): 1, ("c", "a"): 1}
        assert taught.used_with == {("a", "b"): 2, ("a", "c"): 1, ("b", "c"): 1}
        assert taught.uses == {"a": 2, "b": 2, "c": 1}


class TestLog:
    def test_requests_in_a_servers_log_teach_by_name(self, run, tools, queries, log, tmp_path) -> None:
        asked = lines(tmp_path / "asked.jsonl", [{"id": "1", "query": "zap gizmo", "relevant": ["s/yam"]}])
        measured = measures(run, *tools, "--queries", str(asked), "--usage", str(log))
        assert measured["hit@1"] == 1
        assert measured["ablation"]["words and recency"]["hit@1"] == 0, "no word of it is in a tool's own text"

    def test_what_was_used_of_late_comes_first_among_equals(self, run, tools, queries, log) -> None:
        rows = measures(run, *tools, *queries, "--usage", str(log), "--without", "past_requests")["ablation"]
        assert (rows["words alone"]["hit@1"], rows["words and recency"]["hit@1"]) == (0, 1)

    def test_a_log_of_other_tools_is_refused(self, run, queries, log, tmp_path) -> None:
        others = lines(tmp_path / "others.jsonl", [{"id": "s/yam", "name": "other"}])
        code, _, err = run("--tools", str(others), *queries, "--usage", str(log), "--ranker", "lexical")
        assert (code, "no call of these tools is logged" in err) == (2, True)


class TestWithout:
    def test_parts_that_are_left_out_teach_nothing(self, run, tools, sessions) -> None:
        left_out = [word for part in ("used_with", "followed_by", "recency") for word in ("--without", part)]
        measured = measures(run, *tools, *sessions, *left_out)
        assert measured["next tool hit@5"] == 0
        assert "ablation" not in measured

    def test_what_is_left_out_is_left_out_of_the_table(self, run, tools, sessions) -> None:
        rows = measures(run, *tools, *sessions, "--without", "recency")["ablation"]
        assert list(rows) == ["words alone", "words and used_with", "words and followed_by", "words and all parts"]

    def test_an_unknown_part_is_refused_with_the_nearest_and_all_names(self, run, tools, sessions) -> None:
        code, _, err = run(*tools, *sessions, "--without", "use_with")
        assert code == 2
        assert "did you mean used_with? one of past_requests, recency, used_with, followed_by" in err

    def test_without_usage_there_is_nothing_to_tell_of_its_parts(self, run, tools, queries) -> None:
        assert "ablation" not in measures(run, *tools, *queries)
        assert "what usage adds" not in run(*tools, *queries)[1]


class TestNothingToAsk:
    def test_neither_requests_nor_sessions_are_refused(self, run, tools) -> None:
        code, _, err = run(*tools)
        assert (code, "give --queries, --sessions or both" in err) == (2, True)

    def test_a_request_that_no_tool_answers_is_refused_with_its_line(self, run, tools, tmp_path) -> None:
        for row in [{}, {"relevant": []}, {"groups": [[]]}]:
            asked = lines(tmp_path / "asked.jsonl", [*QUERIES, {"id": "2", "query": "cook", **row}])
            code, _, err = run(*tools, "--queries", str(asked))
            assert (code, "no tool is relevant" in err, "asked.jsonl line 2" in err) == (2, True, True)
