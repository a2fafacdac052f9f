"""Who has which capabilities on, counted: what is kept running is what somebody has."""

from __future__ import annotations

from agent_utilities.capabilities.holders import Holders


def test_what_is_fixed_is_on_with_nobody_there() -> None:
    assert Holders(["clock"]).names() == {"clock"}


def test_what_two_have_on_stays_until_the_last_of_them_is_gone() -> None:
    holders = Holders()
    holders.hold("one", ["files", "git"])
    holders.hold("other", ["git"])
    holders.release("one")
    assert holders.names() == {"git"}
    holders.release("other")
    assert holders.names() == frozenset()


def test_a_holder_has_what_he_had_last() -> None:
    holders = Holders()
    holders.hold("one", ["files"])
    holders.hold("one", ["git"])
    assert holders.names() == {"git"}


def test_one_who_holds_nothing_any_more_is_not_counted() -> None:
    holders = Holders()
    holders.hold("one", ["files"])
    assert holders.n_holders == 1
    holders.hold("one", [])
    assert (holders.n_holders, holders.names()) == (0, frozenset())


def test_releasing_one_who_holds_nothing_changes_nothing() -> None:
    holders = Holders()
    holders.hold("one", ["files"])
    holders.release("other")
    assert holders.names() == {"files"}


def test_what_requests_alone_have_on_counts_too() -> None:
    holders = Holders()
    holders.leases.renew(frozenset(), frozenset({"files"}))
    assert holders.names() == {"files"}
