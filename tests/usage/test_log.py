"""The log behind a server: written in batches, bounded, and no call's concern."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.usage.log import UsageLog
from agent_utilities.usage.model import Listed, Search, UsageBounds
from agent_utilities.usage.store import UsageStore
from tests.usage.logs import BOUNDS, NOW_MS, bytes_of, call, flushed, put, quick_log, running, turns, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "usage.db"


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Keep a log locked, as another program may."""
    UsageStore(path, BOUNDS).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield connection


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_utilities.usage.database._WRITER_BUSY_S", 0.01)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


class TestWriting:
    async def test_what_is_recorded_is_in_the_file_in_its_order(self, path: Path) -> None:
        async with running(path) as log:
            for number in range(450):
                log.record(call(number))
            await flushed(log)
            assert turns(path) == list(range(450))
            assert log.n_written == 450

    async def test_a_batch_is_written_without_being_asked_for(self, path: Path) -> None:
        async with running(path) as log:
            log.record(call(7))
            await until(lambda: log.n_written > 0)
            assert turns(path) == [7]

    async def test_events_that_come_together_are_one_batch_of_which_is_told(self, path: Path) -> None:
        batches: list[int] = []
        async with running(path, batch_s=0.2) as log:
            log.on_written = lambda: batches.append(log.n_written)
            for number in range(100):
                log.record(call(number))
            await flushed(log)
            assert batches == [100]

    async def test_nothing_recorded_makes_no_file(self, path: Path) -> None:
        async with running(path) as log:
            await asyncio.sleep(0)
        assert not path.parent.exists()
        assert log.health() == {"state": "logging", "cause": "", "n_written": 0, "n_waiting": 0, "n_lost": 0}

    async def test_the_file_is_touched_in_daemon_threads_alone(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: set[threading.Thread] = set()
        methods = {name: getattr(UsageStore, name) for name in ("write", "prune", "close")}
        for name, method in methods.items():

            def noted(*args: object, _method: Any = method) -> object:
                threads.add(threading.current_thread())
                return _method(*args)

            monkeypatch.setattr(UsageStore, name, noted)
        async with running(path) as log:
            log.record(call())
            await flushed(log)
        assert threading.main_thread() not in threads
        assert all(thread.daemon for thread in threads)


class TestStopping:
    async def test_what_was_recorded_last_is_written(self, path: Path) -> None:
        async with running(path, batch_s=3600.0) as log:
            log.record(call(1))
            await asyncio.sleep(0)
        assert turns(path) == [1]
        assert [each.name for each in path.parent.iterdir()] == ["usage.db"]

    async def test_what_is_recorded_before_the_start_is_written(self, path: Path) -> None:
        log = quick_log(path)
        log.record(call(1))
        task = asyncio.create_task(log.run())
        await flushed(log)
        task.cancel()
        await asyncio.wait([task])
        assert turns(path) == [1]

    async def test_a_disk_that_hangs_does_not_hold_the_stop(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        hangs, may_go_on = threading.Event(), threading.Event()

        def hang(self: UsageStore, events: object) -> None:
            hangs.set()
            may_go_on.wait(60)

        monkeypatch.setattr(UsageStore, "write", hang)
        async with running(path, batch_s=0.01, end_s=0.05) as log:
            log.record(call())
            await asyncio.to_thread(hangs.wait, 60)
            log.record(call())
        may_go_on.set()
        assert log.n_lost == 2

    async def test_a_second_cancellation_still_stops_it(self, path: Path) -> None:
        log = quick_log(path)
        task = asyncio.create_task(log.run())
        log.record(call(1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert turns(path) == [1]


@pytest.mark.usefixtures("impatient")
class TestLocked:
    async def test_calls_wait_in_memory_and_are_written_later(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        with locked(path) as other:
            async with running(path) as log:
                log.record(call(1))
                await until(lambda: log.problem is not None)
                log.record(call(2))
                assert log.health()["state"] == "failing"
                assert log.health()["cause"] == "locked"
                other.execute("ROLLBACK")
                await flushed(log)
                assert log.health()["state"] == "logging"
        assert turns(path) == [1, 2]
        assert log.n_lost == 0
        said = [(each.levelname, each.getMessage().partition(":")[0]) for each in caplog.records]
        assert said == [
            ("WARNING", "another program keeps the usage log locked"),
            ("INFO", "the usage log is written again; 0 events are lost"),
        ]

    async def test_one_warning_however_long_it_takes(
        self, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tries: list[Any] = []
        write = UsageLog._write

        def noted(log: UsageLog, events: Any) -> None:
            tries.append(events)
            write(log, events)

        monkeypatch.setattr(UsageLog, "_write", noted)
        with locked(path):
            async with running(path) as log:
                log.record(call())
                await until(lambda: len(tries) > 4)
        assert len(warnings(caplog)) == 1
        assert log.n_lost == 1


class TestDamaged:
    async def test_logging_stops_with_one_warning_and_the_file_stays(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(path, b"no log" * 1000)
        async with running(path) as log:
            log.record(call())
            await until(lambda: log.problem is not None)
            log.record(call())
            await flushed(log)
            assert log.health() == {"state": "stopped", "cause": "foreign", "n_written": 0, "n_waiting": 0, "n_lost": 2}
        assert len(warnings(caplog)) == 1
        assert bytes_of(path) == b"no log" * 1000

    async def test_a_file_that_is_damaged_behind_its_header_stops_logging(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = UsageStore(path, BOUNDS)
        store.write([call(n) for n in range(2000)])
        store.close()
        whole = bytes_of(path)
        put(path, whole[:4096] + bytes(255 for _ in whole[4096:]))
        async with running(path) as log:
            log.record(call())
            await until(lambda: log.problem is not None)
            assert log.health()["state"] == "stopped"
        assert len(warnings(caplog)) == 1
        assert warnings(caplog)[0].startswith("the usage log is damaged")


class TestMemory:
    async def test_it_is_bounded_while_nothing_can_be_written(self, path: Path) -> None:
        log = quick_log(path, most_bytes=700_000)
        for number in range(5000):
            log.record(call(number))
        assert log.health()["n_waiting"] == 1000
        assert log.n_lost == 4000

    async def test_the_oldest_go_first_and_words_weigh(self, path: Path) -> None:
        log = quick_log(path, most_bytes=100_000)
        for number in range(10):
            log.record(call(number, request="x" * 10_000))
        task = asyncio.create_task(log.run())
        await flushed(log)
        task.cancel()
        await asyncio.wait([task])
        assert turns(path) == [8, 9]
        assert log.n_lost == 8

    @pytest.mark.usefixtures("impatient")
    async def test_what_could_not_be_written_may_find_no_room_any_more(self, path: Path) -> None:
        with locked(path) as other:
            async with running(path, most_bytes=2 * 700) as log:
                log.record(call(1))
                await until(lambda: log.problem is not None)
                log.record(call(2))
                log.record(Listed(NOW_MS, "demo", "ping"))
                other.execute("ROLLBACK")
                await flushed(log)
        assert turns(path) == [2]
        assert log.n_lost == 1


class TestPruning:
    async def test_a_log_that_grows_keeps_its_bound(self, path: Path) -> None:
        bounds = UsageBounds(rows=500, free_bytes=0)
        async with running(path, bounds) as log:
            for _ in range(30):
                for number in range(100):
                    log.record(call(number))
                await flushed(log)
        assert len(turns(path)) <= 500 + 10

    async def test_what_is_too_old_goes_at_the_start_though_nothing_is_recorded(self, path: Path) -> None:
        store = UsageStore(path, BOUNDS)
        store.write([call(1, at_ms=0), call(2, at_ms=int(time.time() * 1000))])
        store.close()
        async with running(path):
            await until(lambda: turns(path) == [2])


async def test_a_stop_that_comes_with_an_event_is_a_stop(path: Path) -> None:
    log = quick_log(path)
    running_log = asyncio.create_task(log.run())
    log.record(call())
    await flushed(log)
    log.record(call(2))
    running_log.cancel()
    await asyncio.wait([running_log])
    assert turns(path) == [0, 2]


async def test_no_secret_is_ever_in_the_files_bytes(path: Path) -> None:
    async with running(path) as log:
        log.record(call(request="deploy with sk-ant-api03-Zm9vYmFyYmF6cXV4 for anna@example.org at 10.1.2.3"))
        log.record(Search(NOW_MS, "demo", 0, request="card 4111 1111 1111 1111"))
        await flushed(log)
        on_disk = bytes_of(path)
    for secret in (b"sk-ant", b"anna@", b"10.1.2.3", b"4111"):
        assert secret not in on_disk
    assert b"deploy with" in on_disk
