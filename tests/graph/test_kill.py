"""kill -9 in the middle of a sync: it opens again, and a tool set is whole, old or new."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_utilities.graph.base import GraphError, ToolGraph, server_digest
from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.graph.sync import server_state, sync
from tests.graph.neo4j_servers import Access, CrashingNeo4j
from tests.graph.records import expected, held
from tests.graph.sync_victim import SETS

ROOT = Path(__file__).parents[2]
N_ROUNDS = [2, pytest.param(25, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
LONGEST_S = 0.6
WHOLE = {server_digest(tools): expected(tools, "s") for tools in SETS.values()}

pytestmark = pytest.mark.timeout(180)


@contextmanager
def victim(path: str, environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Sync without end in a process, from its second sync on; ended by kill -9."""
    command = [sys.executable, "-m", "tests.graph.sync_victim", path]
    given = {**os.environ, **environ}
    with subprocess.Popen(command, cwd=ROOT, env=given, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert [process.stdout.readline() for _ in range(2)] == ["old\n", "new\n"]
            yield process
        finally:
            process.kill()


def wait_a_while(process: subprocess.Popen[str], seed: int) -> None:
    """Let the process work for a while, a different one each round."""
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(random.Random(seed).uniform(0, LONGEST_S))


async def check_whole(graph: ToolGraph) -> str:
    """Open a graph and check that it holds one of the two tool sets, whole; returns its digest."""
    await graph.open()
    try:
        state = await server_state(graph, "s")
        assert state is not None
        assert await held(graph, "s") == WHOLE[state.digest]
        rows = await graph.read("MATCH (t:CallableResource) RETURN count(t) AS n", {})
        assert rows == [{"n": state.n_tools}]
        return state.digest
    finally:
        await graph.close()


@pytest.mark.parametrize("n_rounds", N_ROUNDS)
def test_embedded(tmp_path: Path, n_rounds: int, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "g.lbdb"
    for number in range(n_rounds):
        with victim(str(path), {}) as process:
            wait_a_while(process, number)
        graph = EmbeddedGraph(path)
        asyncio.run(check_whole(graph))
        assert graph.path == path, "it is not in memory"
    assert caplog.records == []
    assert not list(tmp_path.glob("*.corrupt-*"))


@pytest.mark.parametrize("n_rounds", N_ROUNDS)
def test_of_the_one_that_syncs_into_neo4j(neo4j_server: Access, n_rounds: int) -> None:
    for number in range(n_rounds):
        with victim("-", neo4j_server.environ) as process:
            wait_a_while(process, number)
        asyncio.run(check_whole(neo4j_server.graph()))


@pytest.mark.parametrize("n_rounds", N_ROUNDS[1:])
def test_of_neo4j_itself(crashing_neo4j: CrashingNeo4j, n_rounds: int) -> None:
    for number in range(n_rounds):
        with victim("-", crashing_neo4j.access.environ) as process:
            wait_a_while(process, number)
            crashing_neo4j.kill()
        crashing_neo4j.start()
        asyncio.run(check_whole(crashing_neo4j.access.graph()))


def test_a_graph_of_neither_set_would_be_seen(tmp_path: Path) -> None:
    """What these tests rest on: a mixed tool set is told from a whole one."""

    async def mix() -> None:
        graph = EmbeddedGraph(tmp_path / "g.lbdb")
        await graph.open()
        await sync(graph, "s", SETS["old"], 1)
        await graph.write([("MATCH (t:CallableResource {name: 'both_0'}) DETACH DELETE t", {})])
        await graph.close()
        with pytest.raises((AssertionError, GraphError)):
            await check_whole(EmbeddedGraph(tmp_path / "g.lbdb"))

    asyncio.run(mix())
