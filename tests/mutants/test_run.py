"""The runner tells mutants that a test fails on from those that none notices, and from tests that did not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.run import Mutant

pytestmark = pytest.mark.outside
FILE = "agent_utilities/runtime/bounded_cache.py"
TEST = "tests/runtime/test_bounded_cache.py"
NOTICED = Mutant("Nothing is kept.", FILE, "self._entries[key] = value, weight", "pass", TEST)
UNNOTICED = Mutant("Only words change.", FILE, '"""Forget everything."""', '"""Forget all."""', TEST)
WITHOUT_A_TEST = Mutant("No test is there.", FILE, NOTICED.old, NOTICED.new, f"{TEST}::test_nonesuch")


def test_one_that_survives_is_named_and_makes_the_run_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run.ROOT / FILE).read_bytes()
    monkeypatch.setattr(run, "read_mutants", lambda: [NOTICED, UNNOTICED])
    assert run.main([]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [f"killed   {NOTICED}", f"SURVIVED {UNNOTICED}", "1 of 2 mutants killed"]
    assert (run.ROOT / FILE).read_bytes() == before


def test_those_that_are_not_asked_for_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "read_mutants", lambda: [NOTICED, UNNOTICED])
    assert run.main(["--only", "Nothing is kept"]) == 0


def test_a_test_that_is_not_there_is_no_kill(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no test ran"):
        run.Tree(tmp_path).survives(WITHOUT_A_TEST)
