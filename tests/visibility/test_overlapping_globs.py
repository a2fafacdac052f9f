"""The parts of a glob are looked for one after another: no letter of a name serves two of them."""

from __future__ import annotations

import pytest

from agent_utilities.visibility.bounds import matcher


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a*b*b*c", "abc", False),
        ("a*b*b*c", "abbc", True),
        ("*ab*ab*", "ab", False),
        ("*ab*ba*", "aba", False),
        ("*ab*ba*", "abba", True),
        ("x*aa*a*y", "xaay", False),
        ("x*aa*a*y", "xaaay", True),
        ("a*a*a", "aa", False),
    ],
)
def test_no_letter_serves_two_parts(pattern: str, name: str, fits: bool) -> None:
    assert matcher(frozenset({pattern}))([name]) is fits
