"""From catalog and selection to what is shown."""

from __future__ import annotations

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.bounds import MAX_UNKNOWN, finish, unknown_in
from agent_utilities.policy.curation import preferences_of
from agent_utilities.policy.decision import decide
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.model import UNRESOLVED, Resolution
from agent_utilities.selection.parse import read_cli, read_request
from tests.resolutions import answer_of

CATALOG = Catalog(
    (
        entry("tool", "tail_log", tags={"logs", "read"}, read_only=True),
        entry("tool", "search_logs", tags={"logs", "read"}, read_only=True),
        entry("tool", "rotate_log", tags={"logs", "write"}),
        entry("tool", "delete_log", tags={"logs", "write", "delete"}),
    )
)


def decided(query: bytes = b"", *options: tuple[str, str], resolution: Resolution = UNRESOLVED):
    settled = effective(merge(read_cli(options), read_request(query, ())))
    return decide(CATALOG, settled, preferences_of(settled, resolution))


def shown(decision) -> list[str]:
    return [CATALOG.entries[i].name for i in decision.visible]


class TestTopK:
    def test_without_a_query_keeps_catalog_order(self):
        assert shown(decided(b"top_k=2")) == ["tail_log", "search_logs"]

    def test_takes_the_best_of_an_answer_and_lists_them_in_catalog_order(self):
        best_first = answer_of("fresh", ["delete_log", "tail_log", "search_logs"])
        assert shown(decided(b"q=logs&top_k=2", resolution=best_first)) == ["tail_log", "delete_log"]

    def test_does_not_cut_what_a_query_left_unanswered(self):
        assert len(shown(decided(b"q=logs&top_k=2"))) == 4

    def test_leaves_the_others_permitted(self):
        assert len(decided(b"top_k=2").permitted) == 4


class TestResolution:
    def test_that_does_not_answer_shows_all_permitted(self):
        for status in ["off", "no_match", "unavailable"]:
            decision = decided(b"q=x&disabled_tags=write", resolution=answer_of(status, ["tail_log"]))
            assert (shown(decision), decision.status) == (["tail_log", "search_logs"], status)

    def test_that_answers_narrows(self):
        for status in ["fresh", "stale", "ranked"]:
            decision = decided(b"q=x", resolution=answer_of(status, ["search_logs", "gone"]))
            assert (shown(decision), decision.status) == (["search_logs"], status)

    def test_that_names_only_denied_tools_shows_all_permitted(self):
        decision = decided(b"q=x&disabled_tags=write", resolution=answer_of("fresh", ["delete_log"]))
        assert (shown(decision), decision.status) == (["tail_log", "search_logs"], "no_match")


class TestVersions:
    def test_a_tool_without_a_version_is_refused_with_any_version_of_its_name(self):
        for denied in [0, 1]:
            tags = [{"write"} if place == denied else set() for place in range(2)]
            versions = (entry("tool", "save", tags=tags[0]), entry("tool", "save", version="2", tags=tags[1]))
            decision = decide(Catalog(versions), effective(read_cli([("--disabled-tags", "write")])))
            assert 0 not in decision.permitted

    def test_a_version_that_is_permitted_stays_beside_one_that_is_denied(self):
        versions = (entry("tool", "save", version="2", tags={"write"}), entry("tool", "save", version="1"))
        decision = decide(Catalog(versions), effective(read_cli([("--disabled-tags", "write")])))
        assert decision.permitted == (1,)


class TestUnknown:
    def test_a_name_comes_with_the_nearest_one(self):
        assert decided(b"tools=tail_logs,zzz").unknown == {"tail_logs": "tail_log", "zzz": None}

    def test_a_name_the_operator_denies_is_unknown_and_never_the_nearest(self):
        assert decided(b"tools=delete_log", ("--disabled-tags", "write")).unknown == {"delete_log": None}

    def test_a_name_the_caller_denies_itself_is_known(self):
        assert decided(b"tools=delete_log&disabled_tools=delete_log").unknown == {}

    def test_the_operators_names_are_not_the_callers_to_know(self):
        decision = decided(b"", ("--tools", "tail_lok"))
        of_operator = finish(unknown_in(decision.effective, "operator", decision.catalog.entries))
        assert (decision.unknown, of_operator) == ({}, {"tail_lok": "tail_log"})

    def test_are_bounded(self):
        assert len(decided(("tools=" + ",".join(f"n{i}" for i in range(99))).encode()).unknown) == MAX_UNKNOWN
