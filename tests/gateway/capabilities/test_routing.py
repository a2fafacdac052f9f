"""The gate: what is activated is the best, far enough ahead of the second."""

from __future__ import annotations

import pytest

from agent_utilities.gateway.capabilities.model import Gate, Route, routed

GATE = Gate(0.5, 0.1)


def test_the_best_is_activated_where_it_clears_threshold_and_margin() -> None:
    route = routed((("git", 0.7), ("files", 0.5)), GATE, 5)
    assert (route.activated, route.outcome) == ("git", "activated")
    assert routed((("git", 0.5), ("files", 0.375)), Gate(0.5, 0.125), 5).activated == "git"


def test_nothing_is_activated_under_the_threshold_and_it_is_told() -> None:
    route = routed((("git", 0.49), ("files", 0.1)), GATE, 5)
    assert (route.activated, route.outcome) == (None, "below")
    assert "under the threshold" in route.cause


def test_nothing_is_activated_where_two_are_as_near_and_by_how_much_is_told() -> None:
    route = routed((("git", 0.7), ("files", 0.65)), GATE, 5)
    assert (route.activated, route.outcome) == (None, "ambiguous")
    assert "git is ahead of files by 0.050" in route.cause


def test_a_single_capability_is_held_against_nothing() -> None:
    assert routed((("git", 0.7),), GATE, 5).activated == "git"


def test_without_any_capability_nothing_is_activated_and_it_is_told() -> None:
    route = routed((), GATE, 5)
    assert (route.activated, route.gate, route.outcome) == (None, GATE, "unrouted")
    assert "no capability has triggers" in route.cause
    assert Route(cause="every capability is on").outcome == "unrouted"


class TestLead:
    GATE = Gate(0.2, 0.01, margin_of_one=0.4)

    def test_must_be_larger_where_less_is_said(self) -> None:
        leads = {0: 0.4, 1: 0.4, 2: 0.1, 4: 0.025, 7: 0.01, 100: 0.01}
        assert {n_words: self.GATE.for_best(0.2, n_words).margin for n_words in leads} == pytest.approx(leads)

    def test_may_be_smaller_where_the_best_is_far_over_the_threshold_and_never_under_the_least(self) -> None:
        leads = {0.1: 0.1, 0.2: 0.1, 0.7: 0.05, 1.1: 0.01, 9.0: 0.01}
        assert {score: self.GATE.for_best(score, 2).margin for score in leads} == pytest.approx(leads)

    def test_of_few_words_is_too_small_and_that_is_told(self) -> None:
        scores = (("git", 0.7), ("files", 0.65))
        assert routed(scores, self.GATE, 4).activated == "git"
        route = routed(scores, self.GATE, 1)
        assert (route.activated, route.outcome) == (None, "ambiguous")
        assert "by 0.050, under the margin of 0.350" in route.cause

    def test_of_the_only_capability_is_enough(self) -> None:
        assert routed((("git", 0.3),), self.GATE, 1).activated == "git"
