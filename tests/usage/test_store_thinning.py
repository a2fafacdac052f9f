"""Who gives rows where a log is full: those who have most, and nobody more than is needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.usage.pruning import rows_to_take

COUNTS = st.dictionaries(st.integers(), st.integers(1, 500), max_size=8)


def test_the_greediest_gives_first() -> None:
    assert rows_to_take({"a": 100, "b": 40, "c": 5}, 30, 10) == {"a": 30}


def test_two_that_have_most_come_down_to_one_level() -> None:
    assert rows_to_take({"a": 100, "b": 80, "c": 5}, 60, 10) == {"a": 40, "b": 20}


def test_nobody_is_brought_below_the_share() -> None:
    assert rows_to_take({"a": 100, "b": 80, "c": 5}, 1000, 10) == {"a": 90, "b": 70}


def test_nobody_gives_where_nobody_is_greedy() -> None:
    assert rows_to_take({"a": 10, "b": 10}, 15, 10) == {}


@given(COUNTS, st.integers(0, 5_000), st.integers(1, 100))
def test_as_many_are_taken_as_must_go_or_as_there_are_above_the_share(
    counts: dict[int, int], n_over: int, share: int
) -> None:
    taken = rows_to_take(counts, n_over, share)
    assert sum(taken.values()) == min(n_over, sum(max(0, n - share) for n in counts.values()))


@given(COUNTS, st.integers(0, 5_000), st.integers(1, 100))
def test_who_gives_comes_down_to_what_all_others_have(counts: dict[int, int], n_over: int, share: int) -> None:
    taken = rows_to_take(counts, n_over, share)
    level = min((counts[key] - n for key, n in taken.items()), default=max(counts.values(), default=0))
    above = [max(0, n - taken.get(key, 0) - level) for key, n in counts.items()]
    assert level >= share or not taken
    assert sum(above) < max(1, len(counts))  # what does not divide evenly is left with the last
