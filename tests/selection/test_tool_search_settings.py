"""The settings of tool search: in every channel that has them, the operator's `off` final, pins adding up."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.errors import SelectionError
from agent_utilities.policy.curation import Preferences, preferences_of
from agent_utilities.policy.deferral import NO_DEFERRAL, Deferral
from agent_utilities.selection.active import AUTO, OFF, ON, Active, Threshold
from agent_utilities.selection.channels import FIELDS, META_KEY
from agent_utilities.selection.merge import SEARCHING, Effective, asked_digest, effective, merge
from agent_utilities.selection.model import (
    NOTHING,
    WRITTEN,
    Channel,
    FieldName,
    NameSet,
    Policy,
    Selection,
    Setting,
)
from agent_utilities.selection.parse import read_cli, read_env, read_meta, read_request
from agent_utilities.selection.profiles import read_fields
from tests.resolutions import answer_of

CALLERS: tuple[Channel, ...] = ("query", "header", "meta")
POLICIES: tuple[Policy, ...] = ("narrow", "override")
VALUES = {
    "tool_search": {
        "off": OFF, "OFF": OFF, "false": OFF, "0": OFF, "no": OFF, "on": ON, "true": ON, "1": ON, "yes": ON,
        "auto": AUTO, "Auto": AUTO, "auto:50": AUTO, "auto:80": Threshold(80), "auto:1": Threshold(1),
    },
    "pins": {
        "git_log,Tail": NameSet(toolsets=frozenset({"git_log", "tail"})), "none": NameSet(),
        "all": NameSet(everything=True),
    },
    "initial_k": {"1": 1, "30": 30},
    "search_k": {"1": 1},
    "search_turns": {"0": 0, "7": 7},
    "max_active": {"0": 0, "24": 24},
    "max_tools": {"1": 1, "128": 128},
    "active": {"git_log,+tail": Active(("git_log", "tail"), ("git_log",))},
}  # fmt: skip
REFUSED = {
    "tool_search": ["auto:0", "auto:", "auto:-1", "auto:many", "auto:9999999999", "maybe", "50", "auto 50", "on,off"],
    "initial_k": ["0", "-1", "many", "1.5", "1e3", "٣", "9999999999"],
    "search_k": ["0"],
    "search_turns": ["-1", "many", "7.0"],
    "max_active": ["-1", "none"],
    "max_tools": ["0", "-1"],
    "active": ["a;b", "a;turns=-1", ";used=0"],
}
GIVEN = [(row, channel) for row in FIELDS if row.name in VALUES for channel in row.channels]


def key_of(field: FieldName, channel: Channel) -> str:
    return next(row for row in FIELDS if row.name == field).spellings(channel)[0]


def read(channel: Channel, key: str, value: Any) -> Selection:
    match channel:
        case "env":
            return read_env({key: value})
        case "cli":
            return read_cli([(key, value)])
        case "query":
            return read_request(f"{key}={value.replace('+', '%2B').replace(';', '%3B')}".encode(), ())
        case "header":
            return read_request(b"", ((key.encode(), value.encode()),))
        case "meta":
            return read_meta({META_KEY: {key: value}})
        case "file" | "project":
            return read_fields({key: value}, "x.toml", channel, ()).selection


def given_by(field: FieldName, **texts: str) -> Selection:
    return merge(*(read(channel, key_of(field, channel), text) for channel, text in texts.items()))  # type: ignore[arg-type]


def by_meta(**given: Any) -> dict[FieldName, Any]:
    return {name: setting.value for (name, _), setting in read_meta({META_KEY: given}).slots}


def threshold(selection: Selection, policy: Policy = "narrow") -> object:
    return effective(selection, policy).search_values.get("tool_search")


class TestEveryChannel:
    def test_reads_the_same_value(self):
        for row, channel in GIVEN:
            for text, value in VALUES[row.name].items():
                for key in row.spellings(channel):
                    assert read(channel, key, text).get(row.name, channel).value == value

    def test_refuses_what_it_cannot_read_and_names_the_key(self):
        for row, channel in GIVEN:
            key = row.spellings(channel)[0]
            for text in REFUSED.get(row.name, ["a\x00b" if channel != "header" else "*" * 9000]):
                with pytest.raises(SelectionError) as refused:
                    read(channel, key, text)
                assert refused.value.source.endswith(key)
                assert len(str(refused.value)) < 400

    def test_takes_a_blank_value_for_not_set(self):
        for row, channel in GIVEN:
            assert read(channel, row.spellings(channel)[0], "  ") == NOTHING


class TestMeta:
    def test_takes_json_types(self):
        for sent, value in [
            ({"tool_search": True}, ON),
            ({"tool_search": False}, OFF),
            ({"tool_search": "auto:9"}, Threshold(9)),
            ({"pin": ["git_log", "Tail"]}, NameSet(toolsets=frozenset({"git_log", "tail"}))),
            ({"pinned_tools": []}, NameSet()),
            ({"initial_k": 5}, 5),
            ({"search_k": "5"}, 5),
            ({"search_turns": 0}, 0),
            ({"max_active": 0}, 0),
            ({"max_tools": 128}, 128),
            ({"active": ["git_log", "tail"]}, Active(("git_log", "tail"), ("git_log", "tail"))),
            ({"active": "+git_log;turns=1"}, Active(("git_log",), (), 1)),
        ]:
            assert list(by_meta(**sent).values()) == [value]

    def test_takes_nothing_for_no_active_tools(self):
        for value in [None, "", []]:
            assert by_meta(active=value) == {}

    def test_refuses_other_types_and_says_what_would_do(self):
        for sent, hint in [
            ({"tool_search": 1}, 'give "on", "off", "auto" or "auto:N"'),
            ({"tool_search": 1.5}, 'give "on", "off", "auto" or "auto:N"'),
            ({"tool_search": ["on"]}, 'give "on", "off", "auto" or "auto:N"'),
            ({"pin": 5}, "give a list of names"),
            ({"pin": {"a": 1}}, "give a list of names"),
            ({"initial_k": True}, "give a whole number from 1 up"),
            ({"initial_k": 0}, "use a whole number from 1 up"),
            ({"search_turns": 1.0}, "give a whole number from 0 up"),
            ({"search_turns": -1}, "use one from 0 up"),
            ({"max_active": [1]}, "give a whole number from 0 up"),
            ({"max_tools": False}, "give a whole number from 1 up"),
            ({"active": 5}, "or the value of active as a result told it"),
            ({"active": True}, "or the value of active as a result told it"),
            ({"active": {"names": []}}, "or the value of active as a result told it"),
            ({"active": [5]}, "names are text"),
            ({"active": ["a,b"]}, "have no comma"),
            ({"active": ["a", None]}, "names are text"),
        ]:
            with pytest.raises(SelectionError, match="_meta") as refused:
                read_meta({META_KEY: sent})
            assert hint in str(refused.value)


class TestKillSwitch:
    def test_the_operators_off_is_final(self):
        for asked in ["on", "auto", "auto:1", "off"]:
            for caller in CALLERS:
                for operator in [{"env": "off"}, {"cli": "off"}, {"env": "off", "cli": "on"}]:
                    for policy in POLICIES:
                        assert threshold(given_by("tool_search", **operator, **{caller: asked}), policy) == OFF

    def test_a_caller_chooses_for_itself_otherwise(self):
        for operator, asked in [("on", "off"), ("auto", "on"), ("auto:9", "auto:2")]:
            for caller in CALLERS:
                for policy in POLICIES:
                    selection = given_by("tool_search", env=operator, **{caller: asked})
                    assert threshold(selection, policy) == threshold(given_by("tool_search", **{caller: asked}))

    def test_a_callers_off_is_lifted_by_its_higher_channel(self):
        assert threshold(given_by("tool_search", query="off", header="on")) == ON

    def test_off_leaves_nothing_of_what_else_was_asked(self):
        selection = merge(
            read_env({"MCP_TOOL_SEARCH": "off"}),
            read_request(b"tool_search=on&pin=a&active=b&max_tools=3&initial_k=1", ()),
        )
        assert preferences_of(effective(selection), by_default=AUTO) == Preferences()


class TestWhichHolds:
    def test_the_higher_channels_number(self):
        for lower, higher in [(a, b) for i, b in enumerate(WRITTEN) for a in WRITTEN[:i]]:
            for field in [name for name in SEARCHING if name not in ("tool_search", "active")]:
                selection = given_by(field, **{higher: "8", lower: "3"})
                assert effective(selection).search_values == {field: 8}

    def test_the_higher_channels_active_set(self):
        for lower, higher in [("query", "header"), ("query", "meta"), ("header", "meta")]:
            selection = given_by("active", **{higher: "new", lower: "old"})
            assert effective(selection).search_values["active"].names == ("new",)

    def test_pins_add_up_over_all_channels(self):
        for policy in POLICIES:
            selection = given_by("pins", **{channel: f"of_{channel}" for channel in WRITTEN})
            assert effective(selection, policy).pinned.toolsets == {f"of_{channel}" for channel in WRITTEN}

    def test_of_two_in_one_channel_the_more_careful_or_both(self):
        for query, value in [
            (b"max_tools=9&max_tools=3", {"max_tools": 3}),
            (b"tool_search=on&tool_search=off", {"tool_search": OFF}),
            (b"tool_search=auto:9&tool_search=auto:90", {"tool_search": Threshold(90)}),
            (b"tool_search=on&tool_search=auto", {"tool_search": AUTO}),
            (b"active=a&active=b,a", {"active": Active(("a", "b"), ("a", "b"))}),
        ]:
            assert effective(read_request(query, ())).search_values == value


VALUE_KINDS = [
    st.builds(Threshold, st.none() | st.integers(0, 3)),
    st.builds(
        lambda names, n_loaded, turns: Active(tuple(names), tuple(reversed(names[:n_loaded])), turns),
        st.lists(st.sampled_from("abc"), unique=True),
        st.integers(0, 3),
        st.integers(0, 1),
    ),
]


class TestMonoid:
    @given(data=st.data())
    def test_values_of_one_channel_are_united_in_any_grouping(self, data: st.DataObject):
        for field in ["tool_search", "active"]:
            kind = VALUE_KINDS[field == "active"]
            x, y, z = (
                Selection((((field, "query"), Setting(data.draw(kind), (f"query {i}",), "caller")),)) for i in range(3)
            )
            assert merge(merge(x, y), z) == merge(x, merge(y, z)) == merge(x, y, z)
            assert merge(x, NOTHING) == x == merge(NOTHING, x)

    @given(VALUE_KINDS[0], VALUE_KINDS[0])
    def test_thresholds_do_not_depend_on_their_order(self, one: Threshold, other: Threshold):
        def merged(*values: Threshold) -> object:
            slots = [Selection(((("tool_search", "query"), Setting(value, ("q",), "caller")),)) for value in values]
            return merge(*slots).slots[0][1].value

        assert merged(one, other) == merged(other, one)
        assert merged(one, one) == one


class TestPreferences:
    def test_hold_every_number_that_was_given(self):
        query = b"tool_search=auto:9&initial_k=1&search_k=2&search_turns=3&max_active=4&max_tools=5"
        preferences = preferences_of(effective(read_request(query, ())))
        assert preferences.deferral == Deferral(9, 1, 2, 3, 4, 5)

    def test_hold_the_active_set_and_the_pins_of_both_sides(self):
        selection = merge(read_env({"MCP_PINNED_TOOLS": "a"}), read_request(b"tool_search=on&pin=b&active=c", ()))
        preferences = preferences_of(effective(selection), pins=NameSet(frozenset({"lazy"})))
        assert (preferences.pins.names | preferences.pins.toolsets, preferences.active.names) == (
            {"a", "b", "lazy"},
            ("c",),
        )

    def test_defer_by_default_where_nobody_says(self):
        assert preferences_of(Effective(), by_default=AUTO).deferral == Deferral(50)

    def test_defer_nothing_where_nobody_says_and_it_is_not_the_default(self):
        assert preferences_of(Effective()).deferral == NO_DEFERRAL

    def test_defer_what_a_list_has_no_room_for_where_nobody_says_more(self):
        preferences = preferences_of(effective(read_request(b"max_tools=9", ())))
        assert [preferences.deferral.defers(n) for n in (9, 10)] == [False, True]

    def test_defer_nothing_where_it_is_off_however_long_a_list_may_be(self):
        for operator in ["off", ""]:
            caller = read_request(b"max_tools=9" if operator else b"max_tools=9&tool_search=off", ())
            selection = merge(read_env({"MCP_TOOL_SEARCH": operator}), caller)
            assert preferences_of(effective(selection)).deferral == NO_DEFERRAL

    def test_defer_nothing_for_who_may_not_search(self):
        asked = effective(read_request(b"tool_search=on&active=c", ()))
        preferences = preferences_of(asked, by_default=AUTO, can_search=False)
        assert (preferences.deferral, preferences.active) == (NO_DEFERRAL, Active())

    def test_defer_in_unanswered_lists_alone_where_the_operator_says_so(self):
        deferral = preferences_of(Effective(), unanswered=AUTO).deferral
        assert deferral == Deferral(50, only_unanswered=True)
        asked = [(50, True), (51, True), (51, False)]
        assert [deferral.defers(n, is_unanswered=unanswered) for n, unanswered in asked] == [False, True, False]
        assert [deferral.may_defer(n) for n in (50, 51)] == [False, True]

    def test_defer_nothing_in_unanswered_lists_either_where_it_is_off(self):
        for env, caller in [
            ("off", b""),
            ("off", b"tool_search=on"),
            ("", b"tool_search=off"),
            ("off", b"max_tools=9"),
        ]:
            selection = merge(read_env({"MCP_TOOL_SEARCH": env}), read_request(caller, ()))
            assert preferences_of(effective(selection), unanswered=AUTO).deferral == NO_DEFERRAL

    def test_defer_in_unanswered_lists_as_in_others_where_anybody_says_when(self):
        for query, over in ((b"tool_search=auto:80", 80), (b"tool_search=on", 0), (b"max_tools=9", 9)):
            deferral = preferences_of(effective(read_request(query, ())), unanswered=AUTO).deferral
            assert (deferral.over, deferral.only_unanswered) == (over, False)

    def test_keep_the_answer_whether_or_not_tools_are_deferred(self):
        answer = answer_of("fresh", ["a"])
        for query in (b"q=x&top_k=3", b"q=x&top_k=3&tool_search=on"):
            preferences = preferences_of(effective(read_request(query, ())), answer)
            assert (preferences.query, preferences.resolution, preferences.top_k) == ("x", answer, 3)


class TestWhoAsked:
    def test_is_a_caller_where_its_own_value_has_tools_deferred(self):
        for env, caller, by_default, is_caller in [
            ({}, b"", OFF, False),
            ({}, b"tool_search=on", OFF, True),
            ({}, b"tool_search=on", AUTO, True),
            ({"MCP_TOOL_SEARCH": "on"}, b"max_tools=9", OFF, False),
            ({"MCP_TOOL_SEARCH": "off"}, b"tool_search=on", OFF, False),
            ({}, b"max_tools=9", OFF, True),
            ({}, b"max_tools=9", AUTO, False),
            ({"MCP_MAX_TOOLS": "9"}, b"", OFF, False),
            ({}, b"max_active=9&pin=a", OFF, False),
        ]:
            settled = effective(merge(read_env(env), read_request(caller, ())))
            assert settled.is_searched_by_caller(by_default) is is_caller


class TestAskedDigest:
    def test_of_who_asks_nothing_of_tool_search_is_what_it_was_before_there_was_any(self):
        for query, digest in [
            (b"", "3444c73bec9a3c47cd0e6edb4a70e757"),
            (b"tools=git_log,git_diff&q=what+changed", "8ce24aaca5e2bfb95f48dec7e943aee7"),
            (b"disabled_tags=write&read_only=true&top_k=5", "0390eb0352f247170b3db65e810859c8"),
            (b"toolsets=git&tags=read&disabled_tools=rm*&q=%E6%97%A5%E6%9C%AC", "db3ffe150c74f3bd30a8dd32c7224529"),
        ]:
            assert asked_digest(read_request(query, ())) == digest

    def test_is_another_for_every_setting_and_value(self):
        asked = [
            b"", b"tool_search=on", b"tool_search=off", b"tool_search=auto", b"pin=a", b"pin=b", b"active=a",
            b"active=a,b", b"active=b,a", b"active=%2Ba", b"active=a;turns=1", b"initial_k=3", b"search_k=3",
            b"search_turns=3", b"max_active=3", b"max_tools=3",
        ]  # fmt: skip
        assert len({asked_digest(read_request(query, ())) for query in asked}) == len(asked)

    def test_is_the_same_over_channels(self):
        for field, text in product(SEARCHING, ["3"]):
            told = {asked_digest(given_by(field, **{channel: text})) for channel in CALLERS if field != "tool_search"}
            assert len(told) == (field != "tool_search")


class TestActiveOfTheOperator:
    def test_is_refused_in_the_environment_and_says_who_gives_it_and_what_would_do(self):
        with pytest.raises(SelectionError) as refused:
            read_env({"MCP_ACTIVE": "git_log"})
        assert str(refused.value) == (
            "active is for callers to give: 'git_log' (from env MCP_ACTIVE); "
            "callers send x-mcp-active or ?active=; use MCP_PINNED_TOOLS here"
        )

    def test_is_passed_over_where_it_is_blank(self):
        for value in ["", "  "]:
            assert read_env({"MCP_ACTIVE": value}) == NOTHING
