"""What a run tells of the house: which gauges are less than their ratchets by now."""

from __future__ import annotations

import pytest

FELL = "a gauge fell"
"""The property of a test's report that says so; reports come to the process that tells, where several run the tests."""


class HouseReport:
    """Plugin that tells of gauges that fell, at the end of the run."""

    def __init__(self) -> None:
        self._fell: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._fell += [str(text) for name, text in report.user_properties if name == FELL]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._fell:
            terminalreporter.section("house: python3 tasks.py gauges --lower")
            for text in self._fell:
                terminalreporter.write_line(text)
