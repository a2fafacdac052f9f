"""The set of active capabilities is a value: every step gives another, and says what it changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.capabilities.model import Active, brought, difference, enable, used

NAMES = st.sampled_from(["browser", "docker", "files", "git", "memory", "time"])
STEPS = st.lists(st.tuples(st.sampled_from(["enable", "use"]), NAMES), max_size=30)


@given(STEPS, st.integers(0, 5))
def test_never_more_are_active_than_may_be_and_each_once(steps: list[tuple[str, str]], most: int) -> None:
    active: Active = ()
    for step, name in steps:
        before = active
        match step:
            case "enable":
                active = enable(active, name, most)
                came, gone = difference(before, active)
                assert len(gone) <= 1
                assert {*came} <= {name}
            case _:
                active = used(active, {name})
        assert len(active) <= most
        assert len(set(active)) == len(active)


def test_the_least_recently_used_gives_way() -> None:
    before = used(("git", "files", "time", "memory"), {"git"})
    after = enable(before, "browser", 4)
    assert after == ("time", "memory", "git", "browser")
    assert difference(before, after) == (("browser",), ("files",))


def test_enabling_twice_adds_nothing_and_counts_as_use() -> None:
    assert enable(("git", "files"), "git", 4) == ("files", "git")


def test_of_what_a_caller_brings_the_last_ones_are_taken_that_there_are_for_them() -> None:
    assert brought(("git", "nothing", "files", "git", "time"), {"git", "files", "time"}, 2) == ("git", "time")
