"""Each backend as a real one, emptied for each test; a Neo4j to crash; and a report of what was measured."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from agent_utilities.graph.base import ToolGraph
from agent_utilities.graph.embedded import EmbeddedGraph
from tests.graph.neo4j_servers import GIVEN, Access, CrashingNeo4j, NoNeo4jError, any_neo4j, own_neo4j

BACKENDS = ("embedded", "neo4j")
NEO4J_AT_NIGHT = pytest.mark.parametrize(
    "backend", ["embedded", pytest.param("neo4j", marks=pytest.mark.nightly)], indirect=True
)
"""Marks a test that takes long on Neo4j."""

NEEDS = {"neo4j_server", "crashing_neo4j"}
_NEEDS_NEO4J = ("needs", "neo4j")

_wanted: set[str] = set()
_ran: set[str] = set()
_figures: list[str] = []

NewGraph = Callable[[], ToolGraph]
Measured = Callable[[str, Sequence[float]], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests on Neo4j, in words that also reach the process that reports, where others run the tests."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("backend") == "neo4j" or not NEEDS.isdisjoint(getattr(item, "fixturenames", ())):
            item.user_properties.append(_NEEDS_NEO4J)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    is_nightly = "nightly" in report.keywords and report.skipped
    if tuple(_NEEDS_NEO4J) not in map(tuple, report.user_properties) or is_nightly:
        return
    _wanted.add(report.nodeid)
    if report.when == "call" and not (report.skipped and not hasattr(report, "wasxfail")):
        _ran.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, tests on Neo4j that were all skipped are a failure."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["graph: measured"] = _figures
    elif os.environ.get("CI") and _wanted and not _ran and not session.config.option.collectonly:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        _figures.append(f"FAILED: no Neo4j could be had, so all of its {len(_wanted)} tests were skipped, in CI")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what was measured from a process that ran tests."""
    _figures.extend(getattr(node, "workeroutput", {}).get("graph: measured", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _figures:
        terminalreporter.section("graph: measured")
        for line in _figures:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def measured() -> Measured:
    """Reports seconds, under a name, at the end of the run."""

    def note(name: str, seconds: Sequence[float]) -> None:
        cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
        n, p50, p99, most = len(seconds), 1000 * cuts[49], 1000 * cuts[98], 1000 * max(seconds)
        _figures.append(f"{name}: n={n} p50={p50:.1f} ms p99={p99:.1f} ms max={most:.1f} ms")

    return note


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
