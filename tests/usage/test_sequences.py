"""What goes together, by sessions, of which none weighs much more than another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.usage.learning import GAP_MS, MOST_PAIRS, MOST_STEPS, MOST_TOOLS, Step, sequences
from tests.every import every


def session(tools: str, name: str = "s", every_ms: int = 1_000) -> list[Step]:
    return [Step(name, place * every_ms, tool) for place, tool in enumerate(tools)]


class TestUsedWith:
    @every(
        ("steps", "counted"),
        [
            pytest.param(session("ababab"), {("a", "b"): 1}, id="a session once"),
            pytest.param(session("ab") + session("ba", "t"), {("a", "b"): 2}, id="each session"),
            pytest.param(session("cab"), {("a", "b"): 1, ("a", "c"): 1, ("b", "c"): 1}, id="in order of the alphabet"),
            pytest.param(session("abab", ""), {}, id="nothing of calls without a session"),
        ],
    )
    def test_counts_the_sessions_of_each_pair(self, steps, counted):
        assert sequences(steps).used_with == counted

    def test_ends_with_a_long_pause(self):
        assert sequences(session("ab", every_ms=GAP_MS)).used_with == {("a", "b"): 1}
        assert sequences(session("ab", every_ms=GAP_MS + 1)).used_with == {}

    def test_counts_the_first_tools_of_a_session_that_calls_all_there_are(self):
        steps = [Step("s", place, f"tool{place:03d}") for place in range(500)]
        assert len({tool for pair in sequences(steps).used_with for tool in pair}) == MOST_TOOLS


class TestFollowedBy:
    @every(
        ("steps", "counted"),
        [
            pytest.param(session("aab"), {("a", "b"): 1}, id="the next other tool"),
            pytest.param(session("aba"), {("a", "b"): 1, ("b", "a"): 1}, id="it has a direction"),
            pytest.param(session("ab", every_ms=-GAP_MS * 2), {("a", "b"): 1}, id="where the clock was set back"),
        ],
    )
    def test_is_the_next_other_tool_of_a_session(self, steps, counted):
        assert sequences(steps).followed_by == counted

    def test_is_not_across_sessions_or_a_long_pause(self):
        assert sequences(session("a") + session("b", "t")).followed_by == {}
        assert sequences(session("ab", every_ms=GAP_MS + 1)).followed_by == {}

    def test_counts_a_session_thrice_at_most(self):
        assert sequences(session("ab" * 1_000)).followed_by == {("a", "b"): MOST_STEPS, ("b", "a"): MOST_STEPS}


def test_pairs_are_bounded_and_those_that_count_most_stay():
    steps = [step for place in range(MOST_PAIRS + 100) for step in session(("x", f"y{place}"), f"s{place:06d}")]
    counted = sequences(steps + session("ab", "z") + session("ab", "zz"))
    assert len(counted.used_with) == len(counted.followed_by) == MOST_PAIRS
    assert counted.followed_by["a", "b"] == 2


@given(st.lists(st.text("abcd", max_size=30), max_size=5))
def test_no_pair_counts_more_than_there_are_sessions(tools):
    steps = [step for place, of in enumerate(tools) for step in session(of, f"s{place}")]
    counted = sequences(steps)
    assert all(n <= len(tools) for n in counted.used_with.values())
    assert all(n <= MOST_STEPS * len(tools) for n in counted.followed_by.values())
    assert {tuple(sorted(pair)) for pair in counted.followed_by} <= counted.used_with.keys()
