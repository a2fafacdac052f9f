"""Bringing tools in: exactly the live ones, in one transaction, for many servers in one graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given

from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import GraphError, Statement, ToolGraph, ToolRecord, server_digest
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import forget, server_state, server_states, sync
from tests.query.graph.conftest import NEO4J_AT_NIGHT, NewGraph
from tests.query.graph.neo4j_servers import Access
from tests.query.graph.records import examples, expected, held, matching_names, numbered, record, toolsets
from tests.query.graph.wrapped import Held

pytestmark = pytest.mark.anyio


class TestSchema:
    async def test_is_applied_again_without_effect(self, graph: ToolGraph, new_graph: NewGraph) -> None:
        await sync(graph, "s", [record("a")], 1)
        await graph.open()
        await graph.close()
        again = new_graph()
        await again.open()
        assert await held(again, "s") == expected([record("a")], "s")
        await again.close()
        await graph.open()

    async def test_neo4j_holds_its_constraints_and_indexes_once(self, neo4j_server: Access) -> None:
        graph = neo4j_server.graph()
        for _ in range(2):
            await graph.open()
            await graph.close()
        constraints = neo4j_server.run("SHOW CONSTRAINTS YIELD name, type RETURN name, type")
        assert sorted(constraint["name"] for constraint in constraints) == ["callable_key", "server_name"]
        assert {constraint["type"] for constraint in constraints} == {"UNIQUENESS"}
        indexes = {index["name"] for index in neo4j_server.run("SHOW INDEXES YIELD name RETURN name")}
        assert {"callable_server", "callable_text"} <= indexes


class TestSync:
    async def test_puts_changes_and_drops_in_one_transaction(self, graph: ToolGraph) -> None:
        watched = Held(graph)
        first = [record("kept", "k"), record("changed", "before", ["old"]), record("gone")]
        second = [record("kept", "k"), record("changed", "after", ["new"]), record("added", read_only=True)]
        report = await sync(watched, "s", first, 1)
        assert (report.n_put, report.n_dropped, watched.n_writes) == (3, 0, 1)
        report = await sync(watched, "s", second, 2)
        assert (report.n_put, report.n_dropped, watched.n_writes) == (2, 1, 2)
        assert await held(graph, "s") == expected(second, "s")
        assert await server_state(graph, "s") == report.state

    async def test_an_equal_tool_set_only_moves_the_time(self, graph: ToolGraph) -> None:
        tools = [record("a", "one"), record("b", "two")]
        await sync(graph, "s", tools, 1)
        watched = Held(graph)
        report = await sync(watched, "s", tools[::-1], 2)
        assert (report.n_put, report.n_dropped) == (0, 0)
        assert [statement for statement, _ in watched.written] == [cypher.PUT_SERVER]
        assert report.state.updated_at_ms == 2
        assert await server_state(graph, "s") == report.state

    async def test_a_transaction_that_fails_changes_nothing(self, graph: ToolGraph) -> None:
        await sync(graph, "s", [record("a")], 1)
        before = await server_state(graph, "s")
        good = (cypher.PUT_SERVER, {"server_name": "s", "digest": "other", "updated_at": 9})
        drop = (cypher.DROP_TOOLS_OF, {"server_names": ["s"]})
        with pytest.raises(GraphError):
            await graph.write([good, drop, ("THIS IS NO CYPHER", {})])
        assert await server_state(graph, "s") == before
        assert await held(graph, "s") == expected([record("a")], "s")

    @pytest.mark.parametrize("backend", ["embedded"], indirect=True)  # our own logic alone
    async def test_statements_are_taken_one_at_a_time_and_can_be_taken_again(self, graph: ToolGraph) -> None:
        """So that few rows are held at once, and a write that fails can be tried again elsewhere."""
        watched = Held(graph)
        await sync(watched, "s", numbered(250), 1)
        statements = [cypher.PUT_SERVER, *[cypher.PUT_TOOLS] * 3, cypher.DROP_OTHERS, cypher.PUT_EDGES_DIGEST]
        assert [statement for statement, _ in watched.written] == statements
        assert await held(graph, "s") == expected(numbered(250), "s")

        taken = []

        class Lazy:
            def __iter__(self) -> Iterator[Statement]:
                for i in range(3):
                    taken.append(i)
                    yield ("THIS IS NO CYPHER", {}) if i == 1 else (cypher.DROP_SERVERS, {"server_names": ["nobody"]})

        with pytest.raises(GraphError):
            await graph.write(Lazy())
        assert taken == [0, 1]

    async def test_a_tool_that_others_wrote_without_a_digest_does_not_shift_those_of_the_rest(
        self, graph: ToolGraph
    ) -> None:
        await sync(graph, "s", [record("a"), record("b")], 1)
        put = "MATCH (s:Server {name: 's'}) MERGE (t:CallableResource {key: 's/hand'}) SET t.name = 'hand' "
        await graph.write([(put + "MERGE (s)-[:PROVIDES]->(t)", {})])
        report = await sync(graph, "s", [record("a"), record("b", "changed")], 2)
        assert (report.n_put, report.n_dropped) == (1, 1)
        assert await held(graph, "s") == expected([record("a"), record("b", "changed")], "s")

    async def test_an_empty_tool_set_leaves_a_server_without_tools(self, graph: ToolGraph) -> None:
        await sync(graph, "s", [], 1)
        assert (await server_states(graph))[0].n_tools == 0
        await sync(graph, "s", [record("a")], 2)
        report = await sync(graph, "s", [], 3)
        assert report.n_dropped == 1
        assert await held(graph, "s") == []
        assert await server_state(graph, "s") == report.state

    @NEO4J_AT_NIGHT
    async def test_takes_ten_thousand_tools_and_finds_each(self, graph: ToolGraph) -> None:
        tools = numbered(10_000)
        report = await sync(graph, "s", tools, 1)
        assert report.state.n_tools == 10_000
        assert await server_state(graph, "s") == report.state
        assert await matching_names(graph, "s", "thing number 1234") == ("tool_1234",)
        assert (await matching_names(graph, "s", "number 4711 exactly"))[0] == "tool_4711"
        report = await sync(graph, "s", [*tools[:-1], record("last")], 2)
        assert (report.n_put, report.n_dropped) == (1, 1)

    async def test_keeps_long_descriptions_and_odd_characters(self, graph: ToolGraph) -> None:
        tools = [record("long", "x" * 100_000 + "needle"), record("odd", "a\0b\u202e\U0001f600'\"\\`$q", ["", "a,b"])]
        await sync(graph, "s", tools, 1)
        assert await held(graph, "s") == expected(tools, "s")
        assert await matching_names(graph, "s", "needle") == ("long",)


class TestUpgrade:
    async def test_tools_kept_without_their_text_are_written_anew(
        self, graph: ToolGraph, new_graph: NewGraph, request: pytest.FixtureRequest
    ) -> None:
        """As a release left them that kept none; of an equal digest, so that nothing else would have them written."""
        tools = [record("a", "One"), record("b", "Two", ["Tag"])]
        await sync(graph, "s", tools, 1)
        await sync(graph, "other", [*tools, record("gone")], 1)
        await graph.close()
        _strip(graph, request)
        again = new_graph()
        await again.open()
        state = await server_state(again, "s")
        assert state is not None
        assert (state.digest, state.n_tools) == (server_digest(tools), 0)
        await sync(again, "s", tools, 2)
        assert await held(again, "s") == expected(tools, "s")
        assert await matching_names(again, "s", "tag") == ("b",)
        await sync(again, "other", tools, 2)
        assert await held(again, "other") == expected(tools, "other")
        await again.close()
        await graph.open()


def _strip(graph: ToolGraph, request: pytest.FixtureRequest) -> None:
    if not isinstance(graph, EmbeddedGraph):
        request.getfixturevalue("neo4j_server").run("MATCH (t:CallableResource) REMOVE t.text, t.set_digest")
        return
    import ladybug

    with ladybug.Database(str(graph.path), max_db_size=1 << 30, buffer_pool_size=64 << 20) as database:
        with ladybug.Connection(database) as connection:
            for column in ("text", "set_digest"):
                connection.execute(f"ALTER TABLE CallableResource DROP {column}")


class TestManyServers:
    async def test_equal_tool_names_stay_apart(self, graph: ToolGraph) -> None:
        await sync(graph, "one", [record("status", "git")], 1)
        await sync(graph, "two", [record("status", "mail")], 1)
        assert await held(graph, "one") == expected([record("status", "git")], "one")
        assert await held(graph, "two") == expected([record("status", "mail")], "two")
        assert await matching_names(graph, "one", "mail") == ()
        await sync(graph, "two", [], 2)
        assert await held(graph, "one") == expected([record("status", "git")], "one")

    async def test_names_with_a_slash_stay_apart(self, graph: ToolGraph) -> None:
        await sync(graph, "a", [record("b/c", "one")], 1)
        await sync(graph, "a/b", [record("c", "two")], 1)
        assert await held(graph, "a") == expected([record("b/c", "one")], "a")

    async def test_a_renamed_server_is_forgotten_under_its_old_name(self, graph: ToolGraph) -> None:
        await sync(graph, "before", [record("a"), record("b")], 1)
        await sync(graph, "after", [record("a"), record("b")], 2)
        await forget(graph, "before")
        assert [state.name for state in await server_states(graph)] == ["after"]
        assert await held(graph, "after") == expected([record("a"), record("b")], "after")
        rows = await graph.read("MATCH (t:CallableResource) RETURN count(t) AS n", {})
        assert rows == [{"n": 2}]

    async def test_who_is_forgotten_leaves_the_tools_of_others(self, graph: ToolGraph) -> None:
        await sync(graph, "one", [record("a")], 1)
        await sync(graph, "two", [record("a"), record("b")], 1)
        await forget(graph, "one")
        assert await held(graph, "one") == []
        assert await held(graph, "two") == expected([record("a"), record("b")], "two")

    @pytest.mark.parametrize("backend", ["embedded"], indirect=True)  # our own logic alone
    async def test_an_unknown_server_has_no_state(self, graph: ToolGraph) -> None:
        assert await server_state(graph, "nobody") is None
        await forget(graph, "nobody")

    async def test_two_that_bring_in_one_server_at_once_leave_one_of_both_sets(self, neo4j_server: Access) -> None:
        """Replicas of two releases share a Neo4j; which one wins is open, but never a mix."""
        one, two = neo4j_server.graph(), neo4j_server.graph()
        await one.open()
        await two.open()
        old, new = [record("both"), record("old")], [record("both"), record("new")]
        waiting, other = Held(one, writes=True), Held(two, writes=True)
        both = ((waiting, old), (other, new))
        syncs = [asyncio.create_task(sync(replica, "s", tools, 1)) for replica, tools in both]
        await waiting.reached.wait()
        await other.reached.wait()
        waiting.release()
        other.release()
        await asyncio.gather(*syncs, return_exceptions=True)
        tools_after = await held(one, "s")
        state = await server_state(one, "s")
        await one.close()
        await two.close()
        assert tools_after in (expected(old, "s"), expected(new, "s"))
        assert state is not None
        assert state.digest in (server_digest(old), server_digest(new))


class TestReading:
    async def test_a_read_can_not_write(self, graph: ToolGraph) -> None:
        with pytest.raises(GraphError):
            await graph.read("CREATE (s:Server {name: 'evil'}) RETURN s.name AS name", {})

    async def test_before_it_is_open_there_is_an_error_and_no_answer(self, new_graph: NewGraph) -> None:
        graph = new_graph()
        with pytest.raises(GraphError):
            await graph.read(cypher.SERVERS, {})
        with pytest.raises(GraphError):
            await graph.write([(cypher.DROP_SERVERS, {"server_names": ["s"]})])
        await graph.close()


class TestAnyTools:
    def test_any_two_tool_sets_after_each_other_leave_the_second(self, new_graph: NewGraph) -> None:
        with asyncio.Runner() as runner:
            graph = new_graph()
            runner.run(graph.open())

            @examples(25)
            @given(toolsets(), toolsets())
            def check(first: list[ToolRecord], second: list[ToolRecord]) -> None:
                async def both() -> None:
                    for now_ms, tools in enumerate((first, second)):
                        report = await sync(graph, "s", tools, now_ms)
                        assert await held(graph, "s") == expected(tools, "s")
                        assert await server_state(graph, "s") == report.state

                runner.run(both())

            check()
            runner.run(graph.close())
