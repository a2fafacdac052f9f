"""The set of active capabilities is a value: every step gives another, and says what it changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.capabilities.model import (
    NONE_ACTIVE,
    ActiveCapabilities,
    brought,
    disable,
    enable,
    touch,
)

NAMES = st.sampled_from(["browser", "docker", "files", "git", "memory", "time"])
STEPS = st.lists(st.tuples(st.sampled_from(["enable", "disable", "touch"]), NAMES), max_size=30)


@given(STEPS, st.integers(0, 5))
def test_never_more_are_active_than_may_be_and_each_once(steps: list[tuple[str, str]], most: int) -> None:
    active = NONE_ACTIVE
    for step, name in steps:
        before = active
        match step:
            case "enable":
                change = enable(active, name, most)
                assert len(change.removed) <= 1
                assert not {*change.removed} & {*change.active.names}
                assert set(before.names) | set(change.added) == set(change.active.names) | set(change.removed)
                active = change.active
            case "disable":
                active = disable(active, name).active
            case _:
                active = touch(active, name)
        assert len(active.names) <= most
        assert len(set(active.names)) == len(active.names)


def test_the_least_recently_used_gives_way() -> None:
    active = ActiveCapabilities(("git", "files", "time", "memory"))
    change = enable(touch(active, "git"), "browser", 4)
    assert change.removed == ("files",)
    assert change.active.names == ("time", "memory", "git", "browser")


def test_enabling_twice_adds_nothing_and_counts_as_use() -> None:
    change = enable(ActiveCapabilities(("git", "files")), "git", 4)
    assert (change.added, change.removed, change.active.names) == ((), (), ("files", "git"))


def test_disabling_takes_away_that_one_alone() -> None:
    change = disable(ActiveCapabilities(("git", "files", "time")), "files")
    assert (change.active.names, change.added, change.removed) == (("git", "time"), (), ("files",))


def test_disabling_what_is_not_active_changes_nothing() -> None:
    active = ActiveCapabilities(("git",))
    assert disable(active, "files").active is active


def test_of_what_a_caller_brings_the_last_ones_are_taken_that_there_are_for_him() -> None:
    names = ("git", "nothing", "files", "git", "time")
    assert brought(names, {"git", "files", "time"}, 2).names == ("git", "time")
