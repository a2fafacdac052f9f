"""Each backend as a real one, emptied for each test; a Neo4j to crash; and a report of what was measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_utilities.query.graph.base import ToolGraph
from agent_utilities.query.graph.embedded import EmbeddedGraph
from tests.query.graph.neo4j_servers import GIVEN, Access, CrashingNeo4j, NoNeo4jError, any_neo4j, own_neo4j
from tests.query.graph.report import GraphReport

BACKENDS = ("embedded", "neo4j")
NEO4J_AT_NIGHT = pytest.mark.parametrize(
    "backend", ["embedded", pytest.param("neo4j", marks=pytest.mark.nightly)], indirect=True
)
"""Marks a test that takes long on Neo4j."""

NewGraph = Callable[[], ToolGraph]
Measured = Callable[[str, Sequence[float]], None]


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> Measured:
    """Reports seconds, under a name, at the end of the run."""
    report = pytestconfig.pluginmanager.get_plugin("graph-report")
    assert isinstance(report, GraphReport)
    return report.note


@pytest.fixture(scope="session")
def _neo4j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access | CrashingNeo4j]:
    with ExitStack() as stack:
        try:
            neo4j = stack.enter_context(any_neo4j(tmp_path_factory.mktemp("neo4j"), GIVEN))
        except NoNeo4jError as error:
            pytest.skip(f"no Neo4j: {error}")
        yield neo4j


@pytest.fixture(scope="session")
def _process(_neo4j: Access | CrashingNeo4j, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashingNeo4j]:
    if isinstance(_neo4j, CrashingNeo4j):
        yield _neo4j
        return
    with ExitStack() as stack:
        try:
            process = stack.enter_context(own_neo4j(tmp_path_factory.mktemp("crashing")))
        except NoNeo4jError as error:
            pytest.skip(f"no Neo4j process to harm: {error}")
        yield process


@pytest.fixture
def neo4j_server(_neo4j: Access | CrashingNeo4j) -> Access:
    """A Neo4j that answers, with no tools in it."""
    if isinstance(_neo4j, CrashingNeo4j):
        _neo4j.start()
        _neo4j = _neo4j.access
    _neo4j.empty()
    return _neo4j


@pytest.fixture
def crashing_neo4j(_process: CrashingNeo4j) -> Iterator[CrashingNeo4j]:
    """A Neo4j process to kill and halt, started and empty; a test may leave it in any state."""
    _process.start()
    _process.access.empty()
    yield _process
    _process.go_on()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend's name."""
    return str(request.param)


@pytest.fixture
def new_graph(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> NewGraph:
    """Makes graphs, not yet open, on one empty store."""
    if backend == "embedded":
        return lambda: EmbeddedGraph(tmp_path / "tools.lbdb")
    access: Access = request.getfixturevalue("neo4j_server")
    return access.graph


@pytest.fixture
async def graph(new_graph: NewGraph) -> AsyncIterator[ToolGraph]:
    """An open graph with nothing in it, on each backend."""
    opened = new_graph()
    await opened.open()
    yield opened
    await opened.close()
