"""The breaker: a graph that keeps failing is left alone, then tried by one request."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.graph.breaker import Breaker
from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.selection.model import Resolution
from tests.graph.records import examples, record
from tests.graph.wrapped import Held, Live, patient, running

pytestmark = pytest.mark.anyio

FAILED = Resolution("unavailable", cause="failed")


async def test_opens_after_three_failures_and_half_opens_for_one(tmp_path: Path) -> None:
    seconds, real = [0.0], EmbeddedGraph(tmp_path / "g.lbdb")
    graph = Held(real)
    orchestrator = patient(graph, Live([record("dns_read")]), clock=lambda: seconds[0])
    async with running(orchestrator):
        await orchestrator.resolve("dns", "s")
        await real.close()
        before = graph.n_reads
        for number in range(10):
            assert await orchestrator.resolve(f"closed {number}", "s") == FAILED
        assert graph.n_reads - before == 3
        assert await orchestrator.resolve("dns", "s") == Resolution.of_names("fresh", ("dns_read",)), (
            "the cache still answers"
        )
        assert orchestrator.health("s")["cause"] == "failed"

        seconds[0] += 5.1
        for number in range(10):
            assert await orchestrator.resolve(f"half open {number}", "s") == FAILED
        assert graph.n_reads - before == 4

        await real.open()
        assert await orchestrator.resolve("still closed", "s") == FAILED
        seconds[0] += 5.1
        assert await orchestrator.resolve("dns_", "s") == Resolution.of_names("fresh", ("dns_read",))
        assert await orchestrator.resolve("again", "s") == Resolution("no_match")
        assert "cause" not in orchestrator.health("s")


async def test_one_warning_when_it_fails_and_one_line_when_it_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seconds, real = [0.0], EmbeddedGraph(tmp_path / "g.lbdb")
    orchestrator = patient(real, Live([record("dns_read")]), clock=lambda: seconds[0])
    async with running(orchestrator):
        caplog.clear()
        caplog.set_level("INFO", "agent_utilities.graph")
        await real.close()
        for number in range(10):
            seconds[0] += 6
            await orchestrator.resolve(f"closed {number}", "s")
        await real.open()
        seconds[0] += 6
        await orchestrator.resolve("open", "s")
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert "graph failed" in caplog.records[0].message
        assert caplog.records[1].message == "graph answers (embedded)"


class TestHalfOpen:
    """Asked by callers that do not wait for one another: outcomes come whenever they come."""

    @staticmethod
    def opened(seconds: list[float]) -> Breaker:
        """Return one that was opened at second 0 and may be tried from second 5 on."""
        breaker = Breaker(3, 5.0, lambda: seconds[0])
        for _ in range(3):
            assert breaker.allows()
        for _ in range(3):
            breaker.failed("failed")
        return breaker

    def test_lets_one_of_many_through(self) -> None:
        seconds = [0.0]
        breaker = self.opened(seconds)
        seconds[0] = 5.0
        assert [breaker.allows() for _ in range(10)] == [True] + [False] * 9

    def test_lets_nobody_else_through_before_it_is_told_the_outcome(self) -> None:
        seconds = [0.0]
        breaker = self.opened(seconds)
        seconds[0] = 5.0
        assert breaker.allows()
        for seconds[0] in (5.0, 9.9, 10.0, 15.0, 30.0):
            assert not breaker.allows(), f"at second {seconds[0]}"

    def test_waits_again_from_when_the_probe_failed(self) -> None:
        seconds = [0.0]
        breaker = self.opened(seconds)
        seconds[0] = 5.0
        assert breaker.allows()
        seconds[0] = 7.0
        breaker.failed("failed")
        for seconds[0], allowed in ((7.0, False), (11.9, False), (12.0, True), (12.0, False)):
            assert breaker.allows() == allowed, f"at second {seconds[0]}"

    def test_lets_everybody_through_once_the_probe_succeeded(self) -> None:
        seconds = [0.0]
        breaker = self.opened(seconds)
        seconds[0] = 5.0
        assert breaker.allows()
        breaker.succeeded()
        assert [breaker.allows() for _ in range(10)] == [True] * 10

    def test_a_probe_that_is_lost_does_not_keep_it_shut_for_good(self) -> None:
        seconds = [0.0]
        breaker = self.opened(seconds)
        seconds[0] = 5.0
        assert breaker.allows()
        seconds[0] = 3600.0
        assert [breaker.allows() for _ in range(3)] == [True, False, False]


@examples(5)
@given(st.lists(st.tuples(st.sampled_from(["ok", "fail"]), st.floats(0, 4))))
def test_any_course_of_events_keeps_its_rules(events: list[tuple[str, float]]) -> None:
    """It lets everything through until three failures in a row, then one call for each five seconds."""
    seconds, in_a_row, probed_at = [0.0], 0, float("-inf")
    breaker = Breaker(3, 5.0, lambda: seconds[0])
    for outcome, pause_s in events:
        seconds[0] += pause_s
        allowed = breaker.allows()
        assert allowed == (in_a_row < 3 or seconds[0] - probed_at >= 5.0)
        if not allowed:
            continue
        if outcome == "ok":
            in_a_row = 0
            breaker.succeeded()
        else:
            in_a_row += 1
            breaker.failed("failed")
        probed_at = seconds[0]
        assert breaker.is_open == (in_a_row >= 3)
