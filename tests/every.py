"""One test over many combinations: it runs them all and names each that failed, where a matrix would be as many tests.

Combinations share the test's fixtures, but for those in `FRESH`; none may leave anything in the others for the next.
`pytest.mark.parametrize` is for what must be a test of its own: one that is marked, or that a fixture is made by.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any] | type)
FAILURES = (Exception, pytest.fail.Exception)
FRESH = ("tmp_path", "monkeypatch", "capsys", "capfd", "caplog")
"""Fixtures that each combination has as if it were a test of its own, where the test itself asks for them."""
_AXES = "every_axes"
_LONGEST = 200
"""Characters of a value by which a combination is told from others."""


@dataclass(frozen=True)
class Axis:
    """One dimension of the combinations.

    Args:
        names: the arguments that it gives to the test.
        options: label and arguments of each step; None where a fixture brings them.
        fixture: the mapping fixture whose keys are the labels and whose values are the argument, or nothing.
    """

    names: tuple[str, ...]
    options: tuple[tuple[str, tuple[Any, ...]], ...] | None
    fixture: str = ""

    def steps(self, fixtures: Mapping[str, Any]) -> Iterable[tuple[str, tuple[Any, ...]]]:
        """Return label and arguments of each step, given the test's fixtures."""
        if self.options is not None:
            return self.options
        return [(str(label), (value,)) for label, value in fixtures[self.fixture].items()]


def every(
    names: str | tuple[str, ...], values: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Return a decorator that runs a test, or each test of a class, with each of the values.

    Args:
        names: an argument's name, or several, as for `pytest.mark.parametrize`.
        values: what it gets; a tuple of as many where there are several names, or a `pytest.param` with its id.
        ids: what each is called where it fails, unless by its value; or what makes that of a value.
    """
    words = (names,) if isinstance(names, str) else names
    values = list(values)
    options = tuple(_option(value, len(words)) for value in values)
    if ids is not None:
        labels = map(ids, values) if callable(ids) else ids
        options = tuple((str(label), arguments) for label, (_, arguments) in zip(labels, options, strict=True))
    assert options, f"no values for {words}: the test would check nothing"
    return lambda test: _add(test, Axis(words, options))


def every_of(name: str, fixture: str) -> Callable[[Test], Test]:
    """Return a decorator that runs a test, or each test of a class, with each value of a mapping that a fixture is."""
    return lambda test: _add(test, Axis((name,), None, fixture))


def _option(value: Any, n_names: int) -> tuple[str, tuple[Any, ...]]:
    if hasattr(value, "values") and hasattr(value, "marks"):  # a pytest.param
        assert not value.marks, "marks hold for a whole test, not for one combination"
        return value.id or _label(value.values), tuple(value.values)
    arguments = (value,) if n_names == 1 else tuple(value)
    assert len(arguments) == n_names, (arguments, n_names)
    return _label(arguments), arguments


def _label(arguments: tuple[Any, ...]) -> str:
    return "-".join(getattr(value, "__name__", None) or _words(value) for value in arguments)


def _words(value: Any) -> str:
    try:
        text = ascii(value)
    except ValueError:  # a number of more digits than Python writes
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _add(test: Any, axis: Axis) -> Any:
    if inspect.isclass(test):
        for name, method in list(vars(test).items()):
            if name.startswith("test_"):
                setattr(test, name, _add(method, axis))
        return test
    # The decorator nearest to the test runs first; those above it become outer loops of the same run.
    inner, axes = getattr(test, _AXES, (test, ()))
    return _looping(inner, (axis, *axes), getattr(test, "pytestmark", []))


def _looping(test: Callable[..., Any], axes: tuple[Axis, ...], marks: list[pytest.Mark]) -> Callable[..., Any]:
    """Return a test that runs another with every combination and fails with a report of all that failed."""
    run: Callable[..., Any]
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def run(*self: Any, **fixtures: Any) -> None:
            report = Report()
            for label, arguments in _combinations(axes, fixtures):
                with report.of(label), _fresh(arguments, report.n) as own:
                    await test(*self, **own)
            report.close()

    else:

        @functools.wraps(test)
        def run(*self: Any, **fixtures: Any) -> None:
            report = Report()
            for label, arguments in _combinations(axes, fixtures):
                with report.of(label), _fresh(arguments, report.n) as own:
                    test(*self, **own)
            report.close()

    run.__signature__ = _signature(test, axes)  # type: ignore[attr-defined]
    run.pytestmark = list(marks)  # type: ignore[attr-defined]
    setattr(run, _AXES, (test, axes))
    return run


def _signature(test: Callable[..., Any], axes: tuple[Axis, ...]) -> inspect.Signature:
    """Return what is left for fixtures: the test's parameters without those given, and the fixtures that give them."""
    given = {name for axis in axes for name in axis.names}
    parameters = inspect.signature(test).parameters
    assert given <= set(parameters), f"{given - set(parameters)} is no argument of {test.__name__}"
    left = [parameter for name, parameter in parameters.items() if name not in given]
    asked = {axis.fixture for axis in axes if axis.fixture} - set(parameters)
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in sorted(asked)]
    return inspect.Signature([*left, *more])


def _combinations(axes: tuple[Axis, ...], fixtures: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    fixed = {name: value for name, value in fixtures.items() if not any(axis.fixture == name for axis in axes)}
    for steps in itertools.product(*(axis.steps(fixtures) for axis in axes)):
        arguments = dict(fixed)
        for axis, (_, values) in zip(axes, steps, strict=True):
            arguments.update(zip(axis.names, values, strict=True))
        yield "-".join(label for label, _ in steps), arguments


@contextmanager
def _fresh(arguments: Mapping[str, Any], n: int) -> Iterator[dict[str, Any]]:
    """Give one combination a folder, patches and captured texts of its own, where the test has such fixtures."""
    own = dict(arguments)
    with ExitStack() as stack:
        if "tmp_path" in own:
            own["tmp_path"] = own["tmp_path"] / str(n)
            own["tmp_path"].mkdir()
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
        for name in {"capsys", "capfd"} & own.keys():
            own[name].readouterr()
        if "caplog" in own:
            own["caplog"].clear()
        yield own


class Report:
    """What failed, and what was skipped, of how many."""

    def __init__(self) -> None:
        self.n, self._failed, self._skipped = 0, list[str](), list[str]()

    def of(self, label: str) -> Attempt:
        """Return a block whose failure is noted under a label and goes no further."""
        self.n += 1
        return Attempt(label, self._failed, self._skipped)

    def close(self) -> None:
        """Fail, naming every combination that did; pass where none did and none was skipped.

        Raises:
            Failed: a combination failed, or there was none.
            Skipped: a combination was skipped, and none failed.
        """
        __tracebackhide__ = True
        if self.n == 0:
            pytest.fail("there was no combination to try", pytrace=False)
        if self._failed:
            lines = [f"{len(self._failed)} of {self.n} combinations failed:", *self._failed]
            pytest.fail("\n".join(lines), pytrace=False)
        if self._skipped:
            pytest.skip(f"{len(self._skipped)} of {self.n} combinations: {'; '.join(self._skipped)}")


class Attempt:
    """One combination's run."""

    def __init__(self, label: str, failed: list[str], skipped: list[str]) -> None:
        self._label, self._failed, self._skipped = label, failed, skipped

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, pytest.skip.Exception):
            self._skipped.append(f"[{self._label}] {error}")
            return True
        if not isinstance(error, FAILURES) or str(error).startswith("Timeout ("):  # the whole test's time is over
            return False
        last = traceback.extract_tb(error.__traceback__)[-1]
        self._failed.append(f"[{self._label}] {last.filename}:{last.lineno}: {type(error).__name__}: {error}")
        return True
