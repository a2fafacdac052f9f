"""The breaker: a graph that keeps failing is left alone, then tried by one request."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.selection.model import Resolution
from tests.query.graph.records import record
from tests.query.graph.wrapped import Held, Live, patient, running
from tests.resolutions import answer_of

pytestmark = pytest.mark.anyio

FAILED = Resolution("unavailable", cause="failed")


async def test_opens_after_three_failures_and_half_opens_for_one(tmp_path: Path) -> None:
    seconds, real = [0.0], EmbeddedGraph(tmp_path / "g.lbdb")
    graph = Held(real)
    pipeline = patient(graph, Live([record("dns_read")]), clock=lambda: seconds[0])
    async with running(pipeline):
        await pipeline.resolve("dns")
        await real.close()
        before = graph.n_reads
        for number in range(10):
            assert await pipeline.resolve(f"closed {number}") == FAILED
        assert graph.n_reads - before == 3
        assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_read",)), "the cache still answers"
        assert pipeline.keeper.health()["cause"] == "failed"

        seconds[0] += 5.1
        for number in range(10):
            assert await pipeline.resolve(f"half open {number}") == FAILED
        assert graph.n_reads - before == 4

        await real.open()
        assert await pipeline.resolve("still closed") == FAILED
        seconds[0] += 5.1
        assert await pipeline.resolve("dns_") == answer_of("fresh", ("dns_read",))
        assert await pipeline.resolve("again") == Resolution("no_match")
        assert "cause" not in pipeline.keeper.health()


async def test_one_warning_when_it_fails_and_one_line_when_it_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seconds, real = [0.0], EmbeddedGraph(tmp_path / "g.lbdb")
    pipeline = patient(real, Live([record("dns_read")]), clock=lambda: seconds[0])
    async with running(pipeline):
        caplog.clear()
        caplog.set_level("INFO", "agent_utilities.graph")
        await real.close()
        for number in range(10):
            seconds[0] += 6
            await pipeline.resolve(f"closed {number}")
        await real.open()
        seconds[0] += 6
        await pipeline.resolve("open")
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert "graph failed" in caplog.records[0].message
        assert caplog.records[1].message == "graph answers (embedded)"
