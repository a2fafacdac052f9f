"""The log of one process: what it writes, when it is full or old, and what it does on disks that are full or hang."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import stat
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_utilities.access.record.chain import Head, write_line
from agent_utilities.access.record.log import AuditLog, RecordError, RecordFile, all_files, full_files
from tests.access.record.records import audit_log, fill, of_file, running, said, write
from tests.every import every
from tests.usage.logs import until

pytestmark = pytest.mark.anyio
_MOUNTS = pytest.mark.outside
CALL = {"event": "call"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "audit.jsonl"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of 64 KiB, which only root can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.name == "nt" or os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted: needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


class TestWrites:
    async def test_one_line_for_each_note_in_its_order(self, path: Path) -> None:
        await write(path, 3)
        assert said(path) == ["opened", "call", "call", "call", "closed"]
        assert said(path, "n") == [0, 1, 2, 3, 4]

    async def test_the_head_is_that_of_the_file(self, path: Path) -> None:
        head = await write(path, 3)
        assert [chain.head for chain in of_file(path, head).chains.values()] == [head]

    async def test_that_stays_open_keeps_no_other_from_writing(self, path: Path) -> None:
        async with running(path) as one, running(path) as other:
            for log in (one, other, one):
                await log.written(lambda: CALL)

    async def test_a_line_says_when_it_was_noted(self, path: Path) -> None:
        before = datetime.now(UTC) - timedelta(milliseconds=1)
        await write(path, 1)
        assert all(before <= datetime.fromisoformat(at) <= datetime.now(UTC) for at in said(path, "at"))

    async def test_only_its_user_may_read_it(self, path: Path) -> None:
        await write(path, 1, max_bytes=300)
        assert len(all_files(path)) >= 2
        assert {stat.S_IMODE(file.stat().st_mode) for file in all_files(path)} == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    async def test_a_process_that_starts_again_begins_another_chain(self, path: Path) -> None:
        heads = [await write(path, 3), await write(path, 3)]
        assert [chain.head for chain in of_file(path, *heads).chains.values()] == heads

    async def test_the_line_after_a_piece_stands_alone(self, path: Path) -> None:
        await write(path, 1)
        with path.open("ab") as file:
            file.write(b'{"chain":"00')
        await write(path, 1)
        report = of_file(path)
        assert (report.tampering, len(report.torn), len(report.chains)) == ([], 1, 2)

    async def test_a_line_that_can_not_be_made_keeps_no_other_back(self, path: Path) -> None:
        async with running(path) as log:
            log.note(lambda: {}["gone"])
            await log.written(lambda: CALL)
        assert said(path) == ["opened", "unreadable", "call", "closed"]

    async def test_a_line_that_json_can_not_have_keeps_no_other_back(self, path: Path) -> None:
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]
        async with running(path) as log:
            await log.written(lambda: {**CALL, "deep": deep})
            await log.written(lambda: CALL)
        assert said(path) == ["opened", "unreadable", "call", "closed"]
        assert said(path, "reason")[1] == "RecursionError"

    async def test_nothing_of_whoever_waited_is_kept(self, path: Path) -> None:
        class Request:
            """What a context leads to."""

        in_force: ContextVar[Request] = ContextVar("in_force")
        seen: list[weakref.ref[Request]] = []

        async def wait(log: AuditLog) -> None:
            in_force.set(request := Request())
            seen.append(weakref.ref(request))
            await log.written(lambda: CALL)

        earlier = asyncio.get_running_loop().call_later(2, lambda: None)  # behind which cancelled timers stay
        async with running(path) as log:
            await asyncio.create_task(wait(log))
            await asyncio.sleep(0)  # the loop holds the task that has just ended
            gc.collect()
            assert seen[0]() is None
        earlier.cancel()

    async def test_whoever_stopped_waiting_has_no_line(self, path: Path) -> None:
        log = audit_log(path)
        waiting = asyncio.create_task(log.written(lambda: {"event": "given up"}))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        log.start()
        await log.close({"event": "closed"})
        assert said(path) == ["opened", "closed"]

    async def test_nothing_is_written_through_a_link(self, path: Path, tmp_path: Path) -> None:
        path.parent.mkdir()
        os.symlink(tmp_path / "elsewhere", path)
        async with running(path, end_s=0.1) as log:
            with pytest.raises(RecordError):
                await log.written(lambda: CALL)
        assert not (tmp_path / "elsewhere").exists()


class TestFullAndOldFiles:
    async def test_one_that_is_full_is_put_aside_and_the_chain_goes_on(self, path: Path) -> None:
        head = await write(path, 200, max_bytes=4_000)
        assert len(full_files(path)) > 5
        assert all(file.stat().st_size <= 4_000 for file in all_files(path))
        report = of_file(path, head)
        assert (report.tampering, report.torn, len(report.chains)) == ([], [], 1)

    async def test_a_full_file_that_is_gone_is_found(self, path: Path) -> None:
        head = await write(path, 200, max_bytes=4_000)
        full_files(path)[2].unlink()
        assert len(of_file(path, head).tampering) == 1

    async def test_one_that_is_old_is_put_aside(self, path: Path) -> None:
        await write(path, 1)
        await write(path, 1, max_age_s=-1)
        assert len(full_files(path)) >= 1

    async def test_one_whose_first_line_is_old_is_put_aside_at_a_start(self, path: Path) -> None:
        (file := RecordFile(path, 1 << 20, 1e9)).append(write_line(Head.of_new_chain(), time.time() - 120, CALL)[0])
        file.close()
        await write(path, 1, max_age_s=60)
        assert said(full_files(path)[0]) == ["call"]

    async def test_one_that_is_not_old_is_written_on_after_a_start(self, path: Path) -> None:
        await write(path, 1)
        await write(path, 1, max_age_s=60)
        assert full_files(path) == []

    async def test_one_whose_first_line_was_changed_is_written_on(self, path: Path) -> None:
        await write(path, 1)
        rewrite(path, lambda text: re.sub(r'"at":"[^"]*"', '"at":"never"', text, count=1))
        await write(path, 1)
        assert said(path) == ["opened", "call", "closed"] * 2

    async def test_names_sort_by_age_where_the_clock_was_put_back(self, path: Path) -> None:
        path.parent.mkdir()
        later = path.with_name("audit-20990101T000000.000000Z.jsonl")
        later.touch()
        await write(path, 1, max_bytes=300)
        assert full_files(path)[0] == later

    @every(
        "name",
        [
            "audit-20260101T000000.000001-copyZ.jsonl",
            "audit-20260101T000000.000001Z (1).jsonl",
            "audit-20260101T000000.00000Z.jsonl",
            "audit-20260101T000000.0000001Z.jsonl",
            "audit-20260101T000000Z.jsonl",
            "audit-20261301T000000.000001Z.jsonl",
            "audit-20260230T000000.000001Z.jsonl",
            "audit-20260101T250000.000001Z.jsonl",
            "audit-00000101T000000.000001Z.jsonl",
            "audit-20260101T000000.000001z.jsonl",
            "audit-٢٠٢٦0101T000000.000001Z.jsonl",
            "audit-Z.jsonl",
            "audit--20260101T000000.000001Z.jsonl",
            "audit-20260101T000000.000001Z.jsonl.bak",
            "audit-b-20260101T000000.000001Z.jsonl",
        ],
    )
    async def test_another_whose_name_is_nearly_that_of_one_counts_for_nothing(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / "made" / "audit.jsonl"
        path.parent.mkdir()
        path.with_name(name).write_text("somebody else's")
        head = await write(path, 20, max_bytes=2_000)
        assert len(full_files(path)) > 1
        assert path.with_name(name) not in full_files(path)
        assert of_file(path, head).tampering == []

    async def test_a_folder_with_the_name_of_one_counts_for_nothing(self, path: Path) -> None:
        path.with_name("audit-20260101T000000.000001Z.jsonl").mkdir(parents=True)
        head = await write(path, 20, max_bytes=2_000)
        assert len(full_files(path)) > 1
        assert of_file(path, head).tampering == []

    async def test_one_of_the_last_moment_there_is_keeps_nothing_from_being_written(self, path: Path) -> None:
        path.parent.mkdir()
        last = path.with_name("audit-99991231T235959.999999Z.jsonl")
        last.touch()
        head = await write(path, 20, max_bytes=2_000)
        assert full_files(path)[-1] == last
        assert of_file(path, head).tampering == []

    async def test_several_may_write_and_put_aside_one_file(self, path: Path) -> None:
        heads = await asyncio.gather(*(write(path, 100, max_bytes=8_000) for _ in range(4)))
        report = of_file(path, *heads)
        assert (report.tampering, report.torn) == ([], [])
        assert sorted(chain.n_lines for chain in report.chains.values()) == [102] * 4


@_MOUNTS
class TestFullDisk:
    async def test_whoever_waits_for_a_line_is_told_until_there_is_room(self, disk: Path) -> None:
        path = disk / "audit.jsonl"
        async with running(path) as log:
            await log.written(lambda: CALL)
            filler = fill(disk)
            # What a page of the file has free still goes in.
            with pytest.raises(RecordError, match="No space left"):
                await log.written(lambda: {**CALL, "text": "x" * 5_000})
            assert (log.health()["state"], log.health()["cause"]) == ("failing", "No space left on device")
            n_before = log.n_written
            filler.unlink()
            await log.written(lambda: {"event": "again"})
            assert log.health()["state"] == "writing"
        assert said(path)[n_before:] == ["again", "closed"]
        report = of_file(path, log.head)
        assert (report.tampering, report.torn) == ([], [])

    async def test_what_nobody_waits_for_is_kept_then_lost_and_told(
        self, disk: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = disk / "audit.jsonl"
        async with running(path, most_lines=50) as log:
            await log.written(lambda: CALL)
            filler = fill(disk)
            n_noted = sum(log.note(lambda: {**CALL, "text": "x" * 500}) for _ in range(120))
            await until(lambda: log.problem != "")
            n_noted += sum(log.note(lambda: {**CALL, "text": "x" * 500}) for _ in range(120))
            n_lost = 240 - n_noted
            assert log.health() == {**log.health(), "state": "failing", "n_lost": n_lost}
            filler.unlink()
            await until(lambda: log.health()["n_waiting"] == 0)
        events = said(path)
        assert events.count("call") == 1 + n_noted
        lost = [json.loads(text)["n_lines"] for text in path.read_text().splitlines() if '"event":"lost"' in text]
        assert sum(lost) == n_lost > 0
        assert of_file(path, log.head).tampering == []
        levels = [record.levelno for record in caplog.records if record.name == "agent_utilities.audit"]
        assert levels == [logging.ERROR, logging.ERROR, logging.WARNING]  # lost, can't be written, written again


class HangingFile(RecordFile):
    """A real file whose disk does not answer until it is told to."""

    answers = threading.Event()

    def append(self, data: bytes) -> None:
        self.answers.wait()
        super().append(data)


class TestHangingDisk:
    @pytest.fixture
    def hanging(self, path: Path) -> Iterator[AuditLog]:
        log = audit_log(path, limit_s=0.05, most_lines=10, end_s=0.05)
        log.file = HangingFile(path, 1 << 20, 86_400)
        log.file.answers = threading.Event()
        yield log
        log.file.answers.set()

    async def test_delays_nobody_who_does_not_wait(self, hanging: AuditLog) -> None:
        hanging.start()
        noted = [hanging.note(lambda: CALL) for _ in range(30)]
        assert noted == [True] * 9 + [False] * 21  # the first line waits too
        await until(lambda: hanging.health()["state"] == "hanging")
        assert hanging.health()["n_lost"] == 21

    async def test_whoever_waits_is_told_and_has_no_line_later(self, hanging: AuditLog, path: Path) -> None:
        hanging.start()
        await until(lambda: hanging._busy_since_s is not None)
        with pytest.raises(RecordError, match="has not answered"):
            await hanging.written(lambda: {"event": "given up"})
        hanging.file.answers.set()  # type: ignore[attr-defined]
        hanging.limit_s = 60.0  # however busy this machine is
        await hanging.written(lambda: {"event": "again"})
        await hanging.close({"event": "closed"})
        assert said(path) == ["opened", "again", "closed"]

    async def test_delays_no_stop_for_long(self, hanging: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
        hanging.start()
        await hanging.close({"event": "closed"})
        assert "ends without 2 lines: hanging" in caplog.text
