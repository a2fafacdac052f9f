"""No gauge of the house rises, and each gauge counts what it says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.architecture import gauges
from tests.architecture.report import FELL
from tests.architecture.trace import Trace, bears
from tests.every import every

WORDS = "the words"


@dataclass(frozen=True)
class Selection:
    query: str


@dataclass(frozen=True)
class Request:
    selection: Selection
    names: tuple[str, ...] = ()


@pytest.mark.outside
@every("name", gauges.GAUGES)
def test_none_rises(name: str, record_property: Callable[[str, object], None]) -> None:
    most, here = gauges.ratchets()[name]["most"], gauges.GAUGES[name]()
    assert here <= most, f"{name} rose from {most} to {here}: see python3 tasks.py gauges"
    if here < most:
        record_property(FELL, f"{name} fell from {most} to {here}")


def test_each_has_a_ratchet_and_a_goal_below_it() -> None:
    held = gauges.ratchets()
    assert list(held) == list(gauges.GAUGES)
    assert [name for name, each in held.items() if set(each) != {"most", "goal"}] == []


class TestCounts:
    def test_lines_of_code_are_no_prose(self) -> None:
        assert gauges.code_lines('"""Of\nprose."""\n\n# why\nimport os  # it\nx = """a\nb"""\n') == 3

    def test_imports_are_found_wherever_they_stand(self) -> None:
        source = "import a.b, c\ndef f():\n    from d.e import f\n"
        assert [*gauges.imported(source)] == ["a.b", "c", "d.e"]

    def test_protocols_are_found_by_their_base(self) -> None:
        source = "class Host(Protocol): ...\nclass Wide(Host, Protocol[T]): ...\nclass Server(Host): ...\n"
        assert [*gauges.protocols(source)] == ["Host", "Wide"]

    def test_a_place_is_no_beginning_of_a_name(self) -> None:
        assert gauges.is_below("mcp/server.py", ("mcp",))
        assert gauges.is_below("agent_utilities.features", ("agent_utilities.features",))
        assert not gauges.is_below("agent_utilities.features_of_old", ("agent_utilities.features",))

    def test_session_words_are_whole(self) -> None:
        assert gauges.SESSION_WORDS.findall("Taken, TakenAway, SessionView and untaken") == ["Taken", "SessionView"]


class TestTrace:
    @every(
        "value",
        [f"x {WORDS}", WORDS.encode(), [WORDS], Request(Selection(WORDS)), (Request(Selection(""), (WORDS,)),)],
    )
    def test_an_argument_bears_words_however_deep(self, value: object) -> None:
        assert bears(value, WORDS)

    def test_another_bears_none(self) -> None:
        assert not bears(Request(Selection("others"), ("x",)), WORDS)
        assert not bears(Request, WORDS)

    def test_every_file_that_is_entered_counts_and_those_handed_words_once_more(self, tmp_path: Path) -> None:
        trace = Trace(tmp_path, WORDS)
        for name, given in (("passes", [Request(Selection(WORDS))]), ("plain", [])):
            scope: dict[str, Any] = {}
            exec(compile("def called(*given): ...", tmp_path / f"{name}.py", "exec"), scope)
            sys.setprofile(trace)
            try:
                scope["called"](WORDS)
                with trace.tracing():
                    scope["called"](*given)
            finally:
                sys.setprofile(None)
        assert trace.entered == {"passes.py": "called", "plain.py": "called"}
        assert trace.handed == {"passes.py": "called"}
