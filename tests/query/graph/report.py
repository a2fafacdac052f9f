"""What a run tells of the graph: what was measured, and in CI that tests on Neo4j did run.

It stands in the root's conftest, and not in this folder's: where several processes run the tests, the one that
reports collects none of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import quantiles
from typing import Any

import pytest

NEEDS = frozenset({"neo4j_server", "crashing_neo4j"})
_PROPERTY = ("needs", "neo4j")
_OUTPUT = "graph: measured"


class GraphReport:
    """Plugin that keeps the figures, and which tests on Neo4j there are and ran."""

    def __init__(self) -> None:
        self._wanted: set[str] = set()
        self._ran: set[str] = set()
        self._figures: list[str] = []

    def note(self, name: str, seconds: Sequence[float]) -> None:
        """Report seconds, under a name, at the end of the run."""
        cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
        n, p50, p99, most = len(seconds), 1000 * cuts[49], 1000 * cuts[98], 1000 * max(seconds)
        self._figures.append(f"{name}: n={n} p50={p50:.1f} ms p99={p99:.1f} ms max={most:.1f} ms")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark the tests on Neo4j with what their reports carry to the process that tells."""
        for item in items:
            params = getattr(getattr(item, "callspec", None), "params", {})
            if params.get("backend") == "neo4j" or not NEEDS.isdisjoint(getattr(item, "fixturenames", ())):
                item.user_properties.append(_PROPERTY)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        is_for_the_night = "nightly" in report.keywords and report.skipped
        if _PROPERTY not in map(tuple, report.user_properties) or is_for_the_night:
            return
        self._wanted.add(report.nodeid)
        if report.when == "call" and not (report.skipped and not hasattr(report, "wasxfail")):
            self._ran.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In CI, tests on Neo4j that were all skipped are a failure."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_OUTPUT] = self._figures
        elif os.environ.get("CI") and self._wanted and not self._ran:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            n_wanted = len(self._wanted)
            self._figures.append(f"FAILED: no Neo4j could be had, so all of its {n_wanted} tests were skipped, in CI")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what was measured from a process that ran tests."""
        self._figures += getattr(node, "workeroutput", {}).get(_OUTPUT, [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._figures:
            terminalreporter.section("graph: measured")
            for line in self._figures:
                terminalreporter.write_line(line)
