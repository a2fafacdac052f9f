"""Preferences choose what is shown of the permitted, and nothing else: pins, answers, active tools, deferral."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision, decide, revision
from agent_utilities.policy.deferral import NO_DEFERRAL, Deferral
from agent_utilities.selection.active import Active
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NO_NAMES, UNRESOLVED, NameSet, Resolution
from agent_utilities.selection.parse import read_request
from tests.resolutions import answer_of

NAMES = ["tail_log", "search_logs", "rotate_log", "delete_log", "git_log"]
CATALOG = Catalog(tuple(entry("tool", name, tags={name.rpartition("_")[2]}) for name in NAMES))
DEFERRED = Preferences(deferral=Deferral(over=0), n_attached=30)


def loaded(*names: str) -> Active:
    return Active(names, names)


def decided(preferences: Preferences, denied: str = "") -> Decision:
    asked = read_request(f"disabled_tools={denied}".encode(), ()) if denied else read_request(b"", ())
    return decide(CATALOG, effective(asked), preferences)


def shown(preferences: Preferences, denied: str = "") -> list[str]:
    return [NAMES[i] for i in decided(preferences, denied).visible]


def names(*given_names: str) -> NameSet:
    return NameSet(frozenset(given_names))


class TestWithoutDeferral:
    def test_pins_and_active_tools_change_nothing(self):
        assert shown(Preferences(pins=names("git_log"), active=loaded("delete_log"))) == NAMES

    def test_top_k_of_a_query_is_fifteen_where_nobody_says(self):
        assert (Preferences(query="x").most_shown, Preferences().most_shown) == (15, None)

    def test_top_k_that_is_given_holds(self):
        assert (Preferences(query="x", top_k=3).most_shown, Preferences(top_k=3).most_shown) == (3, 3)


class TestDeferral:
    def test_leaves_everything_permitted_and_says_what_is_deferred(self):
        decision = decided(replace(DEFERRED, pins=names("tail_log")))
        assert (decision.permitted, decision.visible) == ((0, 1, 2, 3, 4), (0,))

    def test_what_answers_the_query_is_shown_in_catalog_order_and_no_more_than_may_be_attached(self):
        answer = answer_of("fresh", ["git_log", "tail_log", "delete_log"])
        assert shown(replace(DEFERRED, query="x", resolution=answer, n_attached=2)) == ["tail_log", "git_log"]

    def test_an_unanswered_query_shows_no_more_than_pins_and_active_tools(self):
        preferences = replace(DEFERRED, query="x", resolution=Resolution("unavailable"), active=loaded("git_log"))
        assert shown(preferences) == ["git_log"]

    def test_an_active_name_that_no_tool_bears_is_passed_over(self):
        assert shown(replace(DEFERRED, active=loaded("gone", "git_log"))) == ["git_log"]


class TestAllShown:
    def test_a_list_of_all_tools_in_another_order_is_not_the_catalog_as_it_is(self):
        for order in permutations(NAMES):
            decision = decided(replace(DEFERRED, active=loaded(*order)))
            assert decision.shows_all is (list(order) == NAMES)


PREFERENCES = st.builds(
    Preferences,
    query=st.sampled_from([None, "logs"]),
    resolution=st.builds(
        answer_of,
        st.sampled_from(["off", "fresh", "stale", "ranked", "no_match", "unavailable"]),
        st.lists(st.sampled_from([*NAMES, "gone"]), max_size=4),
    ),
    top_k=st.sampled_from([None, 1, 2, 9]),
    pins=st.sampled_from([NO_NAMES, names("git_log"), names("*_log"), NameSet(everything=True)]),
    active=st.lists(st.sampled_from([*NAMES, "gone"]), max_size=4).map(lambda given: loaded(*dict.fromkeys(given))),
    deferral=st.sampled_from([NO_DEFERRAL, Deferral(over=0), Deferral(over=2), Deferral(over=0, max_tools=4)]),
    n_attached=st.integers(0, 3),
)
DENIED = st.sampled_from(["", "delete_log", "*_log", "all"])


class TestLaws:
    @given(PREFERENCES, DENIED)
    def test_what_is_visible_is_permitted_and_stands_once(self, preferences: Preferences, denied: str):
        decision = decided(preferences, denied)
        assert set(decision.visible) <= set(decision.permitted)
        assert len(set(decision.visible)) == len(decision.visible)

    @given(PREFERENCES, PREFERENCES)
    def test_what_is_shown_is_in_the_revision_and_the_answer_to_a_query_is_not(
        self, one: Preferences, other: Preferences
    ):
        unanswered = [shown(replace(preferences, resolution=UNRESOLVED, n_attached=0)) for preferences in (one, other)]
        same = revision(decided(one), "") == revision(decided(other), "")
        assert same is (unanswered[0] == unanswered[1])
