"""Age: by UTC epoch, whatever the time zone, and whichever way the clock is set."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import server_state
from agent_utilities.query.resolution.answer import Limits
from tests.every import every
from tests.query.graph.records import record
from tests.query.graph.wrapped import Live, patient, running, until
from tests.resolutions import answer_of

pytestmark = pytest.mark.anyio

START_S = 1_800_000_000.0
HOUR_S = 3600.0
TOOLS = [record("dns_read", "dns")]
ANSWER = ("dns_read",)


class Clock:
    """A clock that a test sets."""

    def __init__(self, seconds: float = START_S) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "America/Adak", "Asia/Kathmandu"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The process's time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


class TestAge:
    async def test_a_day_is_fresh_and_a_clock_that_stepped_makes_it_old(self) -> None:
        statuses = {0: "fresh", 23.9: "fresh", 24.1: "stale", 9_000: "stale", -0.05: "fresh", -1: "stale"}
        found = {}
        for hours in statuses:
            now = Clock()
            pipeline = patient(EmbeddedGraph(None), Live(TOOLS), now=now)
            async with running(pipeline):
                now.seconds += hours * HOUR_S
                found[hours] = (await pipeline.resolve("dns")).status
        assert found == statuses

    async def test_the_time_to_live_is_the_operators(self, tmp_path: Path) -> None:
        now = Clock()
        graph = EmbeddedGraph(tmp_path / "g.lbdb")
        pipeline = patient(graph, Live(TOOLS), now=now, ttl_hours=0.5)
        async with running(pipeline):
            now.seconds += 0.6 * HOUR_S
            assert (await pipeline.resolve("dns")).status == "stale"

    async def test_is_the_same_in_every_time_zone(self, tmp_path: Path, zone: str) -> None:
        now, path = Clock(), tmp_path / "g.lbdb"
        async with running(patient(EmbeddedGraph(path), Live(TOOLS), now=now)):
            pass
        time.tzset()
        graph = EmbeddedGraph(path)
        await graph.open()
        state = await server_state(graph, "s")
        await graph.close()
        assert state is not None
        assert state.updated_at_ms == START_S * 1000
        now.seconds += 23.9 * HOUR_S
        live = Live(TOOLS)
        live.hold()
        pipeline = patient(EmbeddedGraph(path), live, now=now)
        async with running(pipeline, wait=False):
            await until(lambda: pipeline.keeper.cause is None, "opened")
            assert await pipeline.resolve("dns") == answer_of("fresh", ANSWER)
            assert pipeline.keeper.health()["age_s"] == round(23.9 * HOUR_S)
            live.release()


class TestStale:
    @every("step_s", [25 * HOUR_S, -2 * HOUR_S])
    async def test_answers_now_and_refreshes_behind_once(self, step_s: float) -> None:
        now, live = Clock(), Live(TOOLS)
        pipeline = patient(EmbeddedGraph(None), live, now=now)
        async with running(pipeline):
            now.seconds += step_s
            live.hold()
            for _ in range(20):
                assert await pipeline.resolve("dns") == answer_of("stale", ANSWER)
            await live.reached.wait()
            assert pipeline.keeper.n_refreshes == 2
            live.release()
            await until(lambda: pipeline.keeper.is_idle, "refreshed")
            assert await pipeline.resolve("dns") == answer_of("fresh", ANSWER)
            assert pipeline.keeper.n_refreshes == 2
            assert pipeline.keeper.health()["age_s"] == 0

    async def test_a_refresh_that_fails_is_tried_again_after_a_pause(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        now, live = Clock(), Live(TOOLS)
        graph = EmbeddedGraph(tmp_path / "g.lbdb")
        pipeline = patient(graph, live, now=now, limits=Limits(retry_s=(0.2,)))
        with caplog.at_level("WARNING", "agent_utilities.graph"):
            async with running(pipeline):
                await pipeline.resolve("dns")
                now.seconds += 25 * HOUR_S
                await graph.close()
                await pipeline.resolve("dns")
                await until(lambda: caplog.records, "refresh failed")
                for _ in range(5):
                    assert await pipeline.resolve("dns") == answer_of("stale", ANSWER)
                assert pipeline.keeper.n_refreshes == 2
                await graph.open()
                await until(lambda: pipeline.keeper.is_idle, "refreshed without being asked")
                assert await pipeline.resolve("dns") == answer_of("fresh", ANSWER)
        assert len(caplog.records) == 1
