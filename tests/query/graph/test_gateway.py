"""A gateway in the graph: each of its upstreams is a server of its own, and one statement asks them all."""

from __future__ import annotations

from typing import Any

import pytest

from agent_utilities.catalog.document import ToolServer
from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import ToolGraph, ToolRecord
from agent_utilities.query.graph.matching import match_literally, match_terms, names_of
from agent_utilities.query.graph.sync import forget, server_state, server_states, sync
from tests.query.graph.conftest import NEO4J_AT_NIGHT, NewGraph
from tests.query.graph.records import MATCH, expected, held, matching_names, record, tool_record
from tests.query.graph.wrapped import Held, Live, patient, running, until

pytestmark = pytest.mark.anyio

GIT = ToolServer("git", "Git", "Work with repositories.")
TIME = ToolServer("time", "Clock", "Time zones of the world.")

_NODES = """
MATCH (s:Server)
RETURN s.name AS name, s.gateway AS gateway, s.title AS title, s.description AS description
"""


def of(upstream: ToolServer, name: str, description: str = "") -> ToolRecord:
    """Return a record of an upstream's tool, named as callers of the gateway see it."""
    return tool_record(f"{upstream.name}_{name}", None, description, [upstream.name], False, upstream)


STATUS = of(GIT, "status", "Show what has changed.")
COMMIT = of(GIT, "commit", "Record what has changed.")
NOW = of(TIME, "now", "Show the present hour.")
OWN = record("tool_search", "Show tools that fit.")
TOOLS = [STATUS, NOW, OWN, COMMIT]


async def nodes(graph: ToolGraph) -> list[dict[str, Any]]:
    """Return every server's node, by name."""
    return sorted(await graph.read(_NODES, {}), key=lambda row: str(row["name"]))


class TestNodes:
    async def test_each_upstream_is_a_server_with_its_own_tools(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        assert [(row["name"], row["gateway"]) for row in await nodes(graph)] == [
            ("gw", None),
            ("gw/git", "gw"),
            ("gw/time", "gw"),
        ]
        assert await held(graph, "gw") == expected([OWN], "gw")
        assert await held(graph, "gw/git") == expected([STATUS, COMMIT], "gw/git")
        assert await held(graph, "gw/time") == expected([NOW], "gw/time")

    async def test_tells_title_and_description_and_what_they_become(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", [NOW], 1)
        assert (await nodes(graph))[1] == {
            "name": "gw/time",
            "gateway": "gw",
            "title": "Clock",
            "description": "Time zones of the world.",
        }
        renamed = ToolServer("time", "", "Hours and days.")
        await sync(graph, "gw", [of(renamed, "now", "Show the present hour.")], 2)
        row = (await nodes(graph))[1]
        assert (row["title"], row["description"]) == ("", "Hours and days.")

    @NEO4J_AT_NIGHT
    async def test_slashes_in_names_make_no_two_upstreams_one(self, graph: ToolGraph) -> None:
        await sync(graph, "a/b", [of(ToolServer("c"), "x")], 1)
        await sync(graph, "a", [of(ToolServer("b/c"), "x")], 1)
        names = [row["name"] for row in await nodes(graph)]
        assert sorted(names) == ["a", "a%2Fb/c", "a/b", "a/b%2Fc"]
        assert await matching_names(graph, "a", "x") == ("b/c_x",)
        assert await matching_names(graph, "a/b", "x") == ("c_x",)


class TestMatch:
    async def test_one_statement_asks_all_upstreams_and_the_gateways_own_tools(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        watched = Held(graph)
        literal = await match_literally(watched, "gw", "show")
        assert names_of(literal) == ("git_status", "time_now", "tool_search")
        terms = await match_terms(watched, "gw", "changed hour")
        assert set(names_of(terms)) == {"git_status", "git_commit", "time_now"}
        assert watched.n_reads == 2

    async def test_finds_what_the_same_tools_on_one_server_would(self, graph: ToolGraph) -> None:
        plain = [tool_record(tool.name, tool.title, tool.description, tool.tags, tool.read_only) for tool in TOOLS]
        await sync(graph, "gw", TOOLS, 1)
        await sync(graph, "plain", plain, 1)
        for query in ("show", "git", "what has", "clock", "hour", "TIME"):
            found = [await matching_names(graph, server_name, query.lower()) for server_name in ("gw", "plain")]
            assert found[0] == found[1]
            rows = [
                await graph.read(MATCH, {"query": query, "server_name": server_name}) for server_name in ("gw", "plain")
            ]
            assert [sorted(row["name"] for row in each) for each in rows] == [sorted(found[0])] * 2

    async def test_two_gateways_with_the_same_upstreams_do_not_mix(self, graph: ToolGraph) -> None:
        await sync(graph, "one", [STATUS, NOW], 1)
        await sync(graph, "two", [COMMIT], 1)
        assert await matching_names(graph, "one", "git") == ("git_status",)
        assert await matching_names(graph, "two", "git") == ("git_commit",)
        await sync(graph, "two", [], 2)
        assert await matching_names(graph, "one", "git") == ("git_status",)

    @NEO4J_AT_NIGHT
    async def test_an_upstream_can_be_asked_alone(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        assert await matching_names(graph, "gw/git", "show") == ("git_status",)


class TestRefresh:
    async def test_of_one_upstream_writes_no_tool_of_another(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        watched = Held(graph)
        report = await sync(watched, "gw", [STATUS, NOW, OWN], 2)
        assert (report.n_put, report.n_dropped) == (0, 1)
        put = [parameters["server_name"] for statement, parameters in watched.written if statement == cypher.PUT_TOOLS]
        assert put == ["gw/git"]
        assert await held(graph, "gw/git") == expected([STATUS], "gw/git")
        assert await held(graph, "gw/time") == expected([NOW], "gw/time")
        assert await server_state(graph, "gw") == report.state

    async def test_of_nothing_new_only_moves_the_time_of_all(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        watched = Held(graph)
        report = await sync(watched, "gw", TOOLS[::-1], 2)
        assert [statement for statement, _ in watched.written] == [cypher.PUT_SERVER, cypher.PUT_UPSTREAMS]
        state = await server_state(graph, "gw")
        assert state == report.state
        assert {node.updated_at_ms for node in state.nodes} == {2}

    async def test_an_upstream_that_is_gone_goes_with_its_tools(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        await sync(graph, "other", [of(GIT, "log")], 1)
        report = await sync(graph, "gw", [NOW, OWN], 2)
        assert (report.n_put, report.n_dropped) == (0, 2)
        assert [row["name"] for row in await nodes(graph)] == ["gw", "gw/time", "other", "other/git"]
        assert await matching_names(graph, "gw", "git") == ()
        assert await matching_names(graph, "other", "git") == ("git_log",)

    @NEO4J_AT_NIGHT
    async def test_a_gateway_that_becomes_a_plain_server_keeps_no_upstream(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        await sync(graph, "gw", [OWN], 2)
        assert [row["name"] for row in await nodes(graph)] == ["gw"]
        state = await server_state(graph, "gw")
        assert (state.n_tools, state.nodes) == (1, ())

    @NEO4J_AT_NIGHT
    async def test_what_is_left_without_its_gateway_is_brought_in_again(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        await graph.write([("MATCH (s:Server {name: 'gw'}) DETACH DELETE s", {})])
        await sync(graph, "gw", [NOW], 2)
        assert [row["name"] for row in await nodes(graph)] == ["gw", "gw/time"]


class TestUpgrade:
    @pytest.mark.parametrize("backend", ["embedded"], indirect=True)
    async def test_a_file_of_a_release_that_knew_no_gateways_is_used_on(
        self, graph: ToolGraph, new_graph: NewGraph
    ) -> None:
        plain = [record(tool.name, tool.description, tool.tags) for tool in TOOLS]
        await sync(graph, "gw", plain, 1)
        for column in ("gateway", "title", "description"):
            await graph.write([(f"ALTER TABLE Server DROP {column}", {})])
        await graph.close()
        again = new_graph()
        await again.open()
        assert await matching_names(again, "gw", "hour") == ("time_now",)
        await sync(again, "gw", TOOLS, 2)
        assert [row["name"] for row in await nodes(again)] == ["gw", "gw/git", "gw/time"]
        assert await matching_names(again, "gw", "hour") == ("time_now",)
        await again.close()
        await graph.open()


@NEO4J_AT_NIGHT
class TestStates:
    async def test_a_gateways_counts_all_its_tools_and_is_as_old_as_its_oldest_part(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 5)
        await graph.write([("MATCH (s:Server {name: 'gw/time'}) SET s.updated_at = 3", {})])
        state = await server_state(graph, "gw")
        assert (state.name, state.n_tools, state.updated_at_ms) == ("gw", 4, 3)
        assert [(node.name, node.n_tools) for node in state.nodes] == [("gw", 1), ("gw/git", 2), ("gw/time", 1)]

    async def test_changes_with_any_upstreams_tools(self, graph: ToolGraph) -> None:
        digests = set()
        for tools in (TOOLS, TOOLS[:3], [STATUS, OWN, COMMIT], [*TOOLS, of(TIME, "zone")]):
            await sync(graph, "gw", tools, 1)
            digests.add((await server_state(graph, "gw")).digest)
        assert len(digests) == 4

    async def test_all_are_told_with_their_upstreams(self, graph: ToolGraph) -> None:
        await sync(graph, "plain", [record("a")], 1)
        await sync(graph, "gw", TOOLS, 1)
        told = [
            (state.name, state.n_tools, [node.name for node in state.nodes]) for state in await server_states(graph)
        ]
        assert told == [("gw", 4, ["gw", "gw/git", "gw/time"]), ("plain", 1, [])]


@NEO4J_AT_NIGHT
class TestForget:
    async def test_a_gateway_with_its_upstreams(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        await sync(graph, "other", [STATUS], 1)
        await forget(graph, "gw")
        assert [row["name"] for row in await nodes(graph)] == ["other", "other/git"]
        assert await matching_names(graph, "other", "git") == ("git_status",)

    async def test_one_upstream_alone(self, graph: ToolGraph) -> None:
        await sync(graph, "gw", TOOLS, 1)
        await forget(graph, "gw/git")
        assert [row["name"] for row in await nodes(graph)] == ["gw", "gw/time"]


class TestPipeline:
    async def test_answers_with_the_names_that_callers_see(self, graph: ToolGraph) -> None:
        pipeline = patient(graph, Live(TOOLS), "gw")
        async with running(pipeline):
            answer = await pipeline.resolve("has changed")
            assert (answer.status, set(answer.names)) == ("fresh", {"git_status", "git_commit"})

    @NEO4J_AT_NIGHT
    async def test_sees_an_upstream_that_came(self, graph: ToolGraph) -> None:
        live = Live([NOW])
        pipeline = patient(graph, live, "gw")
        async with running(pipeline):
            assert (await pipeline.resolve("changed")).status == "no_match"
            live.tools = TOOLS
            pipeline.keeper.tools_changed()
            await until(lambda: pipeline.keeper.n_refreshes > 1 and pipeline.keeper.is_idle, "refreshed")
            assert set((await pipeline.resolve("changed")).names) == {"git_status", "git_commit"}

    async def test_that_finds_an_upstream_missing_in_the_graph_brings_it_in_again(self, graph: ToolGraph) -> None:
        pipeline = patient(graph, Live(TOOLS), "gw")
        async with running(pipeline):
            await forget(graph, "gw/git")
            answer = await pipeline.resolve("changed")
            assert (answer.status, answer.cause) == ("unavailable", "being filled")
            await until(lambda: pipeline.keeper.n_refreshes > 1 and pipeline.keeper.is_idle, "refreshed")
            assert set((await pipeline.resolve("has changed")).names) == {"git_status", "git_commit"}
