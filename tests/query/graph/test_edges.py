"""Edges between tools: exactly those that calls teach, on each backend, and read back with a match."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolServer
from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import GraphError, ToolGraph
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.matching import Neighbour, match_literally
from agent_utilities.query.graph.sync import EdgeKind, ToolEdge, forget, sync, sync_edges
from agent_utilities.query.resolution.answer import Trail
from tests.pace import LONGEST, pace
from tests.query.graph.conftest import NEO4J_AT_NIGHT, Measured, NewGraph
from tests.query.graph.neo4j_servers import Access
from tests.query.graph.records import LETTERS, examples, numbered, record, tool_record
from tests.query.graph.wrapped import Held, Live, patient, running, until

pytestmark = pytest.mark.anyio

TOOLS = [record(name, "of git") for name in ("blame", "diff", "log", "push")]
EDGES = [
    ToolEdge("followed_by", "log", "diff", 3),
    ToolEdge("used_with", "blame", "log", 2),
    ToolEdge("followed_by", "diff", "push", 1),
]
HOSTILE = [
    "a'b",
    'a"b',
    "a/b",
    "a\\b",
    "a\nb",
    "a\u202eb",
    "日本",
    "$near",
    "') DETACH DELETE t //",
    "`x`",
    "e\u0301",
    "\U0001f680",
]


def used(of: str, name: str, n: int, scope: str = "") -> ToolEdge:
    return ToolEdge("used_with", of, name, n, scope)


def followed(of: str, name: str, n: int, scope: str = "") -> ToolEdge:
    return ToolEdge("followed_by", of, name, n, scope)


async def neighbours(graph: ToolGraph, near: Sequence[str], scope: str = "", server: str = "s") -> list[Neighbour]:
    return sorted((await match_literally(graph, server, "nonesuch", near, scope)).neighbours)


def should_be(edges: Collection[ToolEdge], held: Collection[str], near: Collection[str], scope: str) -> list[Neighbour]:
    """Return what a graph of these edges should tell, by plain loops."""
    told: dict[tuple[str, str, EdgeKind], int] = {}
    for edge in edges:
        if edge.kind == "used_with" and edge.of == edge.name:
            continue
        ways = {(edge.of, edge.name), (edge.name, edge.of)} if edge.kind == "used_with" else {(edge.of, edge.name)}
        for of, name in ways:
            if edge.scope == scope and of in near and {of, name} <= set(held):
                told[of, name, edge.kind] = told.get((of, name, edge.kind), 0) + edge.n
    return sorted(Neighbour(of, name, kind, n) for (of, name, kind), n in told.items())


class TestSync:
    async def test_edges_are_read_back_with_a_match(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "s", EDGES)
        matches = await match_literally(graph, "s", "log", ("log", "push"))
        assert matches.literal == ("log",)
        assert sorted(matches.neighbours) == [("log", "blame", "used_with", 2), ("log", "diff", "followed_by", 3)]

    async def test_exactly_the_last_ones_remain(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "s", EDGES)
        await sync_edges(graph, "s", [followed("log", "push", 7)])
        assert await neighbours(graph, [tool.name for tool in TOOLS]) == [("log", "push", "followed_by", 7)]
        await sync_edges(graph, "s", [])
        assert await neighbours(graph, [tool.name for tool in TOOLS]) == []

    @pytest.mark.parametrize("backend", ["embedded"], indirect=True)  # our own logic alone
    async def test_equal_edges_cost_one_read_and_write_nothing(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        first = await sync_edges(graph, "s", EDGES)
        watched = Held(graph)
        again = await sync_edges(watched, "s", EDGES[::-1])
        assert again == first
        assert (watched.n_reads, watched.n_writes) == (1, 0)

    @pytest.mark.parametrize("backend", ["embedded"], indirect=True)  # our own logic alone
    async def test_are_written_in_one_transaction_a_hundred_at_a_time(self, graph: ToolGraph) -> None:
        await sync(graph, "s", numbered(30), 1)
        edges = [followed(f"tool_{i}", f"tool_{j}", 1) for i in range(15) for j in range(15, 30)]
        watched = Held(graph)
        await sync_edges(watched, "s", edges)
        assert watched.n_writes == 1
        assert [len(parameters["rows"]) for _, parameters in watched.written if "rows" in parameters] == [100, 100, 25]
        assert len(await neighbours(graph, [f"tool_{i}" for i in range(15)])) == 225

    async def test_a_failure_leaves_those_that_were_there(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "s", EDGES)
        before = await neighbours(graph, ["log", "diff"])
        with pytest.raises(GraphError):
            await graph.write([(cypher.DROP_EDGES, {"server_name": "s"}), ("THIS IS NO CYPHER", {})])
        assert await neighbours(graph, ["log", "diff"]) == before != []

    async def test_tools_that_the_graph_does_not_hold_are_left_out_until_it_does(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS[:3], 1)
        await sync_edges(graph, "s", EDGES)
        assert await neighbours(graph, ["diff"]) == []
        await sync(graph, "s", TOOLS, 2)
        await sync_edges(graph, "s", EDGES)
        assert await neighbours(graph, ["diff"]) == [("diff", "push", "followed_by", 1)]

    async def test_a_tool_that_went_and_came_back_has_its_edges_again(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "s", EDGES)
        await sync(graph, "s", TOOLS[:2], 2)
        assert await neighbours(graph, ["log"]) == []
        await sync(graph, "s", TOOLS, 3)
        await sync_edges(graph, "s", EDGES)
        assert await neighbours(graph, ["log"]) == should_be(EDGES, ["log", "diff", "blame"], ["log"], "")

    @pytest.mark.parametrize("backend", ["embedded"], indirect=True)  # our own logic alone
    async def test_tools_that_come_in_while_edges_are_written_have_theirs_the_next_time(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS[:3], 1)
        waiting = Held(graph, writes=True)
        writing = asyncio.create_task(sync_edges(waiting, "s", EDGES))
        await waiting.reached.wait()
        await sync(graph, "s", TOOLS, 2)
        waiting.release()
        await writing
        await sync_edges(graph, "s", EDGES)
        assert await neighbours(graph, ["diff"]) == [("diff", "push", "followed_by", 1)]

    async def test_tools_that_are_put_again_keep_theirs(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "s", EDGES)
        before = await neighbours(graph, ["log", "diff"])
        await sync(graph, "s", [record(tool.name, "changed") for tool in TOOLS], 2)
        assert await neighbours(graph, ["log", "diff"]) == before != []

    async def test_a_server_that_the_graph_does_not_hold_gets_none(self, graph: ToolGraph) -> None:
        watched = Held(graph)
        await sync_edges(watched, "s", EDGES)
        assert watched.n_writes == 0
        assert await neighbours(graph, ["log"]) == []

    async def test_who_is_forgotten_takes_them_along_and_leaves_those_of_others(self, graph: ToolGraph) -> None:
        for server in ("s", "other"):
            await sync(graph, server, TOOLS, 1)
            await sync_edges(graph, server, EDGES)
        await forget(graph, "s")
        await sync(graph, "s", TOOLS, 2)
        assert await neighbours(graph, ["log"]) == []
        assert len(await neighbours(graph, ["log"], server="other")) == 2
        await sync_edges(graph, "s", [])
        assert len(await neighbours(graph, ["log"], server="other")) == 2

    async def test_of_two_that_write_at_once_the_edges_of_one_remain(self, new_graph: NewGraph) -> None:
        one = new_graph()
        two = one if isinstance(one, EmbeddedGraph) else new_graph()
        await one.open()
        await two.open()
        await sync(one, "s", TOOLS, 1)
        waiting, other = Held(one, writes=True), Held(two, writes=True)
        mine, theirs = EDGES, [followed("push", name, 9) for name in ("blame", "diff", "log")]
        both = [asyncio.create_task(sync_edges(g, "s", edges)) for g, edges in ((waiting, mine), (other, theirs))]
        await waiting.reached.wait()
        await other.reached.wait()
        waiting.release()
        other.release()
        await asyncio.gather(*both)
        names = [tool.name for tool in TOOLS]
        after = await neighbours(one, names)
        digest = (await one.read(cypher.HELD, {"server_name": "s"}))[0]["edges_digest"]
        digests = [task.result() for task in both]
        await one.close()
        await two.close()
        wholes = [should_be(edges, names, names, "") for edges in (mine, theirs)]
        assert after in wholes
        assert digest == digests[wholes.index(after)]


class TestGateway:
    async def test_edges_go_between_tools_of_its_upstreams(self, graph: ToolGraph) -> None:
        git, clock = ToolServer("git"), ToolServer("clock")
        log = tool_record("git_log", None, "", [], True, git)
        now = tool_record("clock_now", None, "", [], True, clock)
        await sync(graph, "gw", [log, now, record("own")], 1)
        edges = [followed("git_log", "clock_now", 2), used("own", "git_log", 1)]
        await sync_edges(graph, "gw", edges)
        names = ["git_log", "clock_now", "own"]
        assert await neighbours(graph, names, server="gw") == should_be(edges, names, names, "")
        await sync(graph, "gw", [log, record("own")], 2)
        await sync_edges(graph, "gw", edges)
        assert await neighbours(graph, names, server="gw") == should_be(edges, ["git_log", "own"], names, "")

    async def test_a_server_of_the_same_tools_has_its_own(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", [tool_record("log", None, "", [], True, ToolServer("git")), record("diff")], 1)
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "gw", [followed("log", "diff", 5)])
        assert await neighbours(graph, ["log"]) == []


class TestScope:
    async def test_a_subjects_edges_are_for_nobody_else(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        edges = [followed("log", "diff", 1, "ann"), followed("log", "push", 2, "bob"), followed("log", "blame", 3)]
        await sync_edges(graph, "s", edges)
        for scope, name, n in (("ann", "diff", 1), ("bob", "push", 2), ("", "blame", 3)):
            assert await neighbours(graph, ["log"], scope) == [("log", name, "followed_by", n)]
        assert await neighbours(graph, ["log"], "eve") == []


class TestHostile:
    async def test_names_are_text(self, graph: ToolGraph) -> None:
        await sync(graph, "s", [record(name) for name in HOSTILE], 1)
        edges = [followed(of, name, 1) for of in HOSTILE for name in HOSTILE if of < name]
        await sync_edges(graph, "s", [*edges, followed("no \ud800 name", "a'b", 1)])
        assert await neighbours(graph, HOSTILE) == should_be(edges, HOSTILE, HOSTILE, "")

    async def test_a_caller_may_be_near_to_anything(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync_edges(graph, "s", EDGES)
        for name in ("\ud800", "a\udfffb", "\0", "", "x" * 100_000):
            assert await neighbours(graph, [name, "log"]) == await neighbours(graph, ["log"]) != [], name[:9]
            assert await neighbours(graph, [name]) == [], name[:9]


class TestStatement:
    async def test_match_and_neighbours_are_one(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        watched = Held(graph)
        matches = await match_literally(watched, "s", "git", ("log",))
        assert sorted(matches.literal) == ["blame", "diff", "log", "push"]
        assert watched.n_reads == 1


class TestUpgrade:
    async def test_a_graph_of_a_release_without_edges_takes_them(
        self, graph: ToolGraph, new_graph: NewGraph, request: pytest.FixtureRequest
    ) -> None:
        await sync(graph, "s", TOOLS, 1)
        await graph.close()
        _strip(graph, request)
        again = new_graph()
        await again.open()
        await sync_edges(again, "s", EDGES)
        assert len(await neighbours(again, ["log"])) == 2
        await again.close()
        await graph.open()


def _strip(graph: ToolGraph, request: pytest.FixtureRequest) -> None:
    if not isinstance(graph, EmbeddedGraph):
        request.getfixturevalue("neo4j_server").run("MATCH (s:Server) REMOVE s.edges_digest")
        return
    import ladybug

    with ladybug.Database(str(graph.path), max_db_size=1 << 30, buffer_pool_size=64 << 20) as database:
        with ladybug.Connection(database) as connection:
            for statement in ("DROP TABLE USED_WITH", "DROP TABLE FOLLOWED_BY", "ALTER TABLE Server DROP edges_digest"):
                connection.execute(statement)


_names = st.text(alphabet=LETTERS, min_size=1, max_size=4)


@st.composite
def taught(draw: st.DrawFn) -> tuple[list[str], list[ToolEdge], list[str]]:
    """Tools that are there, edges between them and others, and what a caller is near to."""
    names = draw(st.lists(_names, min_size=2, max_size=6, unique=True))
    ends = st.sampled_from(names)
    kinds: st.SearchStrategy[EdgeKind] = st.sampled_from(("used_with", "followed_by"))
    counts, scopes = st.integers(1, 9), st.sampled_from(("", "ann"))
    drawn = st.builds(ToolEdge, kinds, ends, ends, counts, scopes)
    taught = drawn.filter(lambda edge: edge.kind == "followed_by" or edge.of < edge.name)
    one_each = st.lists(taught, max_size=12, unique_by=lambda edge: (edge.kind, edge.of, edge.name, edge.scope))
    edges = draw(one_each)
    return draw(st.lists(ends, unique=True)), edges, draw(st.lists(ends, min_size=1, unique=True))


class TestAnyEdges:
    def test_are_told_as_plain_loops_tell_them(self, new_graph: NewGraph) -> None:
        with asyncio.Runner() as runner:
            graph = new_graph()
            runner.run(graph.open())

            @examples(25)
            @given(taught())
            def check(drawn: tuple[list[str], list[ToolEdge], list[str]]) -> None:
                held, edges, near = drawn

                async def both() -> None:
                    await sync(graph, "s", [record(name) for name in held], 1)
                    await sync_edges(graph, "s", edges)
                    for scope in ("", "ann"):
                        assert await neighbours(graph, near, scope) == should_be(edges, held, near, scope)

                runner.run(both())

            check()
            runner.run(graph.close())


class TestMany:
    @pytest.mark.nightly
    async def test_ten_thousand_of_one_tool_are_all_read(self, graph: ToolGraph) -> None:
        await sync(graph, "s", numbered(10_001), 1)
        edges = [followed("tool_0", f"tool_{i}", i) for i in range(1, 10_001)]
        await sync_edges(graph, "s", edges)
        matches = await match_literally(graph, "s", "nonesuch", ["tool_0"])
        assert sum(n for _, _, _, n in matches.neighbours) == 50_005_000

    async def test_they_come_in_parts_so_that_no_row_holds_the_loop(self, graph: ToolGraph) -> None:
        await sync(graph, "s", numbered(600), 1)
        await sync_edges(graph, "s", [followed("tool_0", f"tool_{i}", 1) for i in range(1, 600)])
        near = {"server_name": "s", "query": "nonesuch", "near": ["tool_0"], "scope": ""}
        rows = await graph.read(cypher.MATCH_TEXT_AND_NEIGHBOURS, near)
        assert len(rows) == 16
        assert max(len(row["names"]) for row in rows) < 100


class Canned:
    """A graph whose answer is there at once: a million edges, in rows as they come of a real one."""

    backend = "canned"
    rows: ClassVar[list[dict[str, Any]]] = [
        {"kind": "used_with", "part": "", "ofs": ["a"] * 600, "names": names, "counts": list(range(600))}
        for part in range(160)
        for names in [[f"tool_{part}_{i}" for i in range(600)]]
    ] * 10

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        return self.rows


async def longest_turn_s(work: asyncio.Task[Any]) -> float:
    """Return the most processor time that passed between two turns of the loop until work was done."""
    longest, before = 0.0, time.thread_time()
    while not work.done():
        await asyncio.sleep(0)
        longest, before = max(longest, time.thread_time() - before), time.thread_time()
    return longest


async def test_however_many_edges_are_read_the_loop_turns_meanwhile() -> None:
    graph = cast(ToolGraph, Canned())
    turns = []
    for _ in range(5):
        reading = asyncio.create_task(match_literally(graph, "s", "x", ["a"]))
        turns.append(await longest_turn_s(reading) / pace())
        assert (await reading).n_neighbours == 960_000
        if min(turns) < LONGEST:
            break
    assert min(turns) < LONGEST


class TestCost:
    @NEO4J_AT_NIGHT
    async def test_of_neighbours_beside_the_match_alone(self, graph: ToolGraph, measured: Measured) -> None:
        """Of 8 tools in 1,000 with 5,000 edges; what it takes is in the report at the end of the run."""
        await sync(graph, "s", numbered(1_000), 1)
        numbers = [(7 * i % 1_000, (13 * i + i // 1_000 + 1) % 1_000) for i in range(2_500)]
        edges = [make(f"tool_{of}", f"tool_{name}", 1 + of % 7) for of, name in numbers for make in (used, followed)]
        await sync_edges(graph, "s", edges)
        near = [f"tool_{7 * i}" for i in range(8)]
        took_s: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(30):
            for with_neighbours in took_s:
                started = time.perf_counter()
                matches = await match_literally(graph, "s", "thing number 12", near if with_neighbours else ())
                took_s[with_neighbours].append(time.perf_counter() - started)
                assert len(matches.literal) == 11
        assert len(await neighbours(graph, near)) == len(should_be(edges, {edge.of for edge in edges}, near, "")) > 40
        for with_neighbours, seconds in took_s.items():
            what = "match with neighbours of 8 tools" if with_neighbours else "match alone"
            measured(f"{what}, 1,000 tools, 5,000 edges, {graph.backend}", seconds)


async def test_neo4j_keeps_them_for_a_second_process(neo4j_server: Access) -> None:
    one, two = neo4j_server.graph(), neo4j_server.graph()
    await one.open()
    await two.open()
    await sync(one, "s", TOOLS, 1)
    await sync_edges(one, "s", EDGES)
    read, watched = await neighbours(two, ["log"]), Held(two)
    await sync_edges(watched, "s", EDGES)
    await one.close()
    await two.close()
    assert len(read) == 2
    assert watched.n_writes == 0


async def test_an_answer_tells_the_neighbours_of_the_last_call(new_graph: NewGraph) -> None:
    async def learned() -> Sequence[ToolEdge]:
        return EDGES

    pipeline = patient(new_graph(), Live(TOOLS), edges=learned)
    async with running(pipeline):
        await until(lambda: pipeline.keeper.is_idle, "filled, with edges")
        answer = await pipeline.resolve("git", trail=Trail(near=("log",)))
        assert (answer.status, [name for name, _ in answer.neighbours]) == ("fresh", ["diff", "blame"])
        assert len(answer.names) == 4
        assert (await pipeline.resolve("git")).neighbours == ()
