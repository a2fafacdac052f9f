"""What a log teaches, from real files."""

from __future__ import annotations

import math
import os
import sqlite3

import pytest

from agent_utilities.usage.database import VERSION, open_log
from agent_utilities.usage.learning import read_learned
from agent_utilities.usage.model import HOUR_MS, NOTHING_LEARNED, UsageError
from tests.every import every
from tests.usage.written_logs import NOW_MS, call, log_of, write


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hub.db"


def learned(path, events, subject="", server="hub"):
    return read_learned(log_of(path, events), server, subject, NOW_MS)


class TestUses:
    def test_count_half_after_each_half_life(self, path):
        uses = learned(path, [call("a"), call("b", 24), call("c", 48)]).uses
        assert uses == pytest.approx({"a": math.log(2), "b": math.log(1.5), "c": math.log(1.25)}, rel=2e-2)

    def test_add_up_over_sessions_and_hardly_within_one(self, path):
        loop = [call("loop") for _ in range(2_000)]
        spread = [call("spread", session=f"s{n}") for n in range(20)]
        uses = learned(path, loop + spread).uses
        assert uses["spread"] > uses["loop"] == pytest.approx(math.log1p(2_000), rel=1e-3)

    def test_of_requests_without_a_session_count_as_one_each_hour(self, path):
        uses = learned(path, [call("a", n % 2, session="") for n in range(1_000)]).uses
        assert uses["a"] == pytest.approx(math.log1p(500) + math.log1p(500 * 2 ** (-1 / 24)), rel=1e-2)

    def test_are_of_calls_that_succeeded(self, path):
        assert learned(path, [call("a", ok=False)]) == NOTHING_LEARNED

    def test_are_of_the_server_that_is_meant(self, path):
        assert learned(path, [call("a", server="other")]) == NOTHING_LEARNED

    def test_of_a_clock_that_is_a_little_ahead_count_as_now(self, path):
        assert learned(path, [call("a", -0.5)]).uses["a"] == pytest.approx(math.log(2), rel=1e-3)

    def test_of_a_clock_that_was_far_ahead_count_the_less_the_farther(self, path):
        uses = learned(path, [call("a", -24), call("b", -48), call("c", -1_000)]).uses
        assert uses == pytest.approx({"a": math.log1p(0.5), "b": math.log1p(0.25)}, rel=0.05)

    def test_long_past_are_forgotten(self, path):
        assert learned(path, [call("a", 24 * 30)]).uses == {}


class TestSubjects:
    EVENTS = (
        call("a", subject="ann", session="s", request="ask of ann"),
        call("b", subject="bob", session="t", request="ask of bob"),
        call("c", subject="bob", session="t", request="more of bob"),
    )

    def test_everybodys_calls_teach_everybody(self, path):
        assert learned(path, self.EVENTS).uses.keys() == {"a", "b", "c"}

    def test_a_subject_learns_of_his_own_alone(self, path):
        ann = learned(path, self.EVENTS, "ann")
        assert ann.uses.keys() == {"a"}
        assert ann.past_requests == {"a": ("ask of ann",)}
        assert ann.used_with == ann.followed_by == {}

    def test_a_subject_that_never_called_learns_nothing(self, path):
        assert learned(path, self.EVENTS, "eve") == NOTHING_LEARNED


class TestPastRequests:
    def test_are_by_tool_oldest_first(self, path):
        events = [
            call("a", request="show the log"),
            call("b", request="show the log"),
            call("a", request="find a file"),
        ]
        assert learned(path, events).past_requests == {"a": ("show the log", "find a file"), "b": ("show the log",)}

    def test_are_of_calls_that_succeeded(self, path):
        assert learned(path, [call("a", request="show the log", ok=False), call("a")]).past_requests == {}

    def test_of_one_session_are_ten_at_most(self, path):
        loop = [call("a", request=f"word{n} other{n}") for n in range(100)]
        old = call("a", 10, session="t", request="show the log")
        kept = learned(path, [old, *loop]).past_requests["a"]
        assert (len(kept), kept[0]) == (11, "show the log")


class TestSequences:
    def test_are_of_sessions_in_the_order_of_their_calls(self, path):
        events = [call("a", session="s"), call("x", session="t"), call("b", session="s"), call("y", session="t")]
        told = learned(path, events)
        assert told.used_with == {("a", "b"): 1, ("x", "y"): 1}
        assert told.followed_by == {("a", "b"): 1, ("x", "y"): 1}

    def test_hold_where_the_clock_was_set_back(self, path):
        assert learned(path, [call("a", 0), call("b", 5)]).followed_by == {("a", "b"): 1}

    def test_leave_out_a_call_that_failed(self, path):
        assert learned(path, [call("a"), call("x", ok=False), call("b")]).followed_by == {("a", "b"): 1}


class TestVersion:
    def test_is_the_same_for_the_same_content_a_little_later(self, path):
        log_of(path, [call("a", 3)])
        now_ms = NOW_MS - NOW_MS % HOUR_MS
        versions = {read_learned(path, "hub", "", now_ms + more).version for more in (0, 1_000, 60_000)}
        assert len(versions) == 1

    def test_differs_with_the_content(self, path, tmp_path):
        more = log_of(tmp_path / "more.db", [call("a"), call("b", session="t")])
        assert learned(path, [call("a")]).version != read_learned(more, "hub", "", NOW_MS).version

    def test_is_blank_where_nothing_was_learned(self, path):
        assert learned(path, []).version == ""


class TestFile:
    def test_that_is_absent_teaches_nothing_and_is_not_made(self, path):
        assert read_learned(path, "hub", "", NOW_MS) == NOTHING_LEARNED
        assert not path.exists()

    def test_that_is_empty_teaches_nothing(self, path):
        path.touch()
        assert read_learned(path, "hub", "", NOW_MS) == NOTHING_LEARNED

    def test_is_read_while_a_server_writes_it(self, path):
        server = open_log(path)
        write(server, [call("a")])
        server.execute("BEGIN IMMEDIATE")
        server.execute("DELETE FROM calls")
        assert read_learned(path, "hub", "", NOW_MS).uses.keys() == {"a"}
        server.close()

    def test_is_not_changed(self, path):
        log_of(path, [call("a")])
        before = path.read_bytes()
        read_learned(path, "hub", "", NOW_MS)
        assert path.read_bytes() == before

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
    def test_in_a_folder_that_cannot_be_written_is_read(self, path):
        log_of(path, [call("a")])
        path.parent.chmod(0o500)
        try:
            assert read_learned(path, "hub", "", NOW_MS).uses.keys() == {"a"}
        finally:
            path.parent.chmod(0o700)

    @every("name", ["100%.db", "a?mode=rwc#b.db", "ü ö.db"])
    def test_of_any_name_is_read(self, tmp_path, name):
        assert learned(tmp_path / name, [call("a")]).uses.keys() == {"a"}

    def refused(self, path) -> str:
        with pytest.raises(UsageError) as refused:
            read_learned(path, "hub", "", NOW_MS)
        assert str(path) in str(refused.value)
        return refused.value.cause

    def test_that_is_damaged_is_refused(self, path):
        log_of(path, [call(f"tool{n}", session=f"s{n}") for n in range(2_000)])
        with open(path, "r+b") as file:
            file.seek(8192)
            file.write(os.urandom(40_000))
        assert self.refused(path) == "corrupt"

    def test_that_is_no_database_is_refused(self, path):
        path.write_text("calls, errors\n" * 100)
        assert self.refused(path) == "foreign"

    def test_of_another_application_is_refused(self, path):
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE calls (id INTEGER)")
        other.close()
        assert self.refused(path) == "foreign"

    def test_of_a_later_version_is_refused(self, path):
        connection = open_log(path)
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.close()
        assert self.refused(path) == "newer"

    def test_that_another_program_keeps_locked_is_refused(self, path, monkeypatch):
        monkeypatch.setattr("agent_utilities.usage.database._READER_BUSY_S", 0.05)
        connection = sqlite3.connect(log_of(path, [call("a")]), isolation_level=None)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("DELETE FROM calls")
        assert self.refused(path) == "locked"
        connection.close()

    def test_that_is_a_folder_is_refused(self, path):
        path.mkdir()
        self.refused(path)
