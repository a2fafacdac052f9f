"""Answering: from a cache, once however many ask, within the deadline, and what each status means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_utilities.query.graph.base import ToolGraph, ToolRecord
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import server_state, sync
from agent_utilities.query.resolution.answer import Limits, Question, Ranked
from agent_utilities.query.resolution.catalog_ranker import combined_answer
from agent_utilities.runtime.waiting import Deadline
from agent_utilities.selection.model import RankedTool, Resolution
from agent_utilities.testing import FailingGraph
from tests.query.graph.conftest import NewGraph
from tests.query.graph.records import held, n_held, numbered, record
from tests.query.graph.wrapped import Held, Live, patient, running, until
from tests.resolutions import answer_of

pytestmark = pytest.mark.anyio

TOOLS = [record("dns_read", "dns"), record("git_read", "git", ["tagged"])]


@pytest.fixture
def new_graph(tmp_path: Path) -> NewGraph:
    """Makes embedded graphs of one file: how backends differ is for the tests of matches, syncs and gateways."""
    return lambda: EmbeddedGraph(tmp_path / "g.lbdb")


class TestStatus:
    async def test_a_blank_query_is_off(self, new_graph: NewGraph) -> None:
        pipeline = patient(new_graph(), Live(TOOLS))
        async with running(pipeline):
            assert await pipeline.resolve(" \t\n") == Resolution("off")

    async def test_before_it_runs_it_is_being_filled(self, new_graph: NewGraph) -> None:
        pipeline = patient(new_graph(), Live(TOOLS))
        assert await pipeline.resolve("dns") == Resolution("unavailable", cause="being filled")

    async def test_while_it_is_filled_first_nobody_waits(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph(), writes=True)
        pipeline = patient(graph, Live(TOOLS))
        async with running(pipeline, wait=False):
            await graph.reached.wait()
            # The graph is held until further down: whoever waited for it would wait for ever.
            assert await pipeline.resolve("dns") == Resolution("unavailable", cause="being filled")
            assert pipeline.keeper.health()["status"] == "filling"
            graph.release()
            await until(lambda: pipeline.keeper.health()["status"] == "ready", "filled")
            assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_read",))

    async def test_a_query_opens_a_graph_that_waits_for_the_server_to_settle(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph())
        pipeline = patient(graph, Live(TOOLS), limits=Limits(settle_s=None))
        async with running(pipeline, wait=False):
            await asyncio.sleep(0)
            assert graph.n_reads == 0
            assert await pipeline.resolve("dns") == Resolution("unavailable", cause="being filled")
            await until(lambda: pipeline.keeper.health()["status"] == "ready", "filled")

    async def test_a_settled_server_opens_its_graph_without_a_query(self, new_graph: NewGraph) -> None:
        pipeline = patient(new_graph(), Live(TOOLS), limits=Limits(settle_s=0.01))
        async with running(pipeline, wait=False):
            await until(lambda: pipeline.keeper.health()["status"] == "ready", "filled")

    async def test_answered_is_fresh_and_nothing_found_is_no_match(self, new_graph: NewGraph) -> None:
        pipeline = patient(new_graph(), Live(TOOLS))
        async with running(pipeline):
            assert await pipeline.resolve("TAGGED") == answer_of("fresh", ("git_read",))
            assert await pipeline.resolve("nonesuch") == Resolution("no_match")

    async def test_what_the_graph_already_holds_answers_while_it_is_refreshed(self, new_graph: NewGraph) -> None:
        graph = new_graph()
        await graph.open()
        await sync(graph, "s", TOOLS, int(time.time() * 1000))
        await graph.close()
        live = Live(TOOLS)
        live.hold()
        pipeline = patient(new_graph(), live)
        async with running(pipeline, wait=False):
            await until(lambda: pipeline.keeper.cause is None, "opened")
            assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_read",))
            live.release()


class TestCache:
    async def test_one_flight_for_all_who_ask_the_same(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph())
        pipeline = patient(graph, Live(TOOLS))
        async with running(pipeline):
            graph.hold(reads=True)
            before = graph.n_reads
            spellings = ["dns", " DNS ", "Dns", "dns\t"] * 25
            asked = [asyncio.create_task(pipeline.resolve(each)) for each in spellings]
            await graph.reached.wait()
            asked[0].cancel()
            graph.release()
            answers = await asyncio.gather(*asked[1:])
            assert set(answers) == {answer_of("fresh", ("dns_read",))}
            assert graph.n_reads - before == 1 == pipeline.n_reads

    async def test_a_query_seen_before_is_not_asked_of_the_graph(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph())
        pipeline = patient(graph, Live(TOOLS))
        async with running(pipeline):
            first = [await pipeline.resolve(each) for each in ("dns", "nonesuch")]
            before = graph.n_reads
            assert [await pipeline.resolve(each) for each in ("DNS", "nonesuch")] == first
            assert graph.n_reads == before


class TestDeadline:
    async def test_a_late_answer_is_kept_for_the_next(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph())
        pipeline = patient(graph, Live(TOOLS), deadline_s=0.05)
        async with running(pipeline):
            graph.hold(reads=True)
            started = time.perf_counter()
            assert await pipeline.resolve("dns") == Resolution("unavailable", cause="too slow")
            assert time.perf_counter() - started > 0.045
            graph.release()
            answer = answer_of("fresh", ("dns_read",))

            async def answered() -> bool:
                return await pipeline.resolve("dns") == answer

            await until(answered, "answered")
            assert pipeline.n_reads == 1


class TestChange:
    async def test_a_changed_tool_set_is_answered_from_at_once(self, new_graph: NewGraph) -> None:
        live = Live(TOOLS)
        pipeline = patient(new_graph(), live)
        async with running(pipeline):
            assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_read",))
            live.tools = [record("dns_write", "dns"), *TOOLS[1:]]
            pipeline.keeper.tools_changed()
            await until(lambda: pipeline.keeper.n_refreshes == 2 and pipeline.keeper.is_idle, "refreshed")
            assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_write",))

    async def test_a_change_during_a_refresh_is_followed_by_another(self, new_graph: NewGraph) -> None:
        live, graph = Live(TOOLS), Held(new_graph())
        pipeline = patient(graph, live)
        async with running(pipeline):
            graph.hold(writes=True)
            pipeline.keeper.tools_changed()
            await graph.reached.wait()
            live.tools = [record("late", "dns")]
            for _ in range(3):
                pipeline.keeper.tools_changed()
            graph.release()
            await until(lambda: pipeline.keeper.n_refreshes == 3 and pipeline.keeper.is_idle, "refreshed")
            assert await pipeline.resolve("dns") == answer_of("fresh", ("late",))

    async def test_changes_that_come_fast_wait_for_their_turn_together(self) -> None:
        pipeline = patient(EmbeddedGraph(None), Live(TOOLS), limits=Limits(refresh_gap_s=3600))
        async with running(pipeline):
            await until(lambda: pipeline.keeper.is_idle, "filled")
            pipeline.keeper.tools_changed()
            refresher = pipeline.keeper
            await until(lambda: refresher.n_refreshes == 2 and refresher.is_idle, "refreshed at once")
            for _ in range(3):
                pipeline.keeper.tools_changed()
                await asyncio.sleep(0)
            assert (pipeline.keeper.n_refreshes, pipeline.keeper.is_idle) == (2, False)

    async def test_a_change_during_the_first_fill_is_followed_by_another(self, new_graph: NewGraph) -> None:
        live, graph = Live(TOOLS), Held(new_graph(), writes=True)
        pipeline = patient(graph, live)

        async def late_is_there() -> bool:
            return await n_held(graph, "s") == 3

        async with running(pipeline, wait=False):
            await graph.reached.wait()
            live.tools = [*TOOLS, record("late")]
            pipeline.keeper.tools_changed()
            graph.release()
            await until(late_is_there, "the late tool is there", seconds=2)

    async def test_a_stale_start_is_refreshed_once(self, new_graph: NewGraph) -> None:
        graph = new_graph()
        await graph.open()
        await sync(graph, "s", TOOLS, 1)
        await graph.close()
        live = Live(TOOLS)
        live.hold()
        pipeline = patient(new_graph(), live)
        async with running(pipeline, wait=False):
            await until(lambda: pipeline.keeper.cause is None, "opened")
            assert (await pipeline.resolve("dns")).status == "stale"
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert pipeline.keeper.n_refreshes == 1
            live.release()

    async def test_a_change_while_the_graph_is_down_reaches_it_later(self, tmp_path: Path) -> None:
        live, graph = Live(TOOLS), EmbeddedGraph(tmp_path / "g.lbdb")
        pipeline = patient(graph, live, limits=Limits(retry_s=(0.0,)))

        async def late_is_there() -> bool:
            return await n_held(graph, "s") == 3

        async with running(pipeline):
            await graph.close()
            live.tools = [*TOOLS, record("late", "dns")]
            pipeline.keeper.tools_changed()
            await until(lambda: pipeline.keeper.n_refreshes > 2, "failed, and tried again")
            await graph.open()
            await until(late_is_there, "the late tool is there", seconds=2)

    async def test_a_graph_that_was_emptied_is_filled_again(self, new_graph: NewGraph) -> None:
        pipeline = patient(new_graph(), Live(TOOLS))
        async with running(pipeline):
            await pipeline.keeper.graph.write([("MATCH (n:CallableResource) DETACH DELETE n", {})])
            await pipeline.keeper.graph.write([("MATCH (n:Server) DETACH DELETE n", {})])
            assert (await pipeline.resolve("dns")).status != "no_match"


class TestFill:
    async def test_a_server_that_can_not_be_listed_at_first_is_tried_again(self, new_graph: NewGraph) -> None:
        class Flaky(Live):
            async def __call__(self) -> Sequence[ToolRecord]:
                if self.n_calls == 0:
                    self.n_calls += 1
                    raise ConnectionError("upstream is down")
                return await super().__call__()

        pipeline = patient(new_graph(), Flaky(TOOLS))
        async with running(pipeline, wait=False) as task:
            refresher = pipeline.keeper
            await until(lambda: task.done() or refresher.health()["status"] == "ready", "filled", seconds=5)
            assert not task.done()

    async def test_tools_that_change_before_it_can_be_opened_are_introspected_at_once(self) -> None:
        graph, live = FailingGraph("unreachable"), Live(TOOLS)
        pipeline = patient(graph, live, limits=Limits(retry_s=(3600,)))
        async with running(pipeline, wait=False):
            await pipeline.keeper.first_try_done.wait()
            pipeline.keeper.tools_changed()
            await until(lambda: live.n_calls == 2, "introspected", seconds=5)

    async def test_a_tool_set_of_any_size_is_held_whole(self, graph: ToolGraph) -> None:
        for n_tools in (1, 249, 250, 251, 501):
            await sync(graph, "s", numbered(n_tools), n_tools)
            state = await server_state(graph, "s")
            assert state is not None
            assert state.n_tools == n_tools == len(await held(graph, "s"))


class Ranker:
    """A ranker that claims one tool, or fails when told to."""

    version = "1"

    def __init__(self, claimed: str) -> None:
        self.claimed, self.works, self.n_asked = claimed, True, 0

    def version_for(self, scope: str) -> str:
        return self.version

    async def rank(self, question: Question, deadline: Deadline) -> Ranked | None:
        self.n_asked += 1
        tools = [RankedTool(self.claimed, 1.0)]
        return (lambda literal: combined_answer(question, literal, tools, 1)) if self.works else None


class TestRanked:
    async def test_a_query_that_no_tool_bears_is_answered_by_the_ranker(self, new_graph: NewGraph) -> None:
        pipeline = patient(new_graph(), Live(TOOLS), ranker=Ranker("git_read"))
        async with running(pipeline):
            assert (await pipeline.resolve("what changed")).names == ("git_read",)

    async def test_an_answer_is_asked_of_the_ranker_once(self, new_graph: NewGraph) -> None:
        ranker = Ranker("git_read")
        pipeline = patient(new_graph(), Live(TOOLS), ranker=ranker)
        async with running(pipeline):
            for _ in range(3):
                await pipeline.resolve("what changed")
            assert ranker.n_asked == 1

    async def test_an_index_that_is_swapped_is_asked_again(self, new_graph: NewGraph) -> None:
        ranker = Ranker("git_read")
        pipeline = patient(new_graph(), Live(TOOLS), ranker=ranker)
        async with running(pipeline):
            await pipeline.resolve("what changed")
            ranker.version, ranker.claimed = "2", "dns_read"
            assert (await pipeline.resolve("what changed")).names == ("dns_read",)

    async def test_a_ranker_that_fails_leaves_words_says_so_and_is_not_remembered(self, new_graph: NewGraph) -> None:
        ranker = Ranker("git_read")
        pipeline = patient(new_graph(), Live(TOOLS), ranker=ranker)
        async with running(pipeline):
            ranker.works = False
            found = await pipeline.resolve("the tagged one")
            assert (found.names, found.cause) == (("git_read",), "not ranked")
            ranker.works = True
            assert (await pipeline.resolve("the tagged one")).cause == ""

    async def test_while_the_graph_fails_the_ranker_answers_once_for_all(self, new_graph: NewGraph) -> None:
        ranker, graph = Ranker("git_read"), new_graph()
        pipeline = patient(graph, Live(TOOLS), ranker=ranker)
        async with running(pipeline):
            await graph.close()
            for _ in range(5):
                answer = await pipeline.resolve("what changed")
                assert (answer.status, answer.names) == ("ranked", ("git_read",))
                assert answer.cause == f"graph {pipeline.keeper.cause}"
            assert ranker.n_asked == 1
            ranker.works = False
            assert (await pipeline.resolve("another")).status == "unavailable"

    async def test_before_the_graph_was_filled_the_ranker_answers(self, new_graph: NewGraph) -> None:
        graph = Held(new_graph(), writes=True)
        pipeline = patient(graph, Live(TOOLS), ranker=Ranker("git_read"))
        async with running(pipeline, wait=False):
            await graph.reached.wait()
            answer = await pipeline.resolve("what changed")
            assert (answer.status, answer.names, answer.cause) == ("ranked", ("git_read",), "graph being filled")
            graph.release()
            await until(lambda: pipeline.keeper.cause is None, "filled")
            answer = await pipeline.resolve("what changed")
            assert (answer.status, answer.names, answer.cause) == ("fresh", ("git_read",), "")
