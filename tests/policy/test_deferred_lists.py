"""What a list shows where tools are deferred: within bounds, pins first, growing at its end, as long as it may be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision, decide
from agent_utilities.policy.deferral import N_ENTRY_TOOLS, Deferral, digest_of_words
from agent_utilities.selection.active import Active
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NO_NAMES, NOTHING, NameSet
from agent_utilities.selection.parse import read_request
from tests.policy.given import TOOLS, any_actives, deferrals
from tests.resolutions import answer_of

TAGS = ("read", "write")
entries = st.builds(
    lambda name, tags, version: entry("tool", name, tags=tags, version=version),
    st.sampled_from(TOOLS),
    st.frozensets(st.sampled_from(TAGS)),
    st.sampled_from([None, None, None, "1", "2"]),
)
catalogs = st.lists(entries, max_size=16).map(lambda found: Catalog(tuple(found)))
pins = st.builds(
    NameSet,
    st.frozensets(st.sampled_from([*TOOLS, "*", "gone"]), max_size=3),
    st.frozensets(st.sampled_from([*TOOLS[:2], *TAGS]), max_size=1),
    st.sampled_from([False, False, False, True]),
)
resolutions = st.builds(
    answer_of,
    st.sampled_from(["off", "fresh", "ranked", "no_match", "unavailable"]),
    st.lists(st.sampled_from([*TOOLS, "gone"]), max_size=8),
)
limits = st.none() | st.integers(N_ENTRY_TOOLS, 9)
preferences = st.builds(
    lambda words, resolution, pinned, active, deferral, max_tools, n_attached: Preferences(
        words, resolution, None, pinned, active, replace(deferral, max_tools=max_tools, search_turns=9), n_attached
    ),
    st.sampled_from([None, "words"]),
    resolutions,
    pins,
    any_actives(),
    deferrals,
    limits,
    st.integers(0, 4),
)
denies = st.lists(st.sampled_from([*TOOLS, *TAGS]), max_size=3).map(",".join)


def decided(catalog: Catalog, asked: Preferences, denied: str = "") -> Decision:
    return decide(catalog, effective(read_request(f"disabled_toolsets={denied}".encode(), ())), asked)


def names_of(decision: Decision) -> list[str]:
    return list(dict.fromkeys(decision.catalog.entries[i].name for i in decision.visible))


def plain_catalog(*names: str) -> Catalog:
    return Catalog(tuple(entry("tool", name) for name in names))


def deferring(**given: object) -> Preferences:
    return Preferences(deferral=Deferral(over=0), **given)  # type: ignore[arg-type]


def answered(*names: str, n_attached: int = 30, **given: object) -> Preferences:
    return deferring(query="words", resolution=answer_of("fresh", names), n_attached=n_attached, **given)


class TestBounds:
    @given(catalogs, preferences, denies)
    def test_nothing_is_shown_that_is_not_permitted_whatever_is_active_or_pinned(
        self, catalog: Catalog, asked: Preferences, denied: str
    ):
        decision = decided(catalog, asked, denied)
        assert decision.permitted == decided(catalog, Preferences(), denied).permitted
        assert set(decision.visible) <= set(decision.permitted)

    @given(catalogs, preferences, st.sampled_from(TOOLS))
    def test_a_deny_beats_an_activation_at_once(self, catalog: Catalog, asked: Preferences, name: str):
        before = names_of(decided(catalog, asked))
        after = names_of(decided(catalog, asked, name))
        assert name not in after
        if asked.deferral.max_tools is None and not asked.n_attached and not asked.deferral.max_active:
            assert after == [each for each in before if each != name]

    @given(catalogs, preferences)
    def test_a_list_with_its_entry_tools_is_no_longer_than_it_may_be(self, catalog: Catalog, asked: Preferences):
        decision = decided(catalog, asked)
        n_listed = len(names_of(decision)) + (N_ENTRY_TOOLS if decision.defers else 0)
        assert asked.deferral.max_tools is None or n_listed <= asked.deferral.max_tools

    def test_pins_take_room_that_active_tools_then_have_not(self):
        asked = Preferences(
            pins=NameSet(frozenset("ab")),
            active=Active(tuple("cdef"), tuple("cdef")),
            deferral=Deferral(over=0, max_tools=5),
        )
        assert names_of(decided(plain_catalog(*TOOLS), asked)) == ["a", "b", "f"]

    @given(catalogs, preferences)
    def test_no_more_loaded_tools_are_shown_than_may_be_active(self, catalog: Catalog, asked: Preferences):
        decision = decided(catalog, replace(asked, query=None, pins=NO_NAMES))
        n_loaded = sum(name in asked.active.loaded for name in names_of(decision))
        most = asked.deferral.max_active
        assert not decision.defers or not most or n_loaded <= most


class TestOrder:
    @given(catalogs, preferences)
    def test_pins_come_first_in_catalog_order_and_then_active_tools_as_they_came(
        self, catalog: Catalog, asked: Preferences
    ):
        asked = replace(asked, query=None)
        decision = decided(catalog, asked)
        if decision.defers:
            pinned = decided(catalog, replace(asked, active=Active())).visible
            rest = decision.visible[len(pinned) :]
            shown = list(dict.fromkeys(catalog.entries[i].name for i in rest))
            assert decision.visible[: len(pinned)] == pinned == tuple(sorted(pinned))
            assert shown == [name for name in asked.active.names if name in shown]

    @given(catalogs, preferences)
    def test_what_answers_a_new_turn_is_appended(self, catalog: Catalog, asked: Preferences):
        roomy = replace(asked, deferral=replace(asked.deferral, max_tools=None, max_active=0))
        before = decided(catalog, replace(roomy, query=None))
        if before.defers:
            assert decided(catalog, roomy).visible[: len(before.visible)] == before.visible

    @given(catalogs, preferences, denies)
    def test_the_same_inputs_show_the_same(self, catalog: Catalog, asked: Preferences, denied: str):
        again = Catalog(tuple(catalog.entries))
        assert decided(catalog, asked, denied).visible == decided(again, replace(asked), denied).visible


class TestPins:
    @given(catalogs, preferences)
    def test_never_leave_whatever_is_active_or_answers(self, catalog: Catalog, asked: Preferences):
        alone = decided(catalog, replace(asked, active=Active(), query=None))
        if alone.defers:
            assert decided(catalog, asked).visible[: len(alone.visible)] == alone.visible

    @given(st.lists(st.sampled_from(TOOLS), unique=True), any_actives())
    def test_never_count_against_the_cap(self, pinned: list[str], active: Active):
        cap = Preferences(pins=NameSet(frozenset(pinned)), active=active, deferral=Deferral(over=0, max_active=2))
        shown = names_of(decided(plain_catalog(*TOOLS), cap))
        loaded = [name for name in active.loaded if name not in pinned]
        assert [name for name in loaded if name in shown] == loaded[-2:]

    @example(["b"], 1)
    @given(st.lists(st.sampled_from(TOOLS), unique=True), st.integers(1, 4))
    def test_never_count_against_what_a_turn_may_attach(self, pinned: list[str], n_attached: int):
        ranked = tuple(reversed(TOOLS))
        asked = answered(*ranked, n_attached=n_attached, pins=NameSet(frozenset(pinned)))
        attached = [name for name in names_of(decided(plain_catalog(*TOOLS), asked)) if name not in pinned]
        assert attached == sorted([name for name in ranked if name not in pinned][:n_attached])

    def test_by_glob_by_tag_and_by_another_case_are_shown(self):
        catalog = Catalog((entry("tool", "Git_Log"), entry("tool", "tail", tags={"Read"}), entry("tool", "rm")))
        for pinned in ("git_*", "git_log"):
            assert names_of(decided(catalog, deferring(pins=NameSet(frozenset({pinned}))))) == ["Git_Log"]
        assert names_of(decided(catalog, deferring(pins=NameSet(toolsets=frozenset({"read", "rm"}))))) == ["tail", "rm"]

    def test_of_everything_leave_nothing_deferred(self):
        decision = decided(plain_catalog("a", "b"), deferring(pins=NameSet(everything=True)))
        assert (decision.visible, decision.permitted) == ((0, 1), (0, 1))


class TestTurns:
    def test_a_tool_that_is_active_already_takes_the_place_of_none_that_is_not_permitted(self):
        catalog = plain_catalog("a", "b", "c")
        assert names_of(decided(catalog, answered("gone", "b", "a", n_attached=1))) == ["b"]

    def test_the_words_of_the_last_turn_attach_nothing_again(self):
        active = Active(("a",), (), 1, digest_of_words("words"))
        assert names_of(decided(plain_catalog("a", "b"), answered("b", active=active))) == ["a"]

    def test_a_frozen_set_takes_nothing_from_a_query(self):
        assert names_of(decided(plain_catalog("a", "b"), answered("b", active=Active(("a",), ("a",), 7)))) == ["a"]

    def test_an_answer_without_a_query_attaches_nothing(self):
        assert names_of(decided(plain_catalog("a", "b"), replace(answered("b"), query=None))) == []


class TestThreshold:
    def test_no_more_tools_than_it_are_all_shown(self):
        for over, max_tools in [(2, None), (9, 2), (2, 9)]:
            asked = Preferences(deferral=Deferral(over, max_tools=max_tools))
            lists = [decided(plain_catalog(*TOOLS[:n]), asked) for n in (2, 3)]
            assert [(len(decision.visible), decision.defers) for decision in lists] == [(2, False), (0, True)]

    def test_counts_what_is_permitted_and_not_what_is_there(self):
        asked = Preferences(deferral=Deferral(over=2))
        assert names_of(decided(plain_catalog("a", "b", "c"), asked, "c")) == ["a", "b"]

    def test_no_turns_defer_nothing(self):
        asked = Preferences(deferral=Deferral(over=0, search_turns=0))
        assert decide(plain_catalog("a", "b"), effective(NOTHING), asked).visible == (0, 1)
