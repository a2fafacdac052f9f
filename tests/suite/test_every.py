"""The loop that stands for a matrix of tests: it runs every combination, and tells of each that failed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.every import every, every_of


def failure(test: Callable[..., Any], **fixtures: Any) -> str:
    """Return what a test that must fail says."""
    with pytest.raises(pytest.fail.Exception) as caught:
        test(**fixtures)
    return str(caught.value)


def test_every_combination_is_run() -> None:
    seen = []

    @every("letter", "ab")
    @every(("number", "sign"), [(1, "+"), (2, "-")])
    def test(letter: str, number: int, sign: str) -> None:
        seen.append(f"{letter}{sign}{number}")

    test()
    assert seen == ["a+1", "a-2", "b+1", "b-2"]


def test_every_failure_is_named_with_its_reason() -> None:
    @every("letter", "ab")
    @every("number", [1, 2, 3])
    def test(letter: str, number: int) -> None:
        assert number != 2, f"{letter} and two"

    told = failure(test)
    assert told.startswith("2 of 6 combinations failed:")
    assert ("['a'-2]" in told, "['b'-2]" in told, "a and two" in told, "b and two" in told) == (True,) * 4


def test_an_error_and_a_failure_by_word_are_failures() -> None:
    @every("number", [0, 1, 2])
    def test(number: int) -> None:
        if number == 1:
            pytest.fail("by word")
        assert 1 / number > 0

    assert failure(test).startswith("2 of 3 combinations failed:")


def test_what_is_left_of_the_arguments_are_fixtures() -> None:
    @every("letter", "ab")
    def test(tmp_path: Any, letter: str) -> None: ...

    assert list(inspect.signature(test).parameters) == ["tmp_path"]


def test_a_fixture_that_is_a_mapping_gives_its_values() -> None:
    @every_of("caller", "callers")
    def test(caller: int) -> None:
        assert caller != 2

    assert list(inspect.signature(test).parameters) == ["callers"]
    assert "[two]" in failure(test, callers={"one": 1, "two": 2})


def test_a_mapping_with_nothing_in_it_is_a_failure() -> None:
    @every_of("caller", "callers")
    def test(caller: int) -> None: ...

    assert failure(test, callers={}) == "there was no combination to try"


def test_no_value_is_an_error_where_the_test_is_made() -> None:
    with pytest.raises(AssertionError, match="no values"):
        every("letter", [])


def test_an_argument_that_the_test_has_not_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no argument"):
        every("lettre", "ab")(lambda letter: None)


def test_each_test_of_a_class_is_run_with_them() -> None:
    seen = []

    @every("letter", "ab")
    class Tests:
        def test_one(self, letter: str) -> None:
            seen.append(f"one {letter}")

        @every("number", [1, 2])
        def test_two(self, letter: str, number: int) -> None:
            seen.append(f"two {letter}{number}")

    Tests().test_one()
    Tests().test_two()
    assert seen == ["one a", "one b", "two a1", "two a2", "two b1", "two b2"]


def test_a_coroutine_is_awaited_for_each() -> None:
    @every("number", [1, 2])
    async def test(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        assert number == 1

    with pytest.raises(pytest.fail.Exception, match="1 of 2 combinations failed"):
        anyio.run(test)


def test_marks_stay() -> None:
    @every("number", [1])
    @pytest.mark.outside
    def test(number: int) -> None: ...

    assert [mark.name for mark in test.pytestmark] == ["outside"]


def test_each_combination_has_a_folder_of_its_own_and_patches_that_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @every("letter", "ab")
    def test(letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch(exist_ok=False)
        assert "A_LETTER" not in os.environ
        monkeypatch.setenv("A_LETTER", letter)

    test(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert "A_LETTER" not in os.environ


def test_each_combination_has_what_it_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    @every("letter", "ab")
    def test(letter: str, capsys: pytest.CaptureFixture[str]) -> None:
        print(letter)
        if letter == "b":
            assert capsys.readouterr().out == "b\n"

    test(capsys=capsys)


def test_one_that_is_skipped_keeps_no_other_from_being_run() -> None:
    @every("number", [1, 2, 3])
    def test(number: int) -> None:
        if number == 1:
            pytest.skip("not this one")
        assert number != 2

    assert failure(test).startswith("1 of 3 combinations failed:")

    @every("number", [1, 2])
    def skipping(number: int) -> None:
        if number == 1:
            pytest.skip("not this one")

    with pytest.raises(pytest.skip.Exception, match=r"1 of 2 combinations: \[1\] not this one"):
        skipping()


def test_the_end_of_the_whole_tests_time_ends_it() -> None:
    tried = []

    @every("number", [1, 2])
    def test(number: int) -> None:
        tried.append(number)
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")

    assert failure(test).startswith("Timeout")
    assert tried == [1]


def test_combinations_are_named_as_they_are_told_to_be_and_briefly() -> None:
    @every("number", [1, 2], ids=["one", "two"])
    @every("text", ["x" * 1000], ids=len)
    def named(number: int, text: str) -> None:
        assert number == 1

    assert "\n[two-1000] " in failure(named)

    @every("number", [1 << 20_000, "x" * 1000])
    def long(number: Any) -> None:
        raise AssertionError

    assert "\n[a int] " in failure(long)
    assert max(map(len, failure(long).split("]"))) < 400
