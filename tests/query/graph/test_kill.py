"""kill -9 in the middle of a sync: the next start finds a whole tool set, old or new, and brings the live one in.

A kill in a commit leaves a torn record at the end of the embedded engine's log, which the engine refuses by default.
What was committed before it is used.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_utilities.query.graph.base import GraphError, ToolGraph, server_digest
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import server_state, sync
from tests.query.graph.neo4j_servers import Access, CrashingNeo4j
from tests.query.graph.records import expected, held
from tests.query.graph.sync_victim import SETS
from tests.query.graph.wrapped import Live, patient, running, until

ROOT = Path(__file__).parents[3]
N_ROUNDS = [1, pytest.param(25, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
LONGEST_S = 0.6
WHOLE = {server_digest(tools): expected(tools, "s") for tools in SETS.values()}

pytestmark = [pytest.mark.timeout(180), pytest.mark.anyio]


@contextmanager
def victim(path: str, environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Sync without end in a process, from its second sync on; ended by kill -9."""
    command = [sys.executable, "-m", "tests.query.graph.sync_victim", path]
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


def wait_for_commit(log: Path) -> None:
    """Return as soon as the engine's log grows, or is worked into the file."""
    give_up_at = time.monotonic() + 60
    size = log.stat().st_size
    while log.exists() and log.stat().st_size == size:
        assert time.monotonic() < give_up_at, "the victim commits nothing"


FEW = {name: tools[:60] for name, tools in SETS.items()}
FEW_WHOLE = {server_digest(tools): expected(tools, "s") for tools in FEW.values()}


def log_in(folder: Path) -> Path:
    return folder / "g.lbdb.wal"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a kill right after two commits leaves it: a file that holds nothing yet, and the engine's log.

    In it a folder as it was after the first.
    """
    worked_in, folder = tmp_path_factory.mktemp("worked_in"), tmp_path_factory.mktemp("left")

    async def commit_twice() -> None:
        graph = EmbeddedGraph(worked_in / "g.lbdb")
        await graph.open()
        await sync(graph, "s", FEW["old"], 1)
        shutil.copytree(worked_in, folder / "first")
        await sync(graph, "s", FEW["new"], 2)
        shutil.copytree(worked_in, folder, dirs_exist_ok=True)
        await graph.close()

    asyncio.run(commit_twice())
    assert log_in(folder).stat().st_size > 0
    return folder


def cut(left: Path, folder: Path, length: int) -> Path:
    """Copy what was left into a folder, with the log cut off at a length in bytes; returns the file's path."""
    shutil.copy(left / "g.lbdb", folder)
    log_in(folder).write_bytes(log_in(left).read_bytes()[:length])
    return folder / "g.lbdb"


class TestEmbedded:
    @pytest.mark.parametrize("n_rounds", N_ROUNDS)
    def test_a_kill_in_a_commit_leaves_a_whole_tool_set(self, tmp_path: Path, n_rounds: int) -> None:
        path = tmp_path / "g.lbdb"
        for _ in range(n_rounds):
            with victim(str(path), {}) as process:
                wait_for_commit(tmp_path / "g.lbdb.wal")
                process.kill()
            graph = EmbeddedGraph(path)
            asyncio.run(check_whole(graph))
            assert graph.path == path, "it is not in memory"
        assert list(tmp_path.glob("*.corrupt-*")) == []

    async def test_the_next_start_answers_with_the_live_tools(self, left: Path, tmp_path: Path) -> None:
        path = cut(left, tmp_path, -3)
        pipeline = patient(EmbeddedGraph(path), Live(FEW["new"]))
        async with running(pipeline):
            names = tuple(sorted(tool.name for tool in FEW["new"]))

            async def is_live() -> bool:
                return (await pipeline.resolve("new")).names == names

            await until(is_live, "the live tools answer", 60)

    @pytest.mark.parametrize("n_cuts", [12, pytest.param(250, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])])
    async def test_a_log_cut_anywhere_is_used_up_to_its_last_commit(
        self, left: Path, tmp_path: Path, n_cuts: int
    ) -> None:
        """Cut evenly over the two commits, and by single bytes at the end."""
        size, first_commit = log_in(left).stat().st_size, log_in(left / "first").stat().st_size
        n_torn = 0
        for length in [*(size * i // n_cuts for i in range(n_cuts)), size - 1]:
            folder = tmp_path / str(length)
            folder.mkdir()
            path = cut(left, folder, length)
            graph = EmbeddedGraph(path)
            await graph.open()
            assert graph.path == path, "it is not in memory"
            state = await server_state(graph, "s")
            assert await held(graph, "s") == ([] if state is None else FEW_WHOLE[state.digest]), length
            assert state is not None or length < first_commit, "what was committed is lost"
            await sync(graph, "s", FEW["new"], 3)
            assert await held(graph, "s") == expected(FEW["new"], "s"), length
            await graph.close()
            assert list(folder.glob("*.corrupt-*")) == [], length
            n_torn += state is None or state.digest != server_digest(FEW["new"])
        assert n_torn > n_cuts // 2, "else these cuts show nothing"

    async def test_a_log_that_is_whole_is_used_whole(self, left: Path, tmp_path: Path) -> None:
        graph = EmbeddedGraph(cut(left, tmp_path, log_in(left).stat().st_size))
        await graph.open()
        assert await held(graph, "s") == expected(FEW["new"], "s")
        await graph.close()


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
