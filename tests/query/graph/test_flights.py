"""A flight ends, whatever the graph does, and harms nobody who did not ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_utilities.query.graph.base import Statement, ToolGraph
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.resolution.answer import UNRANKED, Limits, Question, Ranked
from agent_utilities.query.resolution.catalog_ranker import combined_answer
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import RankedTool, Resolution
from tests.query.graph.records import record
from tests.query.graph.wrapped import Held, Live, patient, running, until

pytestmark = pytest.mark.anyio

TOOLS = [record("dns_read", "reads a zone"), record("git_read", "history")]


class Fixed:
    """A ranker that claims what a test wants, or can't rank."""

    version = "1"

    def __init__(self, *claimed: str, works: bool = True) -> None:
        self.claimed, self.works = claimed, works

    def version_for(self, scope: str) -> str:
        return self.version

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        tools = [RankedTool(name, 1.0) for name in self.claimed]
        return (lambda literal: combined_answer(question, literal, tools, len(tools))) if self.works else None


async def test_nothing_found_in_a_graph_that_then_hangs_is_asked_again(
    tmp_path: Path,
) -> None:
    graph = Held(EmbeddedGraph(tmp_path / "g.lbdb"))
    pipeline = patient(graph, Live(TOOLS), ranker=Fixed(), limits=Limits(statement_s=0.05))
    async with running(pipeline):
        assert await pipeline.resolve("nonesuch", limit=1) == Resolution("no_match")
        graph.hold(reads=True)
        assert await pipeline.resolve("nonesuch", limit=2) == Resolution("no_match", cause="graph too slow")
        await until(lambda: pipeline.keeper.cause is not None, "the flight is over")
        assert pipeline.keeper.health()["cause"] == "too slow"
        graph.release()
        for _ in range(100):  # a busy machine takes longer than a statement may, now and then
            if not (answer := await pipeline.resolve("nonesuch", limit=2)).cause:
                break
        assert answer == Resolution("no_match")
        assert "cause" not in pipeline.keeper.health()


async def test_what_a_ranker_could_not_rank_says_so_and_is_ranked_the_next_time(tmp_path: Path) -> None:
    ranker = Fixed(works=False)
    pipeline = patient(EmbeddedGraph(tmp_path / "g.lbdb"), Live(TOOLS), ranker=ranker)
    async with running(pipeline):
        found = await pipeline.resolve("zone history")
        assert (found.names, found.cause, found.is_temporary) == (("dns_read", "git_read"), UNRANKED, True)
        ranker.works, ranker.claimed = True, ("git_read",)
        assert (await pipeline.resolve("zone history")).names == ("git_read",)


class Committed(Held):
    """A graph whose writes are done before whoever waits for them is told."""

    def __init__(self, graph: ToolGraph) -> None:
        super().__init__(graph)
        self.told = asyncio.Event()
        self.told.set()

    async def write(self, statements: Sequence[Statement]) -> None:
        await self.graph.write(statements)
        self.reached.set()
        await self.told.wait()


async def test_what_was_read_while_tools_changed_is_not_taken_for_what_they_were(tmp_path: Path) -> None:
    both = [record("dns_read"), record("git_read")]
    graph, live = Committed(EmbeddedGraph(tmp_path / "g.lbdb")), Live(both)
    pipeline = patient(graph, live)
    async with running(pipeline):
        graph.reached.clear()
        graph.told.clear()
        live.tools = both[:1]
        pipeline.keeper.tools_changed()
        await graph.reached.wait()
        await pipeline.resolve("read")
        graph.told.set()
        await until(lambda: pipeline.keeper.is_idle, "refreshed")
        live.tools = both
        pipeline.keeper.tools_changed()
        await until(lambda: pipeline.keeper.is_idle, "refreshed again")
        assert (await pipeline.resolve("read")).names == ("dns_read", "git_read")
