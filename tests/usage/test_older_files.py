"""A file of before results were counted, and processes of then and now that have one file open."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agent_utilities.usage import database
from agent_utilities.usage.database import Forget, Forgotten, count, forget, open_log, snapshot
from agent_utilities.usage.model import Read
from agent_utilities.usage.report import read_report
from tests.usage.logs import rows
from tests.usage.written_logs import NOW_MS, call, write

COLUMNS = "at_ms, server, tool, upstream, version, session, turn, ok, ms, revision, subject, request"
OLDER = f"INSERT INTO calls ({COLUMNS}) VALUES (?, 'hub', ?, '', '', 's', 1, 1, 2.0, '', '', '')"
"""What an older process writes."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that an older version made, with one call."""
    with monkeypatch.context() as patch:
        patch.setattr(database, "ADDED", ())
        with closing(open_log(tmp_path / "hub.db")) as connection:
            connection.execute(OLDER, (NOW_MS, "before"))
    assert "result_tokens" not in str(rows(tmp_path / "hub.db", "SELECT sql FROM sqlite_master"))
    return tmp_path / "hub.db"


def tools(path: Path) -> list[str]:
    return [tool for (tool,) in rows(path, "SELECT tool FROM calls ORDER BY id")]


def test_is_brought_over_with_its_calls(path: Path) -> None:
    with closing(open_log(path)) as connection:
        write(
            connection, [call("after", result_tokens=900, given_tokens=80), Read(NOW_MS, "hub", "after", "a.b", 9, 1)]
        )
    columns = "tool, result_tokens, given_tokens"
    assert rows(path, f"SELECT {columns} FROM calls ORDER BY id") == [("before", 0, 0), ("after", 900, 80)]
    assert rows(path, "SELECT projection FROM reads") == [("a.b",)]


def test_is_brought_over_once_by_many_at_a_time(path: Path) -> None:
    n, errors = 8, []
    barrier = threading.Barrier(n)

    def opened() -> None:
        barrier.wait()
        try:
            with closing(open_log(path)) as connection:
                write(connection, [call("after", result_tokens=1)])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=opened) for _ in range(n)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert tools(path) == ["before", *["after"] * n]


def test_is_written_on_by_an_older_process_that_has_it_open(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute(OLDER, (NOW_MS, "older"))
        with closing(open_log(path)) as connection:
            write(connection, [call("newer", result_tokens=900)])
            older.execute(OLDER, (NOW_MS, "older again"))
    assert tools(path) == ["before", "older", "newer", "older again"]


def test_has_the_version_that_older_processes_open(path: Path) -> None:
    open_log(path).close()
    assert rows(path, "PRAGMA user_version") == [(1,)]


def test_is_read_as_it_is_and_stays(path: Path) -> None:
    before = path.read_bytes()
    report = read_report(path, NOW_MS)
    assert ([row.tool for row in report.tools], report.results) == (["before"], ())
    assert count(path, Forget()) == Forgotten(1, 0, 0)
    assert path.read_bytes() == before


def test_is_read_as_it_was_while_it_is_brought_over(path: Path) -> None:
    with snapshot(path) as connection:
        assert connection is not None
        with closing(open_log(path)) as server:
            write(server, [call("after")])
        assert connection.execute("SELECT tool, result_tokens FROM calls").fetchall() == [("before", 0)]


def test_is_forgotten(path: Path) -> None:
    assert forget(path, Forget()) == Forgotten(1, 0, 0)
    assert tools(path) == []
