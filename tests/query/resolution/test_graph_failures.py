"""Who is let through to a graph that failed, and what a failure leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.selection.model import Resolution
from agent_utilities.testing import Clock
from tests.query.graph.records import record
from tests.query.graph.wrapped import Held, Live, patient, running

pytestmark = pytest.mark.anyio
TOOLS = [record("dns_read"), record("git_read")]
PAUSE_S = 5.1


class Broken(Held):
    """A graph whose reads fail where a test wants it."""

    is_broken = False

    async def read(self, statement, parameters):
        if self.is_broken:
            raise ConnectionError("gone")
        return await super().read(statement, parameters)


async def test_who_asks_the_same_as_the_probe_waits_for_it() -> None:
    graph, clock = Broken(EmbeddedGraph(None)), Clock()
    pipeline = patient(graph, Live(TOOLS), clock=clock)
    async with running(pipeline):
        graph.is_broken = True
        for i in range(3):
            assert (await pipeline.resolve(f"failed {i}")).status == "unavailable"
        graph.is_broken = False
        clock.advance(PAUSE_S)
        graph.hold(reads=True)
        first = asyncio.create_task(pipeline.resolve("dns", limit=1))
        await graph.reached.wait()
        second = asyncio.create_task(pipeline.resolve("dns", limit=2))
        other = await pipeline.resolve("git")
        assert other == Resolution("unavailable", cause="failed")
        graph.release()
        assert [(await asked).names for asked in (first, second)] == [("dns_read",), ("dns_read",)]


async def test_reads_that_fail_take_no_place_from_those_that_come_after() -> None:
    graph, clock = Broken(EmbeddedGraph(None)), Clock()
    pipeline = patient(graph, Live(TOOLS), clock=clock)
    async with running(pipeline):
        graph.is_broken = True
        for i in range(20):
            assert await pipeline.resolve(f"failed {i}") == Resolution("unavailable", cause="failed")
            clock.advance(PAUSE_S)
        graph.is_broken = False
        assert (await pipeline.resolve("dns")).names == ("dns_read",)
