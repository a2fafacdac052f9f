"""Every mutant can still be tried: what it replaces stands in the code once, and the test it names is there."""

from __future__ import annotations

from tests.mutants.run import ROOT, Mutant, read_mutants

MUTANTS = read_mutants()


def names_that_are_not_there(mutant: Mutant) -> list[str]:
    """Return which of the classes and functions in a mutant's node id its file does not define; or the file."""
    path, *names = mutant.test.partition("[")[0].split("::")
    if not (ROOT / path).exists():
        return [path]
    text = (ROOT / path).read_text(encoding="utf-8")
    return [name for name in names if f"class {name}:" not in text and f"def {name}(" not in text]


def test_what_each_replaces_stands_in_its_file_once() -> None:
    counts = {mutant: (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) for mutant in MUTANTS}
    assert {str(mutant): n for mutant, n in counts.items() if n != 1} == {}


def test_each_changes_something() -> None:
    assert [str(mutant) for mutant in MUTANTS if mutant.old == mutant.new] == []


def test_the_test_of_each_is_there() -> None:
    missing = {str(mutant): names_that_are_not_there(mutant) for mutant in MUTANTS}
    assert {mutant: names for mutant, names in missing.items() if names} == {}


def test_no_defect_is_tried_twice() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
