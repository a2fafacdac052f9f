"""The runner tells the defects that a test fails on from those that none notices, and puts none where none belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.every import every
from tests.mutation import run
from tests.mutation.operators import Mutant, mutants

FILE = "agent_utilities/runtime/process_io.py"
SOURCE = b'''
"""Not 1 of these."""

LIMIT: "1 of 2" = 1

def f(a: int = 2, *, b=None) -> "a < b":
    """Not 3 of these."""
    if a < 4 and not b:
        logger.info("5", extra=6)
        raise ValueError(f"{a + 7}")
    return g(a, zip(b, strict=True), 80)

class C:
    def __repr__(self):
        return 9
'''


def done(source: bytes) -> set[str]:
    return {mutant.what for mutant in mutants(FILE, source)}


class TestOperators:
    def test_each_breaks_one_thing(self) -> None:
        assert done(SOURCE) == {
            "1 → 2",
            "1 → 0",
            "2 → 3",
            "2 → 1",
            "4 → 5",
            "4 → 3",
            "a < 4 → a <= 4",
            "a < 4 and (not b) → a < 4 or not b",
            "not b → b",
            "if a < 4 and (not b) → if True",
            "if a < 4 and (not b) → if False",
            "deleted: raise ValueError(f'{a + 7}')",
            "return g(a, zip(b, strict=True), 80) → return None",
            "g(a, zip(b, strict=True), 80) → g(a, zip(b, strict=True))",
        }

    def test_the_rest_of_the_file_stays(self) -> None:
        (swapped,) = (mutant for mutant in mutants(FILE, SOURCE) if mutant.what == "not b → b")
        assert swapped.applied(SOURCE) == SOURCE.replace(b"not b:", b"(b):")
        assert swapped.line == 8

    def test_characters_of_several_bytes_shift_nothing(self) -> None:
        source = 'x = f("déjà", 1)\n'.encode()
        (dropped,) = (mutant for mutant in mutants(FILE, source) if mutant.what.endswith("f('déjà')"))
        assert dropped.applied(source).decode() == "x = (f('déjà'))\n"

    def test_what_is_no_python_any_more_or_the_same_is_no_defect(self) -> None:
        of_no_call = Mutant(FILE, 1, 1, (0, 1), "(", "a bracket")
        the_same = Mutant(FILE, 1, 1, (4, 5), "(1)", "brackets")
        assert not of_no_call.changes(b"x = 1\n")
        assert not the_same.changes(b"x = 1\n")


class TestRooms:
    def test_a_sample_is_the_same_for_the_same_seed(self) -> None:
        source = (run.ROOT / FILE).read_bytes()
        chosen = [run.sampled(mutants(FILE, source), 3, seed, ["runtime"])["runtime"] for seed in (1, 1, 2)]
        assert chosen[0] == chosen[1] != chosen[2]
        assert len(chosen[0]) == 3

    @every(
        ("file", "room"),
        [
            ("agent_utilities/seam/feature.py", "server"),
            ("agent_utilities/server_factory.py", "server"),
            ("agent_utilities/query/graph/base.py", "query"),
            ("agent_utilities/settings.py", "runtime"),
        ],
    )
    def test_every_file_is_of_a_room(self, file: str, room: str) -> None:
        assert run.room_of(file) == room

    def test_every_folder_of_the_package_is_named(self) -> None:
        folders = {path.parent.name for path in run.ROOT.glob("agent_utilities/*/__init__.py")}
        assert folders <= {place for places in run.ROOMS.values() for place in places}

    def test_the_interval_of_a_rate(self) -> None:
        # 38 of 44: statsmodels.stats.proportion.proportion_confint(38, 44, method="wilson").
        assert run.wilson(38, 44) == pytest.approx((0.7329, 0.9360), abs=1e-4)
        assert run.wilson(0, 0) == (0.0, 1.0)


@pytest.mark.outside
def test_one_that_survives_is_told_from_one_that_is_killed(tmp_path: Path) -> None:
    tree = run.Tree(tmp_path, budget_s=60)
    (tmp_path / FILE).write_text("def lower(a, b):\n    return a if a < b else b\n")
    for folder in ("runtime", "testing", "architecture"):
        for file in (tmp_path / "tests" / folder).glob("test_*.py"):
            file.unlink()
    test = "tests/runtime/test_lower.py"
    (tmp_path / test).write_text(
        "from agent_utilities.runtime.process_io import lower\n\n\ndef test_lower():\n    assert lower(1, 2) == 1\n"
    )
    tree.learn(test)
    found = {mutant.what: tree.killer(mutant) for mutant in mutants(FILE, (tmp_path / FILE).read_bytes())}
    assert found["a if a < b else b → b"] == f"{test}::test_lower"
    assert found["a < b → a <= b"] is None
