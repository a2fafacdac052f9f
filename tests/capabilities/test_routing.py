"""The gate: what is activated is the best, far enough ahead of the second."""

from __future__ import annotations

from agent_utilities.capabilities.routing import Gate, routed

GATE = Gate(0.5, 0.1)


def test_the_best_is_activated_where_it_clears_threshold_and_margin() -> None:
    assert routed((("git", 0.7), ("files", 0.5)), GATE).activated == "git"


def test_nothing_is_activated_under_the_threshold_and_it_is_told() -> None:
    route = routed((("git", 0.4), ("files", 0.1)), GATE)
    assert route.activated is None
    assert "under the threshold" in route.cause


def test_nothing_is_activated_where_two_are_as_near() -> None:
    route = routed((("git", 0.7), ("files", 0.65)), GATE)
    assert route.activated is None
    assert "files" in route.cause


def test_a_single_capability_is_held_against_nothing() -> None:
    assert routed((("git", 0.7),), GATE).activated == "git"
