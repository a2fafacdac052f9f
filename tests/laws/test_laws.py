"""Laws L1 to L6, over generated catalogs, selections and channels."""

from __future__ import annotations

from hypothesis import example, given

from agent_utilities.catalog.model import Catalog, Entry, entry
from agent_utilities.policy.bounds import Bounds
from agent_utilities.policy.curation import preferences_of
from agent_utilities.policy.decision import Decision, decide, revision
from agent_utilities.selection.active import Threshold
from agent_utilities.selection.merge import Within, asked_digest, effective, merge
from agent_utilities.selection.model import Resolution, Selection, fold
from tests.laws.given import (
    Spelled,
    catalogs,
    plain_permitted,
    plain_pinned,
    plain_stands_in,
    read,
    resolutions,
    spelled_lists,
)

TOOL_SEARCH = entry("tool", "tool_search", read_only=True)
OPERATOR, CALLER = spelled_lists("file", "project", "env", "cli"), spelled_lists("query", "header", "meta")


def shown(catalog: Catalog, asked: list[Spelled], resolution: Resolution) -> Decision:
    """Decide on a catalog with the preferences among what was asked."""
    settled = effective(read(asked))
    return decide(catalog, settled, preferences_of(settled, resolution))


def renamed(given: Entry, name: str) -> Entry:
    """The same component under another name."""
    return entry("tool", name, tags=given.tags, read_only=given.read_only, version=given.version)


class TestL1Nested:
    @given(catalogs, spelled_lists(), resolutions)
    def test_catalog_holds_permitted_holds_visible(
        self, catalog: Catalog, asked: list[Spelled], resolution: Resolution
    ) -> None:
        decision = shown(catalog, asked, resolution)
        assert set(range(len(catalog))) >= set(decision.permitted) >= set(decision.visible)

    @given(catalogs, spelled_lists())
    @example(Catalog((entry("tool", "\u0390_log"),)), [Spelled("env", "MCP_DISABLED_TOOLS", "\u03aa\u0301_LOG")])
    def test_permitted_is_what_the_contract_says(self, catalog: Catalog, asked: list[Spelled]) -> None:
        assert decide(catalog, effective(read(asked))).permitted == plain_permitted(asked, catalog)

    @given(catalogs, spelled_lists(), spelled_lists())
    def test_within_a_request_is_permitted_what_is_by_it_and_by_what_is_asked_there(
        self, catalog: Catalog, asked: list[Spelled], within: list[Spelled]
    ) -> None:
        held = Within(effective(read(asked))).narrowed(effective(read(within)))
        both = set(plain_permitted(asked, catalog)) & set(plain_permitted(within, catalog))
        assert set(decide(catalog, held).permitted) == both

    @given(catalogs, spelled_lists(), spelled_lists())
    def test_nor_is_more_where_its_caller_knows_the_same_by_other_names(
        self, catalog: Catalog, asked: list[Spelled], within: list[Spelled]
    ) -> None:
        as_seen = Catalog(tuple(renamed(each, f"rm_{each.name}") for each in catalog.entries))
        permitted = frozenset(plain_permitted(asked, as_seen))
        names = [
            {fold(each.name) for i, each in enumerate(catalog.entries) if (i in permitted) is of}
            for of in (True, False)
        ]
        held = Within(effective(read(asked)), *map(frozenset, names)).narrowed(effective(read(within)))
        decided = set(decide(catalog, held).permitted)
        assert decided <= permitted & set(plain_permitted(within, catalog))
        if not asked:
            assert decided == set(plain_permitted(within, catalog))

    @given(catalogs, OPERATOR, CALLER, resolutions)
    def test_a_revision_tells_nothing_of_what_is_denied_or_by_what(
        self, catalog: Catalog, operator: list[Spelled], caller: list[Spelled], resolution: Resolution
    ) -> None:
        decision = shown(catalog, [*operator, *caller], resolution)
        permitted = Catalog(tuple(catalog.entries[i] for i in decision.permitted))
        asked = asked_digest(read(caller))
        without_operator = decide(permitted, effective(read(caller)), decision.preferences)
        assert revision(decision, asked) == revision(without_operator, asked)

    @given(catalogs, OPERATOR, CALLER)
    def test_unknown_names_tell_nothing_of_what_the_operator_denies(
        self, catalog: Catalog, operator: list[Spelled], caller: list[Spelled]
    ) -> None:
        both = decide(catalog, effective(read(operator + caller)))
        hidden = set(both.refused_by("operator"))
        rest = Catalog(tuple(each for i, each in enumerate(catalog.entries) if i not in hidden))
        assert both.unknown == decide(rest, effective(read(operator + caller))).unknown


class TestL2DenyWins:
    @given(catalogs, spelled_lists(), spelled_lists())
    def test_nothing_added_lifts_a_deny(self, catalog: Catalog, asked: list[Spelled], more: list[Spelled]) -> None:
        before = decide(catalog, effective(read(asked)))
        after = decide(catalog, effective(merge(read(asked), read(more))))
        denied = {i for i, rule in enumerate(before.refusals) if rule and rule.name.startswith("denied")}
        assert denied.isdisjoint(after.permitted)

    @given(catalogs, catalogs, spelled_lists())
    def test_nothing_that_is_added_to_the_catalog_lifts_one(
        self, catalog: Catalog, more: Catalog, asked: list[Spelled]
    ) -> None:
        before = decide(catalog, effective(read(asked)))
        after = decide(Catalog((*catalog.entries, *more.entries)), effective(read(asked)))
        denied = {i for i, rule in enumerate(before.refusals) if rule and rule.name.startswith("denied")}
        assert denied.isdisjoint(after.permitted)

    @given(catalogs, spelled_lists())
    def test_denies_hold_under_override_too(self, catalog: Catalog, asked: list[Spelled]) -> None:
        narrow = decide(catalog, effective(read(asked), "narrow"))
        override = decide(catalog, effective(read(asked), "override"))
        denied = {i for i, rule in enumerate(narrow.refusals) if rule and rule.name.startswith("denied")}
        assert denied.isdisjoint(override.permitted)


class TestL3TrustBoundary:
    @given(catalogs, OPERATOR, CALLER)
    def test_permitted_is_the_operators_and_the_callers(
        self, catalog: Catalog, operator: list[Spelled], caller: list[Spelled]
    ) -> None:
        both = decide(catalog, effective(read(operator + caller)))
        own = [decide(catalog, effective(read(side))) for side in (operator, caller)]
        assert set(both.permitted) == set(own[0].permitted) & set(own[1].permitted)


class TestL4Monoid:
    @given(spelled_lists(), spelled_lists(), spelled_lists())
    def test_merge_is_associative(self, a: list[Spelled], b: list[Spelled], c: list[Spelled]) -> None:
        x, y, z = read(a), read(b), read(c)
        assert merge(merge(x, y), z) == merge(x, merge(y, z)) == merge(x, y, z)

    @given(spelled_lists())
    def test_the_empty_selection_is_the_identity(self, asked: list[Spelled]) -> None:
        selection = read(asked)
        assert merge(selection, Selection()) == selection == merge(Selection(), selection)

    @given(spelled_lists())
    def test_every_value_remembers_the_spellings_it_came_by(self, asked: list[Spelled]) -> None:
        origins = {origin.rsplit(" ", 1)[1] for _, setting in read(asked).slots for origin in setting.origins}
        written = {s.key.lower() if s.channel == "header" else s.key for s in asked}
        assert {origin for origin in origins if not origin.startswith("profiles.")} <= written
        assert written <= origins or any(s.key.lower().endswith("profile") for s in asked)


class TestL5PreferencesFailOpenBoundsFailClosed:
    @given(catalogs, spelled_lists(), resolutions)
    def test_preferences_never_change_what_is_permitted(
        self, catalog: Catalog, asked: list[Spelled], resolution: Resolution
    ) -> None:
        settled = effective(read(asked))
        assert (
            decide(catalog, settled, preferences_of(settled, resolution)).permitted
            == decide(catalog, settled.bounds_only).permitted
        )

    @given(catalogs, spelled_lists(), resolutions)
    def test_an_unanswered_query_shows_everything_permitted(
        self, catalog: Catalog, asked: list[Spelled], resolution: Resolution
    ) -> None:
        settled = effective(read([*asked, Spelled("header", "x-mcp-query", "logs")]))
        decision = decide(catalog, settled, preferences_of(settled, resolution))
        if decision.status not in ("fresh", "stale", "ranked"):
            assert decision.visible == decision.permitted or decision.defers

    @given(catalogs, spelled_lists(), resolutions)
    def test_a_preference_leaves_nobody_empty_handed(
        self, catalog: Catalog, asked: list[Spelled], resolution: Resolution
    ) -> None:
        decision = shown(catalog, asked, resolution)
        # Deferred tools are found by `tool_search`, which is listed beside them.
        assert bool(decision.visible or decision.defers) == bool(decision.permitted)

    @given(catalogs, spelled_lists(), resolutions)
    def test_entry_tools_stand_for_a_long_list_that_is_so_for_want_of_an_answer_where_the_operator_says_so(
        self, catalog: Catalog, asked: list[Spelled], resolution: Resolution
    ) -> None:
        settled = effective(read(asked))
        can_search = Bounds(settled).permits_entry_tool(TOOL_SEARCH, by_caller=settled.is_searched_by_caller())
        before = decide(catalog, settled, preferences_of(settled, resolution, can_search=can_search))
        chosen = preferences_of(settled, resolution, can_search=can_search, unanswered=Threshold(2))
        decision = decide(catalog, settled, chosen)
        assert decision.permitted == before.permitted == plain_permitted(asked, catalog)
        assert decision.status == before.status
        assert set(decision.visible) <= set(decision.permitted)
        if plain_stands_in(asked, len(decision.permitted), decision.status):
            assert decision.defers
            assert {i for i in decision.permitted if plain_pinned(asked, catalog.entries[i])} <= set(decision.visible)
        else:
            assert (decision.visible, decision.defers) == (before.visible, before.defers)


class TestL6PureDecision:
    @given(catalogs, spelled_lists(), resolutions)
    def test_equal_inputs_give_equal_answers(
        self, catalog: Catalog, asked: list[Spelled], resolution: Resolution
    ) -> None:
        again = Catalog(tuple(catalog.entries))
        first, second = (
            shown(catalog, asked, resolution),
            shown(again, asked, resolution),
        )
        assert (first.permitted, first.visible, first.status, first.unknown) == (
            second.permitted,
            second.visible,
            second.status,
            second.unknown,
        )
        assert revision(first, "") == revision(second, "")

    @given(catalogs, spelled_lists(), resolutions)
    def test_lists_keep_catalog_order(self, catalog: Catalog, asked: list[Spelled], resolution: Resolution) -> None:
        decision = shown(catalog, asked, resolution)
        assert decision.visible == tuple(sorted(decision.visible))
        assert decision.permitted == tuple(sorted(decision.permitted))
