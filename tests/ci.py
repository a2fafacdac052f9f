"""What `python3 tasks.py test` leaves to CI: what needs Java, Node.js or a browser, and what is tested apart.

CI runs all, `python3 tasks.py test --all`. Whoever names a file or a folder has all of its tests.
"""

from __future__ import annotations

from typing import Any

import pytest

MARKS = ("ci", "nightly", "node", "tasks")
FIXTURES = frozenset({"browser", "neo4j_server", "crashing_neo4j"})
"""Fixtures that start a browser or a Neo4j."""
PLACES = (
    "agents/",
    "tests/conformance/",
    "tests/demo/test_demos.py",
    "tests/differential/test_differential.py::TestEveryRun",
    "tests/differential/test_differential.py::test_an_answer_that_no_end_of_a_line_follows_is_one",
    "tests/docs/",
    "tests/fleet/processes/",
)
"""Where other tests stand that are left to CI: beginnings of node ids."""
_OUTPUT = "left to CI"


def is_left(item: pytest.Item) -> bool:
    """Whether a test is left to CI."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    fixtures = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    is_marked = any(item.get_closest_marker(mark) for mark in MARKS)
    return is_marked or bool(fixtures) or parameters.get("backend") == "neo4j" or item.nodeid.startswith(PLACES)


class LeftToCI:
    """Leaves these tests out, and says how many they are."""

    def __init__(self) -> None:
        self._n_left = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left = [item for item in items if is_left(item)]
        items[:] = [item for item in items if not is_left(item)]
        self._n_left = len(left)
        config.hook.pytest_deselected(items=left)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that started this one, where several run the tests."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_OUTPUT] = self._n_left

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take how many a process left out; all leave out the same."""
        self._n_left = max(self._n_left, getattr(node, "workeroutput", {}).get(_OUTPUT, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._n_left:
            terminalreporter.write_line(f"{self._n_left} tests are left to CI: --all runs them too")
