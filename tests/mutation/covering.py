"""A pytest plugin, `-p tests.mutation.covering`: which tests run each line, written to `$COVERING_MAP`.

Tests that failed or were skipped are not in it. What runs when a module is imported is no test's. With `--outside` only
the tests are run that the fast suite leaves out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import coverage
import pytest

from tests.fast import is_outside

ROOT = Path(__file__).resolve().parents[2]


class Covering:
    """Measures the package while tests run, one context for each test."""

    def __init__(self, folder: Path) -> None:
        package = folder / "agent_utilities"
        self._folder = folder
        self._coverage = coverage.Coverage(data_file=None, source=[str(package)], config_file=False, messages=False)
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            name = str(Path(file).relative_to(self._folder))
            lines[name] = {
                line: [test for test in tests if test and test not in self._failed]
                for line, tests in data.contexts_by_lineno(file).items()
            }
        found = {"seconds": self._seconds, "lines": lines}
        Path(os.environ["COVERING_MAP"]).write_text(json.dumps(found), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outside", action="store_true", help="run only what the fast suite leaves out")


def pytest_configure(config: pytest.Config) -> None:
    if "COVERING_MAP" in os.environ:
        config.pluginmanager.register(Covering(ROOT), "covering")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--outside"):
        items[:] = [item for item in items if is_outside(item)]
