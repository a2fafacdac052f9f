"""Graphs that fail, vectors without a model, and time that stands still."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from agent_utilities import create_mcp_server
from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.graph.base import GraphError
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.testing import Clock, FailingGraph, HashedEmbeddings, client

pytestmark = pytest.mark.anyio
RETURN_ONE = ("RETURN 1 AS one", {})


class TestFailingGraph:
    async def test_fails_with_the_cause_it_was_given(self):
        with pytest.raises(GraphError) as failure:
            await FailingGraph("not authorized").open()
        assert failure.value.cause == "not authorized"

    async def test_fails_at_reads_and_writes_too(self):
        for call in [lambda graph: graph.read(*RETURN_ONE), lambda graph: graph.write([RETURN_ONE])]:
            graph = FailingGraph(None)
            await graph.open()
            graph.cause = "busy"
            with pytest.raises(GraphError, match="busy"):
                await call(graph)
            await graph.close()

    async def test_works_once_it_has_no_cause(self):
        graph = FailingGraph("busy")
        graph.cause = None
        await graph.open()
        assert await graph.read(*RETURN_ONE) == [{"one": 1}]
        await graph.close()

    async def test_leaves_a_query_to_the_ranker(self):
        environ = {"MCP_GRAPH_DEADLINE_MS": "60000"}
        server = create_mcp_server("notes", environ=environ, graph=FailingGraph("unreachable"))
        server.tool(lambda: "a", name="first")
        server.tool(lambda: "b", name="second")
        async with client(server, query="first") as caller:
            listed = await caller.session.list_tools()
        assert [tool.name for tool in listed.tools] == ["first"]
        assert listed.meta["agent-utilities/selection"]["status"] == "ranked"


class TestHashedEmbeddings:
    def test_are_the_same_in_every_process(self):
        code = "from agent_utilities.testing import HashedEmbeddings as H; print(H().embed(['a b'], 'query').tolist())"
        here = HashedEmbeddings().embed(["a b"], "query").tolist()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(here)

    def test_are_equal_for_words_that_mean_the_same(self):
        folder, directory = HashedEmbeddings({"folder": "directory"}).embed(["folder", "directory"], "document")
        assert np.array_equal(folder, directory)

    def test_differ_for_other_words(self):
        folder, directory = HashedEmbeddings().embed(["folder", "directory"], "document")
        assert not np.allclose(folder, directory)

    def test_rank_by_meaning(self):
        tools = [ToolDocument("list_files", description="Show files."), ToolDocument("drop", description="Erase it.")]
        index = HybridRanker(lambda: HashedEmbeddings({"delete": "erase"})).index(tools)
        assert index.rank("delete").indexes[0] == 1


class TestClock:
    def test_stands_still_until_it_is_set(self):
        clock = Clock(5.0)
        assert (clock(), clock()) == (5.0, 5.0)
        clock.advance(2.5)
        assert clock() == 7.5


def test_pytest_is_not_imported():
    code = "import sys, agent_utilities.testing; print('pytest' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
