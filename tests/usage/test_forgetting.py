"""What is forgotten is gone by its bytes, while servers write the log."""

from __future__ import annotations

import sqlite3

import pytest

from agent_utilities.usage.database import Forget, Forgotten, count, delete_files, forget, open_log
from agent_utilities.usage.model import DAY_MS, Listed, Read, UsageError
from tests.every import every
from tests.usage.written_logs import NOW_MS, call, log_of, search, write

SECRET = "the unforgettable harvest"
EVENTS = (
    call("a", request=SECRET),
    call("b", 72, request=SECRET),
    call("a", server="other", request="stays here"),
    search(0, request=SECRET),
    search(1, 72),
    Listed(NOW_MS, "hub", "a", n_tokens=5),
    Listed(NOW_MS - 3 * DAY_MS, "hub", "b", n_tokens=5),
    Read(NOW_MS, "hub", "a", "harvest[].name", 500, 20),
)


@pytest.fixture
def path(tmp_path):
    return log_of(tmp_path / "hub.db", EVENTS)


def bytes_of(path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(path.parent.iterdir()))


def rows(path, table: str, columns: str = "*") -> list[tuple]:
    connection = sqlite3.connect(path)
    found = connection.execute(f"SELECT {columns} FROM {table}").fetchall()
    connection.close()
    return found


class TestWhat:
    @every(
        ("what", "expected"),
        [
            (Forget(), Forgotten(3, 2, 2, 1)),
            (Forget(server="hub"), Forgotten(2, 2, 2, 1)),
            (Forget(server="nobody"), Forgotten(0, 0, 0)),
            (Forget(tool="a"), Forgotten(2, 0, 1, 1)),
            (Forget(server="hub", tool="a"), Forgotten(1, 0, 1, 1)),
            (Forget(before_ms=NOW_MS - DAY_MS), Forgotten(1, 1, 1)),
            (Forget(words=True), Forgotten(3, 1, 0)),
            (Forget(words=True, tool="b"), Forgotten(1, 0, 0)),
        ],
    )
    def test_is_deleted_as_it_was_counted(self, tmp_path, what, expected):
        path = log_of(tmp_path / "hub.db", EVENTS)
        assert count(path, what) == expected
        assert forget(path, what) == expected
        assert count(path, what) == Forgotten(0, 0, 0)

    def test_words_go_and_calls_stay(self, path):
        forget(path, Forget(words=True))
        assert [row for table in ("calls", "searches") for row in rows(path, table, "request")] == [("",)] * 5


class TestBytes:
    @every("what", [Forget(), Forget(server="hub"), Forget(words=True)])
    def test_are_gone_from_every_file(self, tmp_path, what):
        path = log_of(tmp_path / "hub.db", EVENTS)
        assert SECRET.encode() in bytes_of(path)
        assert forget(path, what).is_clean
        assert SECRET.encode() not in bytes_of(path)

    def test_are_gone_while_a_server_writes(self, path):
        server = open_log(path)
        write(server, EVENTS[:5])
        assert forget(path, Forget(server="hub")).is_clean
        assert SECRET.encode() not in bytes_of(path)
        write(server, [call("after")])
        assert "after" in str(rows(path, "calls"))
        server.close()

    def test_of_other_rows_stay(self, path):
        forget(path, Forget(server="hub"))
        assert [row[3] for row in rows(path, "calls")] == ["a"]
        assert b"stays here" in bytes_of(path)

    def test_that_a_reader_holds_are_told_of(self, path, monkeypatch):
        monkeypatch.setattr("agent_utilities.usage.database._BUSY_S", 0.05)
        server, reader = open_log(path), sqlite3.connect(path, isolation_level=None)
        write(server, [call("x")])
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM calls").fetchone()
        assert forget(path, Forget()) == Forgotten(4, 2, 2, 1, is_clean=False)
        reader.close()
        assert forget(path, Forget()).is_clean
        assert SECRET.encode() not in bytes_of(path)
        server.close()


class TestFile:
    def test_that_is_absent_is_not_made(self, tmp_path):
        absent = tmp_path / "absent.db"
        assert forget(absent, Forget()) == Forgotten(0, 0, 0)
        assert not absent.exists()

    def test_that_is_no_log_is_left_alone(self, tmp_path):
        other = tmp_path / "other.db"
        other.write_text("somebody else's" * 100)
        with pytest.raises(UsageError):
            forget(other, Forget())
        assert other.read_text() == "somebody else's" * 100

    def test_is_deleted_with_what_stands_beside_it(self, path):
        server = open_log(path)
        write(server, [call("x")])
        delete_files(path)
        assert list(path.parent.iterdir()) == []
        server.close()
