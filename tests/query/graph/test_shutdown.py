"""Stopping: within two seconds, though the graph hangs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.query.graph.agents import serving
from tests.query.graph.conftest import Measured, NewGraph
from tests.query.graph.neo4j_servers import CrashingNeo4j
from tests.query.graph.proxies import silent
from tests.query.graph.records import record
from tests.query.graph.wrapped import Held, Live, patient, running, until

ENOUGH_S = 10.0
"""Two seconds, and what a busy machine adds; whoever waited for a graph that hangs would wait far longer."""

_ENDLESS = """
import asyncio, sys, threading
from pathlib import Path
from agent_utilities.query.graph.embedded import EmbeddedGraph
from tests.query.graph.records import numbered
from tests.query.graph.wrapped import Live, patient, running, until

ENDLESS = "MATCH " + ", ".join(f"({node}:CallableResource)" for node in "abcdefgh")
ENDLESS += " WHERE a.name + b.name + c.name + d.name + e.name + f.name + g.name + h.name = 'x' RETURN count(*) AS n"

class Watched:
    def __init__(self, connection):
        self.connection, self.reached = connection, threading.Event()

    def execute(self, statement, *parameters):
        if statement == ENDLESS:
            self.reached.set()
        return self.connection.execute(statement, *parameters)

    def close(self):
        self.connection.close()

async def main():
    graph = EmbeddedGraph(Path(sys.argv[1]))
    pipeline = patient(graph, Live(numbered(300)))
    async with running(pipeline):
        graph._reader = Watched(graph._reader)
        task = asyncio.create_task(graph.read(ENDLESS, {}))
        await asyncio.to_thread(graph._reader.reached.wait)
        print("stopping", flush=True)
    task.cancel()

asyncio.run(main())
"""


@pytest.mark.anyio
async def test_with_reads_and_writes_under_way(new_graph: NewGraph) -> None:
    graph, live = Held(new_graph()), Live([record("a")])
    pipeline = patient(graph, live)
    async with running(pipeline) as task:
        graph.hold(reads=True, writes=True)
        waiting = asyncio.create_task(pipeline.resolve("a"))
        live.tools = [record("b")]
        pipeline.keeper.tools_changed()
        await until(lambda: graph.n_writes == 1 and pipeline.keeper.n_refreshes == 2, "under way")
        started = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        assert time.perf_counter() - started < ENOUGH_S
        assert (await waiting).status == "unavailable"
    assert not [other for other in asyncio.all_tasks() if "Pipeline" in repr(other) or "Keeper" in repr(other)]
    assert (await pipeline.resolve("b")).status == "unavailable"


@pytest.mark.anyio
async def test_before_the_graph_is_open(new_graph: NewGraph) -> None:
    pipeline = patient(new_graph(), Live([]))
    async with running(pipeline, wait=False) as task:
        await asyncio.sleep(0)
        started = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        assert time.perf_counter() - started < ENOUGH_S


def test_an_embedded_graph_that_works_on_is_interrupted(tmp_path: Path, measured: Measured) -> None:
    command = [sys.executable, "-c", _ENDLESS, str(tmp_path / "g.lbdb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n", process.stderr and process.stderr.read()
        started = time.monotonic()
        try:
            code = process.wait(60)
        finally:
            process.kill()
        measured("stop, embedded graph in an endless statement", [time.monotonic() - started])
        assert code == 0
        assert time.monotonic() - started < ENOUGH_S


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_of_a_server_whose_neo4j_never_answers(number: signal.Signals, measured: Measured) -> None:
    with silent() as port, serving({"NEO4J_URI": f"bolt://127.0.0.1:{port}"}) as agent:
        agent.tools("dns")
        took_s = agent.stop(number)
        assert took_s < ENOUGH_S
        assert not any("Traceback" in line for line in agent.lines)
        measured(f"stop by {number.name}, Neo4j never answered", [took_s])


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_of_a_server_whose_neo4j_hangs(
    crashing_neo4j: CrashingNeo4j, number: signal.Signals, measured: Measured
) -> None:
    with serving(crashing_neo4j.access.environ) as agent:
        agent.until_ready()
        agent.tools("dns")
        crashing_neo4j.stop()
        for _ in range(5):
            agent.tools(agent.fresh_query())
        took_s = agent.stop(number)
        assert took_s < ENOUGH_S
        measured(f"stop by {number.name}, Neo4j hangs", [took_s])


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGTERM])
def test_closes_the_embedded_file(tmp_path: Path, number: signal.Signals) -> None:
    with serving({"MCP_GRAPH_FOLDER": str(tmp_path)}) as agent:
        agent.until_ready()
        assert agent.stop(number) < ENOUGH_S
    assert [path.name for path in tmp_path.iterdir()] == ["graphed.lbdb"], "the engine's log is worked in"
