"""Where no Neo4j can be had its tests are skipped by name, and in CI that is a failure.

Each run is a pytest of its own, which takes seconds; the two that fail nothing are for the night.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ONE = "tests/query/graph/test_sync.py::TestSync::test_an_equal_tool_set_only_moves_the_time"


def run_without_java(ci: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("NEO4J_", "CI", "PYTEST"))}
    environ = {**others, "PATH": "/nonexistent", **({"CI": ci} if ci else {})}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("ci", "code"), [pytest.param("", 0, marks=pytest.mark.nightly), ("true", 1)])
def test_all_skipped_fails_in_ci_only(ci: str, code: int) -> None:
    done = run_without_java(ci, f"{ONE}[neo4j]")
    assert "no Neo4j: java is not installed" in done.stdout
    assert ("so all of its 1 tests were skipped, in CI" in done.stdout) == (code == 1)
    assert done.returncode == code, done.stdout


@pytest.mark.nightly
def test_tests_that_need_none_are_no_failure_in_ci() -> None:
    assert run_without_java("true", f"{ONE}[embedded]").returncode == 0
