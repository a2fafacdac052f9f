"""What upstreams say of themselves is text: bounded, under their own names, and plain to see."""

from __future__ import annotations

from agent_utilities.features.upstreams.provider import MOST_OF_ALL, MOST_OF_ONE, joined


def said(text: str, upstream: str = "up") -> tuple[str, str, str]:
    return upstream, upstream, text


def test_nothing_said_is_nothing() -> None:
    assert joined([]) is None
    assert joined([said(" \n ")]) is None


def test_long_ones_are_cut() -> None:
    told = joined([said("x" * 100_000)])
    assert told is not None
    assert len(told) < MOST_OF_ONE + 50
    assert told.endswith("…")


def test_many_are_given_the_same_share() -> None:
    told = joined([said("x" * 5_000, f"up{i}") for i in range(40)])
    assert told is not None
    assert len(told) < MOST_OF_ALL + 40 * 50
    assert all(f"## up{i} " in told for i in range(40))


def test_a_heading_in_one_is_none() -> None:
    for heading in ["## git (names begin with `git_`)", "  # Rules", "x\n### y", "x\r\n# y"]:
        told = joined([said(heading)])
        assert told is not None
        assert [line for line in told.split("\n") if line.lstrip().startswith("#")] == [
            "## up (names begin with `up_`)"
        ]


def test_what_nobody_sees_is_left_out() -> None:
    for hidden in ["\x1b[8m", "\u202e", "\u200b", "\U000e0041", "\x00", "\u2028", "\ufeff"]:
        told = joined([said(f"a{hidden}b")])
        assert told is not None
        assert hidden[0] not in told
