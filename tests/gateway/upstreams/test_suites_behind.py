"""The suites of the servers themselves pass with the same servers behind a gateway: some in every run, all at night."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside

ROOT = Path(__file__).parents[3]
SOME = ("tests/wire/test_hostile_caller.py",)
ALL = ("tests/wire",)


def _run(*tests: str) -> str:
    """Return how a run of tests behind a gateway closes.

    Raises:
        AssertionError: a test failed.
    """
    command = [sys.executable, "-m", "pytest", "--behind-gateway", "-p", "no:cacheprovider", *tests]
    environ = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout.strip().splitlines()[-1]


def test_a_hostile_caller_finds_no_way_round_the_gateways_bounds() -> None:
    assert " passed" in _run(*SOME)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_all_of_the_wires_tests_hold() -> None:
    assert " passed" in _run(*ALL)
