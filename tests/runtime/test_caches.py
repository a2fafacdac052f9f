"""Caches are bounded by what their entries weigh; what was used least recently goes first."""

from __future__ import annotations

from agent_utilities.runtime.caches import BoundedCache


def cache(max_weight: int) -> BoundedCache[str, str]:
    return BoundedCache(max_weight, lambda key, value: len(value))


def test_what_was_used_least_recently_goes_first():
    held = cache(3)
    for key in "abc":
        held.keep(key, ".")
    held.get("a")
    held.keep("d", ".")
    assert [key for key in "abcd" if held.get(key)] == ["a", "c", "d"]


def test_entries_go_until_the_others_weigh_little_enough():
    held = cache(10)
    for key in "abc":
        held.keep(key, "....")
    assert [key for key in "abc" if held.get(key)] == ["b", "c"]
    assert held.weight == 8


def test_an_entry_heavier_than_the_bound_is_not_kept_and_puts_nothing_out():
    held = cache(10)
    held.keep("a", "....")
    held.keep("b", "." * 11)
    assert (held.get("a"), held.get("b"), len(held)) == ("....", None, 1)


def test_a_value_that_has_grown_too_heavy_takes_the_place_of_none():
    held = cache(10)
    held.keep("a", "....")
    held.keep("a", "." * 11)
    assert (held.get("a"), held.weight) == (None, 0)
