"""What calls teach of tools that go together: from the log's source into the graph, and back with an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import ToolEdge
from agent_utilities.query.resolution.answer import CallerScope, Limits, Question, Ranked, Trail
from agent_utilities.query.resolution.catalog_ranker import combined_answer
from agent_utilities.query.resolution.resolver import Pipeline
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import RankedTool, Resolution
from tests.every import every
from tests.query.graph.records import record
from tests.query.graph.wrapped import Held, Live, patient, running, until

pytestmark = pytest.mark.anyio

TOOLS = [record(name, "of git") for name in ("blame", "diff", "log", "pull", "push")]
FOLLOWED = [ToolEdge("followed_by", "log", "diff", 3), ToolEdge("followed_by", "log", "push", 1)]
AFTER_LOG = Trail(near=("log",))
AT_ONCE = Limits(refresh_gap_s=0.0)
HASTY = Limits(refresh_gap_s=0.0, retry_s=(0.0,))


class Source:
    """The edges that a log has; a test changes them, holds the answer, or has it fail."""

    def __init__(self, *edges: ToolEdge) -> None:
        self.edges: Sequence[ToolEdge] = edges
        self.failure: Exception | None = None
        self.n_asked = self.n_at_once = self.most_at_once = 0
        self.reached, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def __call__(self) -> Sequence[ToolEdge]:
        self.n_asked += 1
        self.n_at_once += 1
        self.most_at_once = max(self.most_at_once, self.n_at_once)
        self.reached.set()
        try:
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
            return self.edges
        finally:
            self.n_at_once -= 1


class Opened(EmbeddedGraph):
    """A graph that opens when a test says so."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.reached, self.gate = asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        self.reached.set()
        await self.gate.wait()
        await super().open()


class Claims:
    """A ranker that claims some tools."""

    def __init__(self, *claimed: str) -> None:
        self.claimed = claimed

    def version_for(self, scope: str) -> str:
        return "1"

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        tools = [RankedTool(name, 1.0) for name in self.claimed]
        return lambda literal: combined_answer(question, literal, tools, len(tools))


def names(answer: Resolution) -> list[str]:
    return [name for name, _ in answer.neighbours]


def scope_of(*permitted: str) -> CallerScope:
    return CallerScope(",".join(permitted), lambda: frozenset(permitted))


async def settled(pipeline: Pipeline) -> None:
    await until(lambda: pipeline.keeper.is_idle, "filled, with edges")


async def neighbours_after(pipeline: Pipeline, trail: Trail = AFTER_LOG) -> list[str]:
    return names(await pipeline.resolve("git", trail=trail))


class TestAnswers:
    async def test_tell_them_however_the_query_is_answered(self) -> None:
        for ranker in (None, Claims(), Claims("pull")):
            pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=Source(*FOLLOWED), ranker=ranker)
            async with running(pipeline):
                await settled(pipeline)
                for query, limit in product(("git", "nonesuch", "several words of git"), (None, 1, None)):
                    answer = await pipeline.resolve(query, limit=limit, trail=AFTER_LOG)
                    assert names(answer) == ["diff", "push"], (ranker, query, limit)

    async def test_are_the_same_but_for_them(self) -> None:
        plain, taught = (
            patient(EmbeddedGraph(None), Live(TOOLS), edges=edges, ranker=Claims("pull"))
            for edges in (None, Source(*FOLLOWED))
        )
        async with running(plain), running(taught):
            await settled(taught)
            for query in ("git", "nonesuch", "log"):
                without = await plain.resolve(query, trail=AFTER_LOG)
                beside = await taught.resolve(query, trail=AFTER_LOG)
                assert (without.neighbours, without.tools) == ((), beside.tools)
                assert without.status == beside.status


class TestCallers:
    async def test_a_denied_tool_is_told_of_to_nobody_and_moves_no_share(self) -> None:
        denied = [ToolEdge("followed_by", "log", "push", 99), ToolEdge("used_with", "push", "log", 99)]
        shown = FOLLOWED[0]
        scope = scope_of("log", "diff", "pull")
        answers = []
        for edges in ([shown], [shown, *denied]):
            pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=Source(*edges))
            async with running(pipeline):
                await settled(pipeline)
                answers.append(await pipeline.resolve("git", scope, trail=AFTER_LOG))
        assert answers[0] == answers[1]
        assert names(answers[0]) == ["diff"]

    async def test_naming_a_denied_tool_tells_nothing_of_it(self) -> None:
        edges = [ToolEdge("followed_by", "push", "diff", 9), FOLLOWED[0]]
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=Source(*edges))
        scope = scope_of("log", "diff")
        async with running(pipeline):
            await settled(pipeline)
            answers = [
                await pipeline.resolve("git", scope, trail=Trail(near=(guess, "log")))
                for guess in ("push", "nonesuch", "\ud800")
            ]
            assert answers[0] == answers[1] == answers[2]

    async def test_callers_who_did_other_things_are_told_of_other_neighbours(self) -> None:
        edges = [*FOLLOWED, ToolEdge("followed_by", "diff", "blame", 1), ToolEdge("followed_by", "log", "pull", 1, "x")]
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=Source(*edges))
        trails = {
            ("", ("log",)): ["diff", "push"],
            ("", ("diff",)): ["blame"],
            ("x", ("log",)): ["pull"],
            ("y", ("log",)): [],
        }
        async with running(pipeline):
            await settled(pipeline)
            for _ in range(2):
                for (scope, near), expected in trails.items():
                    assert await neighbours_after(pipeline, Trail(scope, near)) == expected

    async def test_who_did_the_same_shares_one_read(self) -> None:
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=Source(*FOLLOWED))
        async with running(pipeline):
            await settled(pipeline)
            for limit in (1, 2, 3):
                await pipeline.resolve("git", limit=limit, trail=AFTER_LOG)
            assert pipeline.n_reads == 1


class TestStatement:
    async def test_neighbours_come_with_the_match(self) -> None:
        graph = Held(EmbeddedGraph(None))
        pipeline = patient(graph, Live(TOOLS), edges=Source(*FOLLOWED))
        async with running(pipeline):
            await settled(pipeline)
            graph.asked.clear()
            await neighbours_after(pipeline)
            assert [statement for statement, _ in graph.asked] == [cypher.MATCH_TEXT_AND_NEIGHBOURS]

    @every(("source", "trail"), [(Source(*FOLLOWED), Trail("ann")), (None, AFTER_LOG)])
    async def test_near_to_nothing_or_where_nothing_is_learned_it_is_the_match_alone(
        self, source: Source | None, trail: Trail
    ) -> None:
        graph = Held(EmbeddedGraph(None))
        pipeline = patient(graph, Live(TOOLS), edges=source)
        async with running(pipeline):
            await settled(pipeline)
            graph.asked.clear()
            assert await neighbours_after(pipeline, trail) == []
            assert [statement for statement, _ in graph.asked] == [cypher.MATCH_TEXT]

    async def test_a_graph_that_fails_costs_the_neighbours_only(self) -> None:
        graph = Held(EmbeddedGraph(None))
        pipeline = patient(
            graph, Live(TOOLS), edges=Source(*FOLLOWED), ranker=Claims("pull"), limits=Limits(statement_s=0.05)
        )
        async with running(pipeline):
            await settled(pipeline)
            graph.hold(reads=True)
            answer = await pipeline.resolve("git", trail=AFTER_LOG)
            assert (answer.status, answer.names, answer.neighbours) == ("ranked", ("pull",), ())
            graph.release()


class TestRefreshes:
    async def test_a_log_that_has_grown_is_told_of_once_its_edges_are_in(self) -> None:
        source = Source(*FOLLOWED)
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=source, limits=AT_ONCE)
        async with running(pipeline):
            await settled(pipeline)
            assert await neighbours_after(pipeline) == ["diff", "push"]
            source.edges = [ToolEdge("followed_by", "log", "pull", 1)]
            pipeline.keeper.edges_changed()

            async def is_in() -> bool:
                return await neighbours_after(pipeline) == ["pull"]

            await until(is_in, "the new edges answer")
            assert pipeline.keeper.n_refreshes == 1, "the tools were left alone"

    async def test_one_runs_at_a_time_and_one_more_follows(self) -> None:
        source, graph = Source(*FOLLOWED), EmbeddedGraph(None)
        pipeline = patient(graph, Live(TOOLS), edges=source, limits=AT_ONCE)
        async with running(pipeline):
            await settled(pipeline)
            source.gate.clear()
            source.reached.clear()
            pipeline.keeper.edges_changed()
            await source.reached.wait()
            source.edges = [ToolEdge("followed_by", "log", "pull", 1)]
            for _ in range(20):
                pipeline.keeper.edges_changed()
            source.gate.set()

            async def is_in() -> bool:
                return await neighbours_after(pipeline) == ["pull"]

            await until(is_in, "the newest edges answer")
            assert (source.n_asked, source.most_at_once) == (3, 1)

    async def test_nobody_waits_for_one(self) -> None:
        source = Source(*FOLLOWED)
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=source, limits=AT_ONCE)
        async with running(pipeline):
            await settled(pipeline)
            source.gate.clear()
            source.reached.clear()
            pipeline.keeper.edges_changed()
            await source.reached.wait()
            assert await neighbours_after(pipeline) == ["diff", "push"]

    async def test_a_log_that_hangs_delays_no_refresh_of_the_tools(self) -> None:
        source, live = Source(*FOLLOWED), Live(TOOLS[:1])
        source.gate.clear()
        pipeline = patient(EmbeddedGraph(None), live, edges=source, limits=AT_ONCE)
        async with running(pipeline):
            await source.reached.wait()
            live.tools = TOOLS
            pipeline.keeper.tools_changed()

            async def is_in() -> bool:
                return len((await pipeline.resolve("git")).names) == 5

            await until(is_in, "the tools are in")
            assert source.most_at_once == 1

    async def test_tools_that_changed_have_their_edges_again(self) -> None:
        live, source = Live(TOOLS[:2]), Source(*FOLLOWED)
        pipeline = patient(EmbeddedGraph(None), live, edges=source, limits=AT_ONCE)
        async with running(pipeline):
            await settled(pipeline)
            assert await neighbours_after(pipeline) == []
            live.tools = TOOLS
            pipeline.keeper.tools_changed()
            await settled(pipeline)
            assert await neighbours_after(pipeline) == ["diff", "push"]

    async def test_a_log_that_fails_is_told_of_once_tried_again_and_costs_nothing_else(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = Source(*FOLLOWED)
        source.failure = OSError("locked")
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=source, limits=HASTY)
        with caplog.at_level(logging.WARNING, "agent_utilities.graph"):
            async with running(pipeline):
                await until(lambda: source.n_asked > 2, "tried again")
                answer = await pipeline.resolve("git", trail=AFTER_LOG)
                assert (answer.status, answer.neighbours, pipeline.keeper.cause) == ("fresh", (), None)
                source.failure = None
                await settled(pipeline)
                assert await neighbours_after(pipeline) == ["diff", "push"]
        assert [entry.getMessage() for entry in caplog.records] == [
            "can't bring into the graph which tools of s go together (OSError('locked')); what it holds is used on"
        ]
        assert pipeline.keeper.n_refreshes == 1, "the tools were left alone"

    async def test_a_log_that_is_read_before_the_graph_is_open_has_its_edges_brought_in_with_the_tools(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        graph = Opened(None)
        pipeline = patient(graph, Live(TOOLS), edges=(source := Source(*FOLLOWED)))
        async with running(pipeline, wait=False):
            await graph.reached.wait()
            pipeline.keeper.edges_changed()
            assert source.n_asked == 0
            graph.gate.set()
            await settled(pipeline)
            answer = await pipeline.resolve("git", trail=AFTER_LOG)
        assert names(answer) == ["diff", "push"]
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []

    async def test_nothing_is_started_where_nothing_is_learned_or_nothing_runs(self) -> None:
        source = Source(*FOLLOWED)
        idle = patient(EmbeddedGraph(None), Live(TOOLS), edges=source)
        idle.keeper.edges_changed()
        off = patient(EmbeddedGraph(None), Live(TOOLS))
        async with running(off):
            off.keeper.edges_changed()
            await settled(off)
        assert source.n_asked == 0

    async def test_what_is_learned_before_the_graph_is_open_waits_for_its_tools(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = Source(*FOLLOWED)
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), edges=source, limits=Limits(settle_s=60.0))
        async with running(pipeline, wait=False):
            await asyncio.sleep(0)
            pipeline.keeper.edges_changed()
            for _ in range(10):
                await asyncio.sleep(0)
            assert source.n_asked == 0
            pipeline.keeper.open_now()
            await settled(pipeline)
            assert await neighbours_after(pipeline) == ["diff", "push"]
        assert not [record for record in caplog.records if record.levelname == "WARNING"]


class TestLogIsTheTruth:
    async def test_a_graph_that_is_made_anew_has_its_edges_back(self, tmp_path: Path) -> None:
        path = tmp_path / "tools.lbdb"
        for _ in range(2):
            pipeline = patient(EmbeddedGraph(path), Live(TOOLS), edges=Source(*FOLLOWED))
            async with running(pipeline):
                await settled(pipeline)
                assert await neighbours_after(pipeline) == ["diff", "push"]
            await asyncio.to_thread(_remove_all, tmp_path)

    async def test_a_file_of_an_earlier_run_answers_before_the_log_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "tools.lbdb"
        first = patient(EmbeddedGraph(path), Live(TOOLS), edges=Source(*FOLLOWED))
        async with running(first):
            await settled(first)
        live, source = Live(TOOLS), Source()
        live.hold()
        second = patient(EmbeddedGraph(path), live, edges=source)
        async with running(second):
            assert await neighbours_after(second) == ["diff", "push"]
            live.release()
            await settled(second)
            assert await neighbours_after(second) == []


def _remove_all(folder: Path) -> None:
    files = [*folder.iterdir()]
    assert files
    for file in files:
        file.unlink()
