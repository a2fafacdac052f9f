"""Which tests a run has, and in which order several processes are given them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.every import every
from tests.sharing import in_order

ROOT = Path(__file__).parents[2]
OF_EVERY_KIND = {
    "fast": "tests/suite/test_every.py",
    "both_ends": "tests/conformance/test_conformance.py",
    "tasks": "tests/gateway/test_tasks.py",
    "outside": "tests/state/test_alone.py",
    "nightly": "tests/conformance/test_login_suite.py",
}


class Test:
    """A test as far as its place is judged by it."""

    __test__ = False

    def __init__(self, nodeid: str, timeout_s: float | None = None, *, is_nightly: bool = False) -> None:
        self.nodeid = nodeid
        self._marks = {"timeout": pytest.mark.timeout(timeout_s).mark} if timeout_s else {}
        self._marks |= {"nightly": pytest.mark.nightly.mark} if is_nightly else {}

    def get_closest_marker(self, name: str) -> Any:
        return self._marks.get(name)


class TestOrder:
    def order(self, *tests: Test) -> list[str]:
        return [each.nodeid for each in in_order(tests)]  # type: ignore[arg-type]

    def test_has_first_what_may_take_long_and_then_the_largest(self) -> None:
        small, large = Test("tests/a.py::one"), [Test(f"tests/b.py::{n}") for n in "xyz"]
        long = [Test("tests/c.py::quick"), Test("tests/c.py::slow", 900)]
        expected = [each.nodeid for each in (*long, *large, small)]
        assert self.order(small, *large, *long) == self.order(*long, small, *large) == expected

    def test_has_folders_that_share_servers_as_one(self) -> None:
        tests = (
            Test("tests/x.py::1", 900),
            Test("tests/x.py::2"),
            *(Test(f"tests/query/graph/{n}.py::1") for n in "abc"),
        )
        assert self.order(*tests)[:3] == [f"tests/query/graph/{n}.py::1" for n in "abc"]

    def test_has_folders_first_of_which_few_tests_take_long(self) -> None:
        tests = Test("tests/x.py::1"), Test("tests/x.py::2"), Test("tests/wire/a.py::1")
        assert self.order(*tests)[0] == "tests/wire/a.py::1"

    @every("other", [Test("tests/a.py::1", 300), Test("tests/a.py::1", 900, is_nightly=True)])
    def test_heeds_no_limit_that_is_usual_or_a_nights(self, other: Test) -> None:
        assert self.order(other, Test("tests/b.py::1"), Test("tests/b.py::2"))[-1] == "tests/a.py::1"


@pytest.mark.outside
@every(
    ("options", "kept"),
    [
        (["--fast"], {"fast": True, "both_ends": False, "tasks": False, "outside": False, "nightly": False}),
        (
            ["--fast", "--both-ends"],
            {"fast": True, "both_ends": True, "tasks": True, "outside": False, "nightly": False},
        ),
        ([], {"fast": True, "both_ends": True, "tasks": True, "outside": True, "nightly": True}),
    ],
    ids=["fast", "both ends", "all"],
)
def test_a_run_has_what_its_options_say(options: list[str], kept: dict[str, bool]) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, *OF_EVERY_KIND.values()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    # What is left out is told by its file alone, behind the number of its tests.
    assert {name: f"\n{file}: " in f"\n{done.stdout}" for name, file in OF_EVERY_KIND.items()} == kept, done.stdout


@pytest.mark.outside
def test_what_needs_more_than_python_is_left_to_ci() -> None:
    paths = " ".join([*OF_EVERY_KIND.values(), "agents/logs-agent"])
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", f"testpaths={paths}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    own = {name for name, file in OF_EVERY_KIND.items() if f"\n{file}: " in f"\n{done.stdout}"}
    assert own == {"fast", "outside"}, done.stdout
    assert "\nagents/" not in done.stdout
    assert re.search(r"\n\d{3} tests are left to CI", done.stdout)
