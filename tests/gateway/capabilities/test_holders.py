"""Who has which capabilities on: what is kept running is what somebody has, and no more than so much for so long."""

from __future__ import annotations

from itertools import combinations

import pytest

from agent_utilities.gateway.capabilities.switching import LEASE_S, MOST, Holders
from agent_utilities.testing import Clock


def test_what_is_fixed_is_on_with_nobody_there() -> None:
    assert Holders(["clock"]).names() == {"clock"}


def test_what_two_sessions_have_on_stays_until_the_last_of_them_is_gone() -> None:
    holders = Holders()
    holders.hold("one", ["files", "git"])
    holders.hold("other", ["mail"])
    holders.hold("other", ["git"])
    holders.hold("one", [])
    assert (holders.n_sessions, holders.names()) == (1, {"git"})
    holders.hold("other", [])
    assert (holders.n_sessions, holders.names()) == (0, frozenset())


class TestRequestsAlone:
    def test_keep_a_set_for_a_while_after_the_last_of_them(self) -> None:
        clock = Clock()
        holders = Holders(clock=clock)
        holders.lease("a", "a")
        clock.advance(LEASE_S - 1.0)
        holders.lease("b", "b")
        assert holders.names() == {"a", "b"}
        clock.advance(1.0)
        assert holders.names() == {"b"}

    def test_keep_what_their_caller_was_told_in_the_place_of_what_it_brought(self) -> None:
        holders = Holders()
        holders.lease("a", "a")
        holders.lease("b", "a")
        holders.lease("", "")
        assert holders.names() == {"b"}

    def test_of_too_many_capabilities_keep_the_sets_asked_for_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent_utilities.gateway.capabilities.switching.MOST", 2)
        holders = Holders()
        for each in "abac":
            holders.lease(each, each)
        assert holders.names() == {"a", "c"}
        holders.lease("xyz")
        assert holders.names() == {"x", "y", "z"}  # the newest is kept whole

    def test_count_capabilities_that_their_sets_share_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent_utilities.gateway.capabilities.switching.MOST", 3)
        holders = Holders()
        for each in ("ab", "bc", "ac"):
            holders.lease(each, each)
        assert holders.names() == {"a", "b", "c"}

    def test_for_every_set_never_keep_more_than_may_be(self) -> None:
        holders = Holders()
        for names in combinations([f"c{i}" for i in range(16)] + [f"d{i}" for i in range(4)], 4):
            holders.lease(names)
            assert len(holders.names()) <= MOST
