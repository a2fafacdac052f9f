"""What an answer is made of: literal matches first, then what a ranker claims, `top_k` of both together."""

from __future__ import annotations

from agent_utilities.resolution.answer import Answer, Ranked, combine

RANKED = Ranked(("c", "a", "d", "b"), (0.9, 0.8, 0.4, 0.1), (("x",), ("x", "y"), (), ()), n_claimed=2)


def test_literal_matches_come_first_in_the_rankers_order() -> None:
    assert combine("x", ("b", "c"), RANKED, None).names == ("c", "b", "a")


def test_without_literal_matches_the_claimed_answer() -> None:
    assert combine("x", (), RANKED, None).names == ("c", "a")


def test_literal_matches_that_the_ranker_did_not_name_come_before_the_claimed() -> None:
    answer = combine("x", ("z",), RANKED, None)
    assert (answer.names, answer.scores, answer.words) == (("z", "c", "a"), (None, 0.9, 0.8), ((), ("x",), ("x", "y")))


def test_without_a_ranker_literal_matches_stand_alone() -> None:
    assert combine("x", ("b", "c"), None, 1) == Answer(("b",), n_left_out=1)


def test_the_limit_leaves_out_the_last_and_counts_them() -> None:
    answer = combine("x", ("b",), RANKED, 2)
    assert (answer.names, answer.n_left_out) == (("b", "c"), 1)


def test_a_query_that_is_a_tools_name_asks_for_no_other() -> None:
    assert combine("b", ("b",), RANKED, None).names == ("b",)


def test_nothing_found_is_no_match() -> None:
    assert combine("x", (), Ranked(cause="ranked by words alone"), 5).resolution("fresh").status == "no_match"


def test_why_nothing_fits_is_told_only_where_nothing_was_found() -> None:
    silent = Ranked(("a",), (0.1,), ((),), silence="nothing fits")
    assert [combine("x", literal, silent, None).cause for literal in ((), ("a",))] == ["nothing fits", ""]


def test_what_fell_short_is_told() -> None:
    short = Ranked(("a",), (1.0,), ((),), 1, "ranked by words alone", "", is_passing=True)
    answer = combine("x", (), short, None)
    assert (answer.resolution("stale").cause, answer.is_passing) == ("ranked by words alone", True)
