"""Reading logs of usage and deleting from them, as an operator's shell does."""

from __future__ import annotations

import json
import re
import sys
import time
import tomllib
from types import SimpleNamespace

import pytest

from agent_utilities.cli import app
from agent_utilities.settings import ResultRule
from agent_utilities.usage.database import open_log
from agent_utilities.usage.model import DAY_MS, Listed, Read, UsageBounds, usage_file
from agent_utilities.usage.store import UsageStore
from tests.usage.written_logs import NOW_MS, call, log_of, search


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's state folder."""
    monkeypatch.setattr("platformdirs.user_state_dir", lambda name: str(tmp_path / name))
    made = usage_file("").parent
    made.mkdir(parents=True)
    return made


@pytest.fixture
def usage(folder, monkeypatch, capsys):
    """Run the command on a terminal of 80 columns, and return its code, output and errors; no day ends meanwhile."""
    monkeypatch.setattr("agent_utilities.cli.usage.time", SimpleNamespace(time=lambda: NOW_MS / 1000))

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "argv", ["agent-utilities", "usage", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return (ended.value.code, *capsys.readouterr())

    return run


def at(days_ago: int) -> dict[str, int]:
    return {"at_ms": NOW_MS - days_ago * DAY_MS}


def gateway(folder):
    """A gateway's log."""
    events = [
        *(call("git_log", upstream="git", ms=12.5, **at(0)) for _ in range(8)),
        call("git_log", upstream="git", ms=900, ok=False, **at(1)),
        call("read_file", ms=3, request="show the harvest", **at(3)),
        search(0, request="send a [red]fax[/]\x1b[2J", **at(0)),
        search(2, **at(0)),
        Listed(NOW_MS, "hub", "git_log", "git", 40, 100),
        Listed(NOW_MS, "hub", "git_blame", "git", 40, 150),
    ]
    return log_of(folder / "hub.db", events)


def words_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


class TestReport:
    def test_tells_calls_by_server_and_tool(self, usage, folder):
        gateway(folder)
        code, text, _ = usage()
        assert (code, text.splitlines()[0]) == (0, "last 30 days: 10 calls, 1 (10.0 %) failed")
        assert ["hub/git", "9", "████████████", "1", "12", "900"] in words_of(text)
        assert ["git_log", "hub/git", "9", "████████████", "1", "12", "900"] in words_of(text)
        assert ["read_file", "hub", "1", "█▍", "0", "3.0", "3.0"] in words_of(text)

    def test_draws_a_column_for_each_day(self, usage, folder):
        gateway(folder)
        assert usage()[1].splitlines()[1] == "|▁ ▁█|"

    def test_draws_no_column_where_there_is_but_one_day(self, usage, folder):
        log_of(folder / "hub.db", [call("git_log", **at(0))])
        assert "calls a day" not in usage()[1]

    def test_says_that_no_search_was_in_vain(self, usage, folder):
        log_of(folder / "hub.db", [search(2, **at(0))])
        assert "1 search, each found something" in usage()[1]

    def test_tells_what_was_listed_for_nothing(self, usage, folder):
        gateway(folder)
        text = usage()[1]
        assert ["git_blame", "hub/git", "40", "6,000", "████████████"] in words_of(text)
        assert "1 tool that nobody called took 6,000 of the 10,000 tokens of all lists" in text

    def test_tells_searches_that_found_nothing_and_nothing_in_them_acts_on_the_terminal(self, usage, folder):
        gateway(folder)
        text = usage()[1]
        assert "2 searches, 1 (50.0 %) found nothing" in text
        assert r"send a [red]fax[/]\x1b[2J" in text
        assert "\x1b" not in text

    def test_no_name_or_request_acts_on_the_terminal(self, usage, folder):
        for name in [
            "[red]boom[/]",
            "[/]",
            "\x1b[2J\x1b]0;owned\x07",
            "\u202egnp.exe",
            "a\x00b",
            "tail\\",
            ":bomb:",
            "'; DROP TABLE calls; --",
            "line\nbreak",
            "\ud800",
            "[link=file:///etc/passwd]click[/link]",
            "x" * 5_000,
        ]:
            store = UsageStore(folder / "hub.db", UsageBounds(free_bytes=0))
            named = {"upstream": name, "server": name, "version": name, **at(0)}
            store.write([call(name, request=name, **named), search(0, request=name, server=name, **at(0))])
            store.write([Listed(NOW_MS, name, f"{name}2", name, 40, 100)])
            store.close()
            code, out, err = usage()
            assert (code, err) == (0, "")
            assert all(char.isprintable() or char == "\n" for char in out)
            plain = name.encode("utf-8", "replace").decode().encode("unicode_escape").decode().replace("\\\\", "\\")
            assert "".join(plain.split())[:9] in "".join(out.split())

    def test_fits_80_columns(self, usage, folder):
        log_of(folder / "hub.db", [call("a_tool_of_a_long_name_" * 4, upstream="a-server" * 9, **at(0))])
        assert max(map(len, usage()[1].splitlines())) <= 80

    def test_shows_the_first_rows_and_says_how_many_more_there_are(self, usage, folder):
        log_of(folder / "hub.db", [call(f"tool{n}", **at(0)) for n in range(20)])
        text = usage()[1]
        assert len(re.findall(r"tool\d+", text)) == 15
        assert "… and 5 more, which --json has" in text

    def test_is_of_the_days_and_the_server_that_are_asked_for(self, usage, folder):
        gateway(folder)
        assert usage("--days", 1)[1].startswith("last 1 day: 8 calls, 0 failed")
        assert usage("--server", "other")[1].startswith("nothing of 'other' was logged in the last 30 days")

    def test_is_of_all_logs_in_the_state_folder(self, usage, folder):
        gateway(folder)
        log_of(folder / "notes.db", [call("note", server="notes", **at(0))])
        assert usage()[1].startswith("last 30 days: 11 calls")
        assert usage("--file", folder / "notes.db")[1].startswith("last 30 days: 1 call, 0 failed")

    def test_is_of_the_log_that_the_environment_names(self, usage, folder, tmp_path, monkeypatch):
        gateway(folder)
        monkeypatch.setenv("MCP_USAGE_FILE", str(log_of(tmp_path / "own.db", [call("own", **at(0))])))
        assert usage()[1].startswith("last 30 days: 1 call,")

    def test_as_json_has_everything(self, usage, folder):
        path = gateway(folder)
        told = json.loads(usage("--json")[1])
        assert told["files"] == [str(path)]
        assert told["servers"][0]["n_calls"] == 9
        assert told["uncalled"][0] == {
            "server": "hub",
            "upstream": "git",
            "tool": "git_blame",
            "n_lists": 40,
            "n_tokens": 6_000,
        }
        assert told["empty_searches"][0]["n"] == 1

    def test_of_lists_alone_is_no_table_of_calls(self, usage, folder):
        log_of(folder / "hub.db", [Listed(NOW_MS, "hub", "a", n_tokens=5)])
        code, text, _ = usage()
        assert (code, text.splitlines()[0]) == (0, "last 30 days: 0 calls, 0 failed")
        assert "calls by" not in text


def long_results(folder):
    """A log of a tool whose results are long, and in which callers read on."""
    counted = {"result_tokens": 120_000, "given_tokens": 7_750}
    return log_of(
        folder / "hub.db",
        [
            *(call("list_issues", upstream="git", **counted, **at(0)) for _ in range(4)),
            call("read_file", result_tokens=9_000, given_tokens=9_000, **at(0)),
            *(Read(NOW_MS, "hub", "list_issues", "issues[].{number: number, title: title}", 120_000, 7_200),) * 12,
            Listed(NOW_MS, "hub", "list_issues", "git", 40, 1_500),
        ],
    )


class TestResults:
    def test_are_told_by_tool_with_what_they_cost(self, usage, folder):
        long_results(folder)
        text = usage()[1]
        assert ["list_issues", "hub/git", "4", "480,000", "31,000", "31.0", "%", "████████████"] in words_of(text)
        assert ["read_file", "hub", "1", "9,000", "9,000", "9.0", "%", "███▌"] in words_of(text)
        assert "results took 40,000 tokens, and lists 60,000" in text

    def test_that_callers_read_on_in_have_a_setting_to_copy(self, usage, folder):
        long_results(folder)
        what, *setting = usage()[1].split("\n\n31.0 % of what you pay is ")[1].split("\n")[:3]
        expected = "list_issues: this line would take 94 % of a whole result away; callers read on so 12 times"
        assert what == expected
        (rules,) = tomllib.loads("\n".join(setting)).values()
        assert ResultRule(**rules["list_issues"]).select == "issues[].{number: number, title: title}"

    def test_without_reads_have_none(self, usage, folder):
        log_of(folder / "hub.db", [call("list_issues", result_tokens=9_000, given_tokens=800, **at(0))])
        text = usage()[1]
        assert "list_issues" in text
        assert ("select" in text, "tokens =" in text) == (False, False)

    def test_that_are_not_counted_have_no_table(self, usage, folder):
        gateway(folder)
        assert "results" not in usage()[1]

    def test_are_in_the_json(self, usage, folder):
        long_results(folder)
        told = json.loads(usage("--json")[1])["results"]
        assert told[0] == {
            "server": "hub",
            "upstream": "git",
            "tool": "list_issues",
            "n_calls": 4,
            "n_tokens": 480_000,
            "n_given": 31_000,
            "projection": "issues[].{number: number, title: title}",
            "n_reads": 12,
            "saved": pytest.approx(0.94),
            "share": pytest.approx(0.31),
        }

    def test_fit_80_columns_and_no_name_acts_on_the_terminal(self, usage, folder):
        name = "\x1b[2J[red]" + "a_tool_of_a_long_name_" * 4
        log_of(
            folder / "hub.db",
            [call(name, result_tokens=9, given_tokens=8, **at(0)), *[Read(NOW_MS, "hub", name, "a", 9, 1)] * 3],
        )
        text = usage()[1]
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= 80

    def test_are_forgotten_with_what_was_read(self, usage, folder):
        path = long_results(folder)
        text = usage("forget", "--tool", "list_issues", "-y")[1]
        assert text == f"{path}: forgot 4 calls, 0 searches, 1 day of a tool's reads and 1 day of a tool's lists\n"


class TestNoReport:
    def test_before_anything_was_logged(self, usage, folder):
        code, text, _ = usage()
        assert code == 0
        assert text.startswith(f"nothing was logged yet in {folder}")

    def test_of_an_empty_log(self, usage, folder):
        log_of(folder / "hub.db")
        assert usage() == (0, f"nothing was logged in the last 30 days: {folder / 'hub.db'}\n", "")

    def test_of_a_file_that_is_not_there(self, usage, tmp_path):
        code, _, error = usage("--file", tmp_path / "none.db")
        assert (code, error.count("\n")) == (2, 1)
        assert "no such file" in error

    def test_of_a_file_that_is_no_log(self, usage, folder):
        (folder / "hub.db").write_text("somebody else's")
        code, _, error = usage()
        assert (code, error.count("\n")) == (1, 1)
        assert "the file is no usage log" in error

    def test_of_one_log_keeps_no_other_from_being_shown(self, usage, folder):
        gateway(folder)
        (folder / "a.db").write_text("somebody else's")
        code, text, error = usage()
        assert (code, text.splitlines()[0]) == (0, "last 30 days: 10 calls, 1 (10.0 %) failed")
        assert "the file is no usage log" in error


class TestForget:
    def test_deletes_what_is_named_and_says_so(self, usage, folder):
        path = gateway(folder)
        code, text, _ = usage("forget", "--tool", "git_log", "--yes")
        assert (code, text) == (0, f"{path}: forgot 9 calls, 0 searches and 1 day of a tool's lists\n")
        assert usage()[1].startswith("last 30 days: 1 call, 0 failed")

    def test_deletes_words_alone_down_to_their_bytes_while_a_server_has_the_log_open(self, usage, folder):
        path = gateway(folder)
        server = open_log(path)
        server.execute("SELECT count(*) FROM calls").fetchone()
        text = usage("forget", "--words", "-y")[1]
        assert text == f"{path}: forgot the words of 1 call and 1 search\n"
        assert b"harvest" not in b"".join(each.read_bytes() for each in folder.iterdir())
        server.close()

    def test_deletes_what_is_older(self, usage, folder):
        for when in [
            ("--older-than", 2),
            ("--before", f"{time.strftime('%Y-%m-%d', time.gmtime(NOW_MS / 1000 - 2 * 86_400))}"),
        ]:
            gateway(folder)
            assert "forgot 1 call, 0 searches" in usage("forget", *when, "-y")[1]

    def test_of_all_leaves_a_log_that_says_nothing(self, usage, folder):
        gateway(folder)
        usage("forget", "--all", "-y")
        assert usage()[1].startswith("nothing was logged in the last 30 days")
        assert usage("forget", "--all", "-y")[1] == "nothing to forget\n"

    def test_of_all_deletes_a_log_that_is_damaged(self, usage, folder):
        path = gateway(folder)
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
        assert usage("forget", "--words", "-y")[0] == 1
        assert usage("forget", "--all", "-y")[1] == f"{path}: deleted, for it was damaged\n"
        assert list(folder.iterdir()) == []

    def test_asks_where_nobody_said_yes(self, usage, folder, monkeypatch):
        gateway(folder)
        code, _, error = usage("forget", "--all")
        assert (code, error.count("\n")) == (2, 1)
        assert "would forget 10 calls, 2 searches" in error
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("typer.confirm", lambda text, abort: asked.append(text))
        asked: list[str] = []
        assert usage("forget", "--all")[0] == 0
        assert asked == [f"forget 10 calls, 2 searches and 2 days of a tool's lists in {folder / 'hub.db'}?"]

    def test_refuses_what_could_mean_too_much(self, usage, folder):
        for arguments, message in [
            ([], "nothing to forget is named"),
            (["--all", "--tool", "a"], "--all beside what narrows it"),
            (["--before", "2026-01-01", "--older-than", "3"], "--before beside --older-than"),
            (["--before", "soon"], "soon"),
        ]:
            gateway(folder)
            code, _, error = usage("forget", "--yes", *arguments)
            assert (code, error.count("\n")) == (2, 1)
            assert message in error
