"""What an answer is made of: literal matches first, then what a ranker claims, `top_k` of both together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.base import Ranking
from agent_utilities.query.ranking.lexical import LexicalRanker
from agent_utilities.query.resolution.answer import Question
from agent_utilities.query.resolution.catalog_ranker import CatalogIndex, combined_answer
from agent_utilities.selection.model import RankedTool, Resolution
from tests.every import every

RANKED = [RankedTool("c", 0.9, ("x",)), RankedTool("a", 0.8, ("x", "y")), RankedTool("d", 0.4), RankedTool("b", 0.1)]


def combined(text: str, literal: Sequence[str], limit: int | None = None) -> Resolution:
    return combined_answer(Question(text, text, limit=limit), literal, RANKED, n_claimed=2)


def ranked(literal: Sequence[str], ranking: Ranking, cause: str = "") -> Resolution:
    nothing = LexicalRanker().index(())
    index = CatalogIndex("1", "digest", (ToolDocument("a"), ToolDocument("b")), nothing, nothing)
    return index.answer(Question("x", "x"), literal, ranking, cause, is_temporary=bool(cause))


@every(
    ("text", "literal", "names"),
    [
        pytest.param("x", ("b", "c"), ("c", "b", "a"), id="literal matches come first, in the ranker's order"),
        pytest.param("x", (), ("c", "a"), id="without them the claimed answer"),
        pytest.param("b", ("b",), ("b",), id="a query that is a tool's name asks for no other"),
    ],
)
def test_what_is_named_and_in_which_order(text: str, literal: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert combined(text, literal).names == names


def test_the_best_claimed_is_named_however_many_tools_bear_the_query() -> None:
    many = [f"bearing_{number}" for number in range(21)]
    answer = combined("x", many, limit=15)
    assert answer.names == (*many[:14], "c")
    assert answer.n_left_out == 21 + 2 - 15
    assert combined("x", many, limit=1).names == ("c",)
    assert combined("bearing_0", many, limit=15).names == tuple(many[:15]), "a tool's name asks for no other"


def test_literal_matches_that_the_ranker_did_not_name_come_before_the_claimed() -> None:
    assert combined("x", ("z",)).tools == (RankedTool("z"), *RANKED[:2])


def test_without_a_ranker_literal_matches_stand_alone() -> None:
    answer = combined_answer(Question("x", "x", limit=1), ("b", "c"))
    assert answer == Resolution("fresh", (RankedTool("b"),), n_left_out=1)


def test_the_limit_leaves_out_the_last_and_counts_them() -> None:
    answer = combined("x", ("b",), 2)
    assert (answer.names, answer.n_left_out) == (("b", "c"), 1)


def test_nothing_found_is_no_match() -> None:
    assert combined_answer(Question("x", "x"), (), RANKED, n_claimed=0).status == "no_match"


def test_places_become_names_with_their_scores_and_words() -> None:
    ranking = Ranking((1, 0), (0.9, 0.4), False, (("x",), ()), n_claimed=1)
    assert ranked((), ranking) == Resolution("fresh", (RankedTool("b", 0.9, ("x",)),))


def test_why_nothing_fits_is_told_only_where_nothing_was_found() -> None:
    abstained = Ranking((0,), (0.1,), True, ((),), n_claimed=0, cut=0.27)
    causes = [ranked(literal, abstained).cause for literal in ((), ("a",))]
    assert causes == ["nothing fits: the best score, 0.10, is under 0.27", ""]


def test_what_fell_short_is_told() -> None:
    ranking = Ranking((0,), (1.0,), False, ((),), n_claimed=1)
    answer = ranked((), ranking, "ranked by words alone")
    assert (answer.cause, answer.is_temporary) == ("ranked by words alone", True)
