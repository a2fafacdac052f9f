"""One deadline for a whole query: no wait begins it anew, no step gets more than its share, no close takes for ever."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.resolution.answer import Limits, Question, Ranked
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import Resolution
from tests.query.graph.records import record
from tests.query.graph.wrapped import Held, Live, patient, running, until

pytestmark = pytest.mark.anyio
TOOLS = [record("dns_read"), record("git_read")]
LONG_S = 3_600.0


class Noting:
    """A ranker that notes until when it may take."""

    version = "1"

    def __init__(self) -> None:
        self.deadlines: list[Deadline] = []

    def version_for(self, scope: str) -> str:
        return self.version

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        self.deadlines.append(deadline)
        return None


class Endless(Held):
    """A graph that never lets go."""

    async def close(self) -> None:
        await asyncio.Event().wait()


async def test_a_caller_that_has_waited_already_waits_no_longer_than_its_deadline() -> None:
    graph = Held(EmbeddedGraph(None))
    pipeline = patient(graph, Live(TOOLS), deadline_s=LONG_S, limits=Limits(statement_s=LONG_S))
    async with running(pipeline), asyncio.timeout(60):
        graph.hold(reads=True)
        answer = await pipeline.resolve("dns", deadline=Deadline.after(0.01))
        assert answer == Resolution("unavailable", cause="too slow")
        graph.release()


async def test_waiting_for_the_fill_ends_at_the_deadline() -> None:
    graph = Held(EmbeddedGraph(None), writes=True)
    pipeline = patient(graph, Live(TOOLS), deadline_s=LONG_S)
    async with running(pipeline, wait=False), asyncio.timeout(60):
        await pipeline.keeper.filled(Deadline.after(0.01))
        assert not pipeline.keeper.first_try_done.is_set()
        graph.release()


async def test_a_ranker_gets_a_share_of_what_is_left_of_the_query() -> None:
    ranker = Noting()
    pipeline = patient(EmbeddedGraph(None), Live(TOOLS), deadline_s=LONG_S, ranker=ranker)
    async with running(pipeline):
        deadline = Deadline.after(LONG_S)
        await pipeline.resolve("dns", deadline=deadline)
        (given,) = ranker.deadlines
        assert given.left_s <= 0.8 * LONG_S < deadline.left_s


async def test_a_graph_that_never_closes_does_not_keep_the_server_from_stopping() -> None:
    graph = Endless(EmbeddedGraph(None))
    pipeline = patient(graph, Live(TOOLS), deadline_s=LONG_S, limits=Limits(close_s=0.01))
    async with running(pipeline) as task:
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done == {task}
    await graph.graph.close()


async def test_what_is_remembered_is_bounded_and_the_rest_is_asked_again() -> None:
    graph = Held(EmbeddedGraph(None))
    limits = Limits(cache_bytes=5_000)
    pipeline = patient(graph, Live(TOOLS), deadline_s=LONG_S, limits=limits)
    async with running(pipeline):
        for i in range(50):
            await pipeline.resolve(f"dns {i}")
        n_reads = pipeline.n_reads
        await pipeline.resolve("dns 49")
        assert pipeline.n_reads == n_reads
        await pipeline.resolve("dns 0")
        assert pipeline.n_reads == n_reads + 1


async def test_a_query_of_a_stopped_pipeline_is_answered_at_once() -> None:
    pipeline = patient(EmbeddedGraph(None), Live(TOOLS), deadline_s=LONG_S)
    async with running(pipeline):
        await until(lambda: pipeline.keeper.is_idle, "filled")
    async with asyncio.timeout(60):
        assert (await pipeline.resolve("dns")).cause == "being filled"
