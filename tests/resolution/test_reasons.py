"""Where tools stand in an answer, as `/tools`, `--list` and `explain` tell it."""

from __future__ import annotations

from agent_utilities.resolution.reasons import reason_text, reasons_by_name
from agent_utilities.selection.resolution import Resolution


def test_each_tool_that_answers_has_its_rank_score_and_words() -> None:
    found = reasons_by_name(Resolution("fresh", ("b", "a"), scores=(0.9, None), words=(("git", "log"), ())))
    assert found == {
        "b": {"rank": 1, "score": 0.9, "words": ("git", "log")},
        "a": {"rank": 2, "score": None, "words": ()},
    }
    assert [reason_text(each) for each in found.values()] == ["rank 1, score 0.90, for git, log", "rank 2"]


def test_without_a_ranker_there_is_a_rank_alone() -> None:
    assert reasons_by_name(Resolution("stale", ("b",))) == {"b": {"rank": 1}}


def test_what_was_not_answered_tells_nothing() -> None:
    assert reasons_by_name(Resolution("unavailable", ("b",))) == {}
