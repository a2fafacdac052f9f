"""Disks that are full or may not be written, folders that go, and files that other processes keep: no mocks."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.usage.logs import call, flushed, running, turns, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_utilities.usage.database._WRITER_BUSY_S", 0.01)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of 1 MiB, which only root can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.name == "nt" or os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted: needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


@contextmanager
def locked_elsewhere(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Keep a file locked by another process, until that is killed."""
    command = [sys.executable, "-c", _LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        yield other


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.levelname, each.getMessage().partition(":")[0]) for each in caplog.records]


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_a_full_disk_stops_logging_until_there_is_room(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = disk / "usage.db"
    async with running(path) as log:
        log.record(call(0))
        await flushed(log)
        fill(disk / "filler")
        for number in range(1, 3000):
            log.record(call(number, request="x" * 100))
        await until(lambda: log.problem is not None)
        assert log.health()["cause"] == "full"
        (disk / "filler").unlink()
        await flushed(log)
        assert log.health()["state"] == "logging"
    assert turns(path) == list(range(3000))
    assert said(caplog) == [
        ("WARNING", "no room for the usage log"),
        ("INFO", "the usage log is written again; 0 events are lost"),
    ]


async def test_a_disk_that_is_full_at_the_start_is_waited_for(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = disk / "usage.db"
    fill(disk / "filler")
    async with running(path) as log:
        log.record(call(1))
        await until(lambda: log.problem is not None)
        (disk / "filler").unlink()
        await flushed(log)
    assert turns(path) == [1]
    assert [level for level, _ in said(caplog)] == ["WARNING", "INFO"]


async def test_a_disk_that_may_not_be_written_stops_logging(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = disk / "usage.db"
    async with running(path) as log:
        log.record(call(1))
        await flushed(log)
    with read_only(disk):
        async with running(path) as log:
            log.record(call(2))
            await until(lambda: log.problem is not None)
            assert log.health()["cause"] == "read-only"
        assert log.n_lost == 1
    assert turns(path) == [1]
    assert said(caplog) == [("WARNING", "the usage log can't be read or written")]


async def test_a_folder_that_can_not_be_made_stops_logging(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    with read_only(disk):
        async with running(disk / "state" / "usage.db") as log:
            log.record(call(1))
            await until(lambda: log.problem is not None)
            assert log.health()["cause"] == "read-only"
    assert said(caplog) == [("WARNING", "the usage log can't be read or written")]


async def test_a_folder_that_is_deleted_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state" / "usage.db"
    async with running(path) as log:
        log.record(call(1))
        await flushed(log)
        remove(path.parent)
        log.record(call(2))
        await flushed(log)
    assert turns(path) == [2]
    assert said(caplog) == []


async def test_a_process_that_keeps_the_file_locked_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "usage.db"
    async with running(path) as log:
        log.record(call(1))
        await flushed(log)
        with locked_elsewhere(path) as other:
            log.record(call(2))
            await until(lambda: log.problem is not None)
            assert log.health()["cause"] == "locked"
            other.kill()
        await flushed(log)
    assert turns(path) == [1, 2]
    assert [level for level, _ in said(caplog)] == ["WARNING", "INFO"]


def test_several_processes_make_and_write_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "usage.db"
    writers = [subprocess.Popen([sys.executable, "-c", _WRITE, str(path), str(n)]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    assert sorted(turns(path)) == sorted(list(range(300)) * 4)


def fill(path: Path) -> None:
    """Write a file until its disk is full."""
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""
_WRITE = """
import asyncio, sys
from pathlib import Path
from agent_utilities.usage.model import UsageBounds
from agent_utilities.usage.model import Call
from agent_utilities.usage.log import UsageLog

async def main():
    log = UsageLog(Path(sys.argv[1]), UsageBounds(days=3650, free_bytes=0))
    log.batch_s = 0.0
    task = asyncio.create_task(log.run())
    for number in range(300):
        log.record(Call(1_780_000_000_000 + number, "demo", "ping", session=sys.argv[2], turn=number))
        if number % 30 == 0:
            await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait([task])

asyncio.run(main())
"""
