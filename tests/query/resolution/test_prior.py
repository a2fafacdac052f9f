"""What was called before moves tools by a bounded score and fills free room, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.query.resolution.prior import (
    BOUND,
    MOST_FILLED,
    NEIGHBOURS_BOUND,
    NO_PRIOR,
    USES_BOUND,
    Prior,
    with_prior,
)
from agent_utilities.selection.model import RankedTool, Resolution
from tests.query.graph.records import examples

NAMES = [f"tool_{number}" for number in range(12)]
ALL = frozenset(NAMES)
HAIR = 1e-9

names = st.sampled_from(NAMES)
uses = st.dictionaries(names, st.floats(allow_nan=True, allow_infinity=True))
shares = st.lists(st.tuples(names, st.floats(0, 1, allow_nan=False)), unique_by=lambda pair: pair[0], max_size=12)
scores = st.one_of(st.none(), st.floats(-1, 2).map(lambda score: round(score, 4)))
statuses = st.sampled_from(["off", "fresh", "stale", "ranked", "no_match", "unavailable"])
limits = st.one_of(st.none(), st.integers(0, 14))
some = st.frozensets(names)


@st.composite
def answers(draw: st.DrawFn, status: st.SearchStrategy[str] = statuses) -> Resolution:
    tools = [RankedTool(name, draw(scores)) for name in draw(st.lists(names, unique=True))]
    return Resolution(draw(status), tuple(tools), neighbours=tuple(draw(shares)))  # type: ignore[arg-type]


def answer(*tools: tuple[str, float | None], neighbours: tuple[tuple[str, float], ...] = ()) -> Resolution:
    return Resolution("fresh", tuple(RankedTool(*tool) for tool in tools), neighbours=neighbours)


class TestMoves:
    def test_a_neighbour_overtakes_a_tool_that_leads_by_less_than_it_gains(self) -> None:
        found = answer(("a", 0.9), ("b", 0.8), neighbours=(("b", 0.5),))
        assert with_prior(found, NO_PRIOR, frozenset("ab"), None).names == ("b", "a")

    def test_a_neighbour_does_not_overtake_a_tool_that_leads_by_more_than_the_bound(self) -> None:
        found = answer(("a", 0.8 + BOUND + HAIR), ("b", 0.8), neighbours=(("b", 1.0),))
        assert with_prior(found, Prior({"b": 1e9}), frozenset("ab"), None).names == ("a", "b")

    def test_the_most_used_tool_overtakes_one_that_is_hardly_better(self) -> None:
        found = answer(("a", 0.8 + USES_BOUND - HAIR), ("b", 0.8))
        assert with_prior(found, Prior({"b": 3.0}), frozenset("ab"), None).names == ("b", "a")

    def test_use_alone_does_not_reach_further_than_its_own_bound(self) -> None:
        found = answer(("a", 0.8 + USES_BOUND + HAIR), ("b", 0.8))
        assert with_prior(found, Prior({"b": 1e300}), frozenset("ab"), None).names == ("a", "b")

    def test_a_tool_counts_in_proportion_to_the_most_used_one(self) -> None:
        found = answer(("a", 0.83), ("b", 0.8))
        assert with_prior(found, Prior({"b": 1.0, "c": 4.0}), frozenset("abc"), 2).names == ("a", "b")
        assert with_prior(found, Prior({"b": 1.0, "c": 1.2}), frozenset("abc"), 2).names == ("b", "a")

    def test_a_tool_that_bears_the_query_stays_before_those_that_score_higher(self) -> None:
        found = answer(("literal", 0.2), ("b", 0.9), neighbours=(("b", 1.0),))
        assert with_prior(found, NO_PRIOR, frozenset({"literal", "b"}), None).names == ("literal", "b")

    def test_a_tool_without_a_score_stays_where_it_is(self) -> None:
        found = answer(("literal", None), ("b", 0.9), ("c", None), neighbours=(("b", 1.0), ("c", 1.0)))
        assert with_prior(found, NO_PRIOR, frozenset({"literal", "b", "c"}), None).names == ("literal", "b", "c")

    def test_scores_are_told_as_words_gave_them(self) -> None:
        found = answer(("a", 0.9), ("b", 0.8), neighbours=(("b", 0.5),))
        assert with_prior(found, NO_PRIOR, frozenset("ab"), None).tools == (RankedTool("b", 0.8), RankedTool("a", 0.9))


class TestFills:
    def test_free_room_is_filled_after_all_others_and_marked(self) -> None:
        found = answer(("a", 0.9), neighbours=(("b", 0.1), ("c", 0.2)))
        filled = with_prior(found, NO_PRIOR, frozenset("abc"), 15).tools
        assert filled == (RankedTool("a", 0.9), RankedTool("c", by_usage=True), RankedTool("b", by_usage=True))

    def test_no_more_than_a_few_are_filled_in(self) -> None:
        found = answer(("a", 0.9), neighbours=tuple((name, 0.5) for name in NAMES))
        assert len(with_prior(found, NO_PRIOR, ALL | {"a"}, None).tools) == 1 + MOST_FILLED

    def test_where_there_is_no_room_nothing_is_filled_in(self) -> None:
        found = answer(("a", 0.9), ("b", 0.1), neighbours=(("c", 1.0),))
        assert with_prior(found, NO_PRIOR, frozenset("abc"), 2) == found

    def test_what_hardly_goes_with_the_last_call_is_not_filled_in(self) -> None:
        found = answer(("a", 0.9), neighbours=(("b", 0.01),))
        assert with_prior(found, NO_PRIOR, frozenset("ab"), 15) == found

    def test_what_was_used_most_is_filled_in(self) -> None:
        uses = Prior({"b": 9.0, "c": 1.0})
        assert with_prior(answer(("a", 0.9)), uses, frozenset("abc"), 15).names == ("a", "b")


class TestCuts:
    """An answer that has more tools than may be told: a search's."""

    def test_a_tool_comes_in_for_one_that_leads_by_less_than_it_gains(self) -> None:
        found = answer(("a", 0.9), ("b", 0.5), ("c", 0.4), neighbours=(("c", 0.5),))
        assert with_prior(found, NO_PRIOR, frozenset("abc"), 2).names == ("a", "c")

    def test_a_tool_that_was_not_found_comes_in_as_if_it_had_been_found_last(self) -> None:
        found = answer(("a", 0.9), ("b", 0.5), ("c", 0.4), neighbours=(("d", 0.5),))
        came = with_prior(found, NO_PRIOR, frozenset("abcd"), 2).tools
        assert came == (RankedTool("a", 0.9), RankedTool("d", by_usage=True))

    def test_it_does_not_come_in_for_one_that_leads_the_last_by_more_than_the_bound(self) -> None:
        found = answer(("a", 0.9), ("b", 0.8), ("c", 0.8 - BOUND - HAIR), neighbours=(("d", 1.0),))
        assert with_prior(found, Prior({"d": 1.0}), frozenset("abcd"), 2).names == ("a", "b")

    def test_without_usage_the_first_are_told(self) -> None:
        found = answer(("a", 0.9), ("b", 0.8), ("c", 0.7))
        assert with_prior(found, NO_PRIOR, frozenset("abc"), 2) == replace(found, tools=found.tools[:2])


class TestHostileUsage:
    def test_a_million_calls_do_not_displace_what_the_words_name(self) -> None:
        named = answer(("git_status", 1.4), *((name, 0.4) for name in NAMES[1:]), neighbours=(("tool_0", 1.0),))
        million = Prior({"tool_0": 1e6, "tool_1": 1e6})
        assert with_prior(named, million, ALL | {"git_status"}, 5).names[0] == "git_status"

    def test_counts_that_are_no_numbers_count_nothing(self) -> None:
        found = answer(("a", 0.81), ("b", 0.8))
        for count in (nan, inf, -inf, -5.0, 0.0):
            assert with_prior(found, Prior({"b": count}), frozenset("ab"), 15) == found


class TestLaws:
    @examples(2)
    @given(answers(), some, limits)
    def test_where_nothing_was_learned_the_answer_is_the_one_given(self, found, permitted, limit) -> None:
        plain = replace(found, neighbours=())
        if limit is None or len(plain.tools) <= limit:
            assert with_prior(plain, NO_PRIOR, permitted, limit) is plain
        else:
            assert with_prior(plain, NO_PRIOR, permitted, limit) == replace(plain, tools=plain.tools[:limit])

    @examples(2)
    @given(answers(), uses, limits)
    def test_a_tool_is_never_overtaken_by_one_that_is_further_behind_than_the_bound(self, found, used, limit) -> None:
        came = with_prior(found, Prior(used), ALL, limit)
        places = {tool.name: place for place, tool in enumerate(came.tools)}
        for place, tool in enumerate(found.tools):
            for other in found.tools[place + 1 :]:
                if None in (tool.score, other.score) or tool.score - other.score > BOUND + HAIR:
                    assert other.name not in places or places.get(tool.name, 99) < places[other.name]

    @examples(2)
    @given(answers(), uses, limits)
    def test_all_stay_that_there_is_room_for(self, found, used, limit) -> None:
        came = with_prior(found, Prior(used), ALL, limit)
        if limit is None or len(found.tools) <= limit:
            assert {tool for tool in came.tools if not tool.by_usage} == set(found.tools)
            assert [tool.by_usage for tool in came.tools] == sorted(tool.by_usage for tool in came.tools)
        assert limit is None or len(came.tools) <= limit

    @examples(2)
    @given(answers(), uses, limits)
    def test_what_comes_in_takes_the_place_of_none_that_leads_the_last_by_more_than_the_bound(
        self, found, used, limit
    ) -> None:
        ranked = replace(found, tools=tuple(sorted(found.tools, key=lambda tool: -(tool.score or 0.0))))
        ranked = replace(ranked, tools=tuple(replace(tool, score=tool.score or 0.0) for tool in ranked.tools))
        came = with_prior(ranked, Prior(used), ALL, limit).names
        for tool in ranked.tools[:limit]:
            if tool.score > ranked.tools[-1].score + BOUND + HAIR:
                behind = [other for other in ranked.tools if other.score >= tool.score - BOUND - HAIR]
                assert tool.name in came or len(behind) > (limit or 0)

    @examples(2)
    @given(answers(), uses, some, limits)
    def test_nothing_that_is_not_permitted_comes_in_or_counts(self, found, used, permitted, limit) -> None:
        in_scope = replace(found, tools=tuple(tool for tool in found.tools if tool.name in permitted))
        of_permitted = replace(in_scope, neighbours=tuple(pair for pair in found.neighbours if pair[0] in permitted))
        came = with_prior(in_scope, Prior(used), permitted, limit)
        assert permitted.issuperset(came.names)
        known = {name: n for name, n in used.items() if name in permitted}
        assert came.tools == with_prior(of_permitted, Prior(known), permitted, limit).tools

    @examples(2)
    @given(answers(), uses, limits)
    def test_no_more_than_a_few_stand_there_for_usage_alone(self, found, used, limit) -> None:
        came = with_prior(found, Prior(used), ALL, limit)
        assert sum(tool.by_usage for tool in came.tools) <= MOST_FILLED
        assert len(set(came.names)) == len(came.tools)

    @examples(2)
    @given(answers(st.sampled_from(["off", "no_match", "unavailable"])), uses)
    def test_where_nothing_answers_nothing_is_changed(self, found, used) -> None:
        assert with_prior(found, Prior(used), ALL, None) is found

    def test_the_bound_is_less_than_what_a_name_leads_by(self) -> None:
        assert NEIGHBOURS_BOUND + USES_BOUND == BOUND < 1
