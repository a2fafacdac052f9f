"""What requests without a session keep running: for a while after the last of them, and no more than so many."""

from __future__ import annotations

from itertools import combinations

import pytest

from agent_utilities.capabilities.holders import MOST, Leases

A, B, C = frozenset({"a"}), frozenset({"b"}), frozenset({"c"})


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_set_is_kept_for_a_while_after_its_last_request(clock: Clock) -> None:
    leases = Leases(lease_s=10.0, clock=clock)
    leases.renew(A, A)
    clock.now = 9.0
    leases.renew(B, B)
    assert leases.names() == {"a", "b"}
    clock.now = 10.0
    assert leases.names() == {"b"}


def test_what_a_caller_was_told_takes_the_place_of_what_he_brought() -> None:
    leases = Leases()
    leases.renew(A, A)
    leases.renew(A, B)
    assert leases.names() == {"b"}


def test_a_request_that_brings_nothing_keeps_nothing_and_takes_nothing() -> None:
    leases = Leases()
    leases.renew(A, A)
    leases.renew(frozenset(), frozenset())
    assert leases.names() == {"a"}


def test_the_sets_asked_for_longest_ago_go_first_where_they_have_too_many_capabilities() -> None:
    leases = Leases(most=2)
    for each in (A, B, A, C):
        leases.renew(each, each)
    assert leases.names() == {"a", "c"}


def test_sets_that_share_capabilities_count_them_once() -> None:
    leases = Leases(most=3)
    for names in ({"a", "b"}, {"b", "c"}, {"a", "c"}):
        leases.renew(frozenset(names), frozenset(names))
    assert leases.names() == {"a", "b", "c"}


def test_the_newest_set_is_kept_whole_however_large_it_is() -> None:
    leases = Leases(most=2)
    leases.renew(A, A)
    leases.renew(frozenset(), frozenset("xyz"))
    assert leases.names() == {"x", "y", "z"}


def test_a_caller_who_goes_through_every_set_never_has_more_kept_than_may_be() -> None:
    leases = Leases()
    for names in combinations([f"c{i}" for i in range(16)] + [f"d{i}" for i in range(4)], 4):
        leases.renew(frozenset(), frozenset(names))
        assert len(leases.names()) <= MOST
