"""What usage teaches is read behind everything: never waited for, again when the log grows, apart for each scope."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_utilities.query.resolution.teaching import Teaching
from agent_utilities.usage.model import NOBODY, NOTHING_LEARNED, Learned, UsageSource

pytestmark = pytest.mark.anyio


class Log:
    """A log that teaches what it is told to, and may fail; it counts how often there was other to learn of it."""

    def __init__(self) -> None:
        self.taught: dict[str, Learned] = {}
        self.error: Exception | None = None
        self.n_told = self.n_read = 0

    def read(self, scope: str) -> Learned:
        self.n_read += 1
        if self.error is not None:
            raise self.error
        return self.taught.get(scope, NOTHING_LEARNED)

    def changed(self) -> None:
        self.n_told += 1


@asynccontextmanager
async def learning(log: Log) -> AsyncIterator[Teaching]:
    kept = Teaching(UsageSource(log.read, is_shared=False), None, log.changed, gap_s=0)
    running = asyncio.create_task(kept.run())
    yield kept
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_who_asks_first_is_told_nothing_and_who_asks_later_what_was_read() -> None:
    log = Log()
    log.taught[""] = Learned("1", {"read_file": 1.0})
    async with learning(log) as kept:
        assert kept.of("").learned == NOTHING_LEARNED
        await kept.settled.wait()
        assert kept.of("").learned.uses == {"read_file": 1.0}
        assert log.n_told == 1


async def test_a_log_that_grew_is_read_again() -> None:
    log = Log()
    async with learning(log) as kept:
        kept.of("")
        await kept.settled.wait()
        log.taught[""] = Learned("2")
        kept.news()
        await kept.settled.wait()
        assert kept.of("").learned.version == "2"


async def test_nothing_is_told_twice() -> None:
    log = Log()
    log.taught[""] = Learned("1")
    async with learning(log) as kept:
        kept.of("")
        await kept.settled.wait()
        kept.news()
        await kept.settled.wait()
        assert (log.n_read, log.n_told) == (2, 1)


async def test_one_subject_learns_nothing_of_another() -> None:
    log = Log()
    log.taught = {"anna": Learned("a", {"pay": 9.0}), "bert": Learned("b")}
    async with learning(log) as kept:
        kept.of("anna"), kept.of("bert")
        await kept.settled.wait()
        assert kept.of("bert").learned.uses == {}


async def test_nobody_is_never_read() -> None:
    log = Log()
    log.taught[NOBODY] = Learned("1", {"pay": 9.0})
    async with learning(log) as kept:
        assert kept.of(NOBODY).learned == NOTHING_LEARNED
        kept.news()
        assert (kept.health()["scopes"], log.n_read) == (0, 0)


async def test_a_log_that_cannot_be_read_leaves_what_was_learned_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log()
    log.taught[""] = Learned("1")
    async with learning(log) as kept:
        kept.of("")
        await kept.settled.wait()
        log.error = OSError("disk I/O error")
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                kept.news()
                await kept.settled.wait()
        assert kept.of("").learned.version == "1"
        assert [record.message for record in caplog.records] == [
            "can't read the usage log (disk I/O error); what was learned before is used on"
        ]


async def test_no_more_than_64_subjects_are_kept() -> None:
    log = Log()
    async with learning(log) as kept:
        for number in range(100):
            kept.of(f"subject-{number}")
        await kept.settled.wait()
        assert kept.health()["scopes"] == 64


async def test_what_everybody_did_is_read_before_anybody_asks() -> None:
    log = Log()
    log.taught[""] = Learned("1")
    kept = Teaching(UsageSource(log.read), None, log.changed, gap_s=0)
    running = asyncio.create_task(kept.run())
    await kept.settled.wait()
    running.cancel()
    assert (kept.of("").learned.version, log.n_told) == ("1", 1)


async def test_a_log_that_takes_long_to_read_is_let_alone_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    paused = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        paused.set()
        await asyncio.Event().wait()

    log = Log()
    read = log.read

    def slowly(scope: str) -> Learned:
        time.sleep(0.05)
        return read(scope)

    monkeypatch.setattr(log, "read", slowly)
    async with learning(log) as kept:
        monkeypatch.setattr("agent_utilities.query.resolution.teaching.asyncio.sleep", pause)
        kept.of("")
        await paused.wait()
    assert pauses[0] >= 20 * 0.05
