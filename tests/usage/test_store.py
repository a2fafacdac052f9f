"""The file of a usage log: what is written, what goes, and which files are left alone."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.usage.database import VERSION, Forget, check_header, forget
from agent_utilities.usage.model import DAY_MS, Call, Event, Listed, Read, Search, UsageBounds, UsageError
from agent_utilities.usage.store import UsageStore
from tests.every import every
from tests.usage.logs import BOUNDS, NOW_MS, bytes_of, call, rows, turns


@contextmanager
def opened(path: Path, bounds: UsageBounds = BOUNDS) -> Iterator[UsageStore]:
    store = UsageStore(path, bounds)
    try:
        yield store
    finally:
        store.close()


def write(path: Path, *events: Event, bounds: UsageBounds = BOUNDS) -> None:
    with opened(path, bounds) as store:
        store.write(events)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "usage.db"


class TestWriting:
    def test_a_call_is_kept_whole(self, path: Path) -> None:
        event = Call(NOW_MS, "demo", "ping", "up", "1.2", "abcd", 3, False, 12.5, "r1", "key", "some words", 900, 80)
        write(path, event)
        names = "at_ms, server, tool, upstream, version, session, turn, ok, ms, revision, subject, request"
        names = f"{names}, result_tokens, given_tokens"
        assert rows(path, f"SELECT {names} FROM calls") == [
            (NOW_MS, "demo", "ping", "up", "1.2", "abcd", 3, 0, 12.5, "r1", "key", "some words", 900, 80)
        ]

    def test_a_search_is_kept_whole(self, path: Path) -> None:
        write(path, Search(NOW_MS, "demo", 7, "abcd", "key", "some words"))
        names = "at_ms, server, n_found, session, subject, request"
        assert rows(path, f"SELECT {names} FROM searches") == [(NOW_MS, "demo", 7, "abcd", "key", "some words")]

    def test_lists_of_one_day_are_one_row(self, path: Path) -> None:
        day = NOW_MS // DAY_MS
        times = (day * DAY_MS, (day + 1) * DAY_MS - 1, (day + 1) * DAY_MS)
        write(path, *(Listed(at_ms, "demo", "ping", "", 2, 40 + n) for n, at_ms in enumerate(times)))
        assert rows(path, "SELECT server, tool, day, n_lists, n_tokens FROM lists ORDER BY day") == [
            ("demo", "ping", day, 4, 41),
            ("demo", "ping", day + 1, 2, 42),
        ]

    def test_reads_of_one_day_and_projection_are_one_row(self, path: Path) -> None:
        reads = [("a.b", 100, 10), ("a.b", 200, 20), ("", 300, 0), ("a.b", 400, 40)]
        day = NOW_MS // DAY_MS
        for n, (projection, *tokens) in enumerate(reads):  # by as many processes, the last one on the next day
            write(path, Read(NOW_MS + DAY_MS * (n == 3), "demo", "ping", projection, *tokens))
        names = "server, tool, projection, day, n_reads, n_tokens, n_selected"
        assert rows(path, f"SELECT {names} FROM reads ORDER BY id") == [
            ("demo", "ping", "a.b", day, 2, 300, 30),
            ("demo", "ping", "", day, 1, 300, 0),
            ("demo", "ping", "a.b", day + 1, 1, 400, 40),
        ]

    def test_the_order_is_that_of_writing_though_the_clock_is_set_back(self, path: Path) -> None:
        write(path, *(call(number, at_ms=NOW_MS - number * DAY_MS) for number in range(500)))
        assert turns(path) == list(range(500))

    def test_half_a_surrogate_pair_does_no_harm(self, path: Path) -> None:
        write(path, call(tool="\ud800x"))
        assert rows(path, "SELECT tool FROM calls") == [("?x",)]

    def test_the_file_and_its_folder_are_the_users_own(self, path: Path) -> None:
        with opened(path) as store:
            store.write([call()])
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        assert modes == {"usage.db": 0o600, "usage.db-wal": 0o600, "usage.db-shm": 0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_a_file_that_was_moved_aside_is_begun_anew(self, path: Path) -> None:
        with opened(path) as store:
            store.write([call(1)])
            path.rename(path.with_name("aside.db"))
            store.write([call(2)])
        assert turns(path) == [2]

    def test_a_disk_that_is_nearly_full_is_left_alone(self, path: Path) -> None:
        with opened(path, UsageBounds(free_bytes=1 << 60)) as store, pytest.raises(UsageError, match="no room") as info:
            store.write([call()])
        assert info.value.cause == "full"
        assert turns(path) == []


class TestWhichFile:
    def test_an_empty_file_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "usage.db").touch()
        write(tmp_path / "usage.db", call(1))
        assert turns(tmp_path / "usage.db") == [1]

    def test_a_file_that_is_being_made_is_empty_or_ours_to_others(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        class Watched(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                cursor = super().execute(*arguments)
                check_header(path)
                seen.append(path.stat().st_size)
                return cursor

        monkeypatch.setattr("sqlite3.connect", partial(sqlite3.connect, factory=Watched))
        write(path, call())
        assert seen[0] == 0
        assert rows(path, "PRAGMA auto_vacuum") == [(2,)]

    def test_random_bytes_are_no_log_and_stay(self, tmp_path: Path) -> None:
        path = tmp_path / "usage.db"
        path.write_bytes(bytes(range(256)) * 64)
        with pytest.raises(UsageError) as info:
            write(path, call())
        assert info.value.cause == "foreign"
        assert [each.name for each in tmp_path.iterdir()] == ["usage.db"]
        assert path.read_bytes() == bytes(range(256)) * 64

    def test_a_database_of_another_application_is_not_touched(self, tmp_path: Path) -> None:
        path = tmp_path / "usage.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE calls (id INTEGER)")
        before = path.read_bytes()
        with pytest.raises(UsageError, match=r"is no usage log.*MCP_USAGE_FILE"):
            write(path, call())
        assert path.read_bytes() == before
        assert [each.name for each in tmp_path.iterdir()] == ["usage.db"]

    def test_a_file_of_a_later_version_is_not_touched(self, path: Path) -> None:
        write(path, call(1))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        before = path.read_bytes()
        with pytest.raises(UsageError, match=r"later version.*version 2, not 1"):
            write(path, call(2))
        assert path.read_bytes() == before

    @every("keep", [100, 4096, 20_000])
    def test_a_truncated_file_is_damaged_and_stays(self, tmp_path: Path, keep: int) -> None:
        path = tmp_path / "state" / "usage.db"
        write(path, *map(call, range(500)))
        whole = path.read_bytes()
        assert len(whole) > 20_000
        path.write_bytes(whole[:keep])
        with pytest.raises(UsageError, match=r"damaged.*usage forget") as info:
            write(path, call())
        assert info.value.cause == "corrupt"
        assert path.read_bytes()[:keep] == whole[:keep]

    def test_a_torn_header_is_no_log(self, path: Path) -> None:
        write(path, call())
        whole = path.read_bytes()
        path.write_bytes(whole[:50] + b"\0" * 50 + whole[100:])
        with pytest.raises(UsageError) as info:
            write(path, call())
        assert info.value.cause == "foreign"

    def test_a_folder_is_no_log(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as info:
            write(tmp_path, call())
        assert info.value.cause == "foreign"


class TestAge:
    def pruned(self, path: Path) -> list[int]:
        with opened(path, UsageBounds(days=30, free_bytes=0)) as store:
            store.prune(NOW_MS)
        return turns(path)

    def test_what_is_too_old_goes(self, path: Path) -> None:
        write(path, call(1, at_ms=NOW_MS - 30 * DAY_MS - 1), call(2, at_ms=NOW_MS - 30 * DAY_MS))
        write(path, Search(NOW_MS - 30 * DAY_MS - 1, "demo", 0), Listed(NOW_MS - 32 * DAY_MS, "demo", "ping"))
        write(path, Read(NOW_MS - 32 * DAY_MS, "demo", "ping"))
        assert self.pruned(path) == [2]
        assert [rows(path, f"SELECT count(*) FROM {table}") for table in ("searches", "lists", "reads")] == [[(0,)]] * 3

    def test_rows_of_the_future_stay(self, path: Path) -> None:
        write(path, call(1, at_ms=NOW_MS + 400 * DAY_MS))
        assert self.pruned(path) == [1]


class TestRows:
    def test_the_oldest_go_where_nobody_is_greedy(self, path: Path) -> None:
        bounds = UsageBounds(rows=1000, free_bytes=0)
        events = [call(n, f"tool{n % 50}", session=f"session{n // 5}") for n in range(1100)]
        with opened(path, bounds) as store:
            store.write(events)
            store.prune(NOW_MS)
        assert turns(path) == list(range(100, 1100))

    def test_one_session_that_floods_pushes_out_nobody_else(self, path: Path) -> None:
        bounds = UsageBounds(rows=1000, free_bytes=0)
        with opened(path, bounds) as store:
            store.write([call(n, "read", session=f"session{n // 5}") for n in range(300)])
            for start in range(0, 20_000, 500):
                store.write([call(n, "flood", session="greedy") for n in range(start, start + 500)])
                store.prune(NOW_MS)
        assert turns(path, "tool = 'read'") == list(range(300))
        kept = turns(path, "tool = 'flood'")
        assert kept == list(range(20_000 - len(kept), 20_000))
        assert 600 < len(kept) <= 700

    def test_two_that_flood_come_down_to_one_level(self, path: Path) -> None:
        with opened(path, UsageBounds(rows=1000, free_bytes=0)) as store:
            store.write([call(n, session="first") for n in range(700)])
            store.write([call(n, session="second") for n in range(600)])
            store.prune(NOW_MS)
        assert [len(turns(path, f"session = '{name}'")) for name in ("first", "second")] == [500, 500]

    def test_calls_that_stand_alone_flood_by_their_tool(self, path: Path) -> None:
        bounds = UsageBounds(rows=1000, free_bytes=0)
        with opened(path, bounds) as store:
            store.write([call(n, "read", session="") for n in range(200)])
            store.write([call(n, "flood", session="") for n in range(3000)])
            store.prune(NOW_MS)
        assert turns(path, "tool = 'read'") == list(range(200))

    def test_searches_are_bounded_too(self, path: Path) -> None:
        with opened(path, UsageBounds(rows=100, free_bytes=0)) as store:
            store.write([Search(NOW_MS, "demo", n, session="greedy") for n in range(500)])
            store.prune(NOW_MS)
        assert rows(path, "SELECT count(*), max(n_found) FROM searches") == [(100, 499)]

    def test_lists_are_bounded_too(self, path: Path) -> None:
        with opened(path, UsageBounds(rows=100, free_bytes=0)) as store:
            store.write([Listed(NOW_MS + n * DAY_MS, "demo", "ping") for n in range(300)])
            store.prune(NOW_MS)
        assert rows(path, "SELECT count(*) FROM lists") == [(100,)]

    def test_of_reads_a_tenth_stay_and_a_tool_that_is_read_at_will_pushes_out_no_other(self, path: Path) -> None:
        with opened(path, UsageBounds(rows=1000, free_bytes=0)) as store:
            store.write([Read(NOW_MS, "demo", "quiet", f"a{n}") for n in range(20)])
            store.write([Read(NOW_MS, "demo", "loud", f"a{n}") for n in range(300)])
            store.prune(NOW_MS)
        assert rows(path, "SELECT tool, count(*) FROM reads GROUP BY tool") == [("loud", 80), ("quiet", 20)]

    def test_pruning_is_due_at_first_and_once_enough_is_written(self, path: Path) -> None:
        with opened(path, UsageBounds(rows=1000, free_bytes=0)) as store:
            assert store.is_due
            store.prune(NOW_MS)
            store.write([call()] * 19)
            assert not store.is_due
            store.write([call()])
            assert store.is_due
            store.prune(NOW_MS)
            assert not store.is_due


class TestDisk:
    def test_long_words_are_bounded_by_their_bytes(self, path: Path) -> None:
        bounds = UsageBounds(rows=1000, free_bytes=0)
        with opened(path, bounds) as store:
            store.write([call(n, session=f"s{n}", request="x" * 4000) for n in range(900)])
            store.prune(NOW_MS)
        assert path.stat().st_size <= bounds.file_bytes
        assert turns(path)[-1] == 899

    def test_the_file_shrinks_when_much_has_gone(self, path: Path) -> None:
        write(path, *map(call, range(5000)))
        before = path.stat().st_size
        with opened(path, UsageBounds(rows=1000, free_bytes=0)) as store:
            store.prune(NOW_MS)
        assert path.stat().st_size < before / 3

    def test_a_file_that_is_much_too_large_is_not_written_before_it_is_pruned(self, path: Path) -> None:
        bounds = UsageBounds(rows=100, free_bytes=0)
        with opened(path, bounds) as store:
            store.write([call(request="x" * 12_000_000)])
            with pytest.raises(UsageError, match="no room"):
                store.write([call()])
            store.prune(NOW_MS)
            store.write([call(2)])
        assert turns(path)[-1:] == [2]


class TestForgetting:
    def test_no_byte_stays_while_a_server_has_the_log_open(self, path: Path) -> None:
        with opened(path) as store:
            store.write([call(1, request="words-forgotten"), Listed(NOW_MS, "demo", "tool-forgotten")])
            assert forget(path, Forget()).is_clean
            assert b"forgotten" not in bytes_of(path)
            store.write([call(9)])
        assert turns(path) == [9]


class TestPrunedBytes:
    def test_what_was_pruned_is_not_found_in_the_file(self, path: Path) -> None:
        with opened(path, UsageBounds(rows=100, free_bytes=0)) as store:
            store.write([call(n, session=f"s{n}", request=f"words-forgotten {n:04}!") for n in range(400)])
            store.prune(NOW_MS)
        assert b"words-forgotten 0399!" in bytes_of(path)
        assert b"words-forgotten 0001!" not in bytes_of(path)
