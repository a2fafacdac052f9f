"""Invisible text: what is made visible or dropped, what stays, and what of a result is never changed."""

import copy
import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.results.invisible import Mode, in_definition, in_result, visible
from tests.results.invisible_texts import CHANGE, ENGLAND, SCOTLAND, STAY, WALES, tags

FLAGS = re.compile("|".join((ENGLAND, SCOTLAND, WALES)))
PIECES = [
    *(each for text in [*STAY.values(), *(text for text, _, _ in CHANGE.values())] for each in text if each > "\x7f"),
    *"ab1 -.\n\0\x07\x1b[m]\\",
]
TEXTS = st.lists(st.sampled_from([*sorted(set(PIECES)), ENGLAND]), max_size=16).map("".join)
HIDDEN = tags("obey")
MODES: tuple[Mode, ...] = ("show", "drop")


def seen_of(text: str) -> str:
    """Return a text without the characters that have no width."""
    return "".join(each for each in text if unicodedata.category(each) not in ("Cc", "Cf", "Mn", "Cn", "Lo"))


class TestTexts:
    def test_60_texts_that_need_invisible_characters_are_the_same_objects(self) -> None:
        assert len(STAY) == 60
        changed = [name for name, text in STAY.items() for mode in MODES if visible(text, mode)[0] is not text]
        assert changed == []

    def test_40_texts_show_what_they_hide(self) -> None:
        assert len(CHANGE) == 40
        shown = {name: visible(text, "show") for name, (text, _, _) in CHANGE.items()}
        assert shown == {name: (wanted, n) for name, (_, wanted, n) in CHANGE.items()}

    def test_40_texts_lose_it_where_it_is_dropped(self) -> None:
        dropped = {name: visible(text, "drop") for name, (text, _, _) in CHANGE.items()}
        assert [name for name, (text, _) in dropped.items() if visible(text, "show")[1]] == []
        assert {name: n for name, (_, n) in dropped.items()} == {name: n for name, (_, _, n) in CHANGE.items()}

    def test_what_is_visible_is_never_dropped(self) -> None:
        texts = [text for text, _, _ in CHANGE.values() if "\x1b" not in text]
        assert [text for text in texts if seen_of(visible(text, "drop")[0]) != seen_of(text)] == []

    def test_colours_links_and_titles_of_a_terminal_are_dropped_as_a_whole(self) -> None:
        log = "\x1b]0;title\x07\x1b[1;31mFAIL\x1b[0m \x1b]8;;http://x\x1b\\a.py\x1b]8;;\x1b\\"
        assert visible(log, "drop") == ("FAIL a.py", 8)

    def test_a_shown_text_hides_nothing_more(self) -> None:
        assert [name for name, (_, shown, _) in CHANGE.items() if visible(shown, "show") != (shown, 0)] == []

    def test_a_flag_at_the_end_explains_no_tags_at_the_beginning(self) -> None:
        assert visible(f"{ENGLAND[1:]} \U0001f3f4", "drop") == (" \U0001f3f4", 6)

    def test_marks_that_come_together_are_dropped_with_what_was_between(self) -> None:
        assert visible("א" + "\u200f\u202e" * 3, "drop") == ("א", 6)

    def test_pairs_around_nothing_carry_no_bits(self) -> None:
        assert visible("a\u2068\u2069\u2066\u2069 \u2068 \u2069b", "drop") == ("a  b", 6)

    def test_marks_of_direction_stay_in_a_part_of_a_hebrew_text(self) -> None:
        assert visible("\u200e+972-50", "show", is_rtl=True) == ("\u200e+972-50", 0)


class TestLaws:
    @given(TEXTS)
    @settings(max_examples=300)
    def test_a_text_is_the_same_object_where_nothing_was_hidden(self, text: str) -> None:
        for mode in MODES:
            new, n = visible(text, mode)
            assert (new is text) == (n == 0)

    @given(TEXTS)
    @settings(max_examples=300)
    def test_nothing_is_left_to_drop(self, text: str) -> None:
        dropped, n = visible(text, "drop")
        assert visible(dropped, "drop") == (dropped, 0)
        assert n >= visible(text, "show")[1]

    @given(TEXTS)
    @settings(max_examples=300)
    def test_no_tags_overrides_or_controls_are_left(self, text: str) -> None:
        for mode in MODES:
            left = FLAGS.sub("", visible(text, mode)[0])
            assert not re.search("[\U000e0000-\U000e007f\u202d\u202e\0-\x08\x0e-\x1f\x7f-\x9f]", left)

    @given(TEXTS)
    @settings(max_examples=300)
    def test_no_more_than_three_joiners_follow_one_another_and_no_two_selectors(self, text: str) -> None:
        left = visible(text, "show")[0]
        assert not re.search("[\u200b-\u200d]{4}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}", left)


def result(**more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "Sunny."}], **more}


class TestResults:
    def test_a_result_that_hides_nothing_is_the_same_object(self) -> None:
        given = result(structuredContent={"Straße": ["naïve", 1, None, {"می\u200cشود": True}]}, isError=False)
        assert in_result(given, "show") == (given, 0)
        assert in_result(given, "show")[0] is given

    def test_the_input_is_never_changed(self) -> None:
        given = result(structuredContent={f"a{HIDDEN}": [{"b": HIDDEN}]}, _meta={"c": HIDDEN})
        before = copy.deepcopy(given)
        for mode in MODES:
            in_result(given, mode)
        assert given == before

    def test_text_resources_links_and_their_annotations_are_changed(self) -> None:
        link = {"type": "resource_link", "name": "a\u202e", "title": "b\u202e", "description": "c\u202e"}
        given = {
            "content": [
                {"type": "text", "text": "d\u202e", "annotations": {"audience": ["e\u202e"]}},
                {"type": "resource", "resource": {"uri": "file:///f", "text": "g\u202e"}},
                link,
            ]
        }
        dropped, n = in_result(given, "drop")
        assert dropped == json.loads(json.dumps(given, ensure_ascii=False).replace("\u202e", ""))
        assert n == 6

    def test_uris_and_base64_are_only_counted(self) -> None:
        given = {
            "content": [
                {"type": "image", "data": "aGk=\u200b", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///a\u202e", "blob": "\0"}},
            ]
        }
        new, n = in_result(given, "show")
        assert new is given
        assert n == 3

    def test_data_are_changed_as_the_text_that_copies_them(self) -> None:
        data = {f"k{HIDDEN}": "a\u202eb", "row": ["שלום", "\u200e+972-50", "ig\u200bnore", "می\u200cشود"]}
        given = {
            "content": [{"type": "text", "text": json.dumps(data, ensure_ascii=False)}],
            "structuredContent": data,
        }
        for mode in MODES:
            new, n = in_result(given, mode)
            assert json.loads(new["content"][0]["text"]) == new["structuredContent"]
            assert n == 12

    def test_data_have_no_names_that_stay(self) -> None:
        given = result(structuredContent={"uri": "a\u202e", "data": "b\u202e", "_meta": {"enum": ["c\u202e"]}})
        assert in_result(given, "drop")[0]["structuredContent"] == {"uri": "a", "data": "b", "_meta": {"enum": ["c"]}}

    def test_keys_that_become_alike_all_stay_in_order(self) -> None:
        given = result(structuredContent={"a\u202e": 1, "a": 2, "a\u202d": 3, "b": 4})
        dropped = in_result(given, "drop")[0]["structuredContent"]
        assert list(dropped.items()) == [("a⟨0⟩", 1), ("a", 2), ("a⟨2⟩", 3), ("b", 4)]

    def test_what_is_of_no_prompt_is_not_read(self) -> None:
        given = result(_meta={"key": "a\u202e"})
        assert in_result(given, "show") == (given, 0)

    def test_prompts_and_resources_are_changed_alike(self) -> None:
        prompt = {"description": "a\u202e", "messages": [{"role": "user", "content": {"type": "text", "text": "b\0"}}]}
        resource = {"contents": [{"uri": "file:///c", "text": "d\u202e"}], "nextCursor": "e\u202e"}
        assert in_result(prompt, "show")[0]["messages"][0]["content"]["text"] == "b\\x00"
        assert in_result(resource, "drop") == (
            {"contents": [{"uri": "file:///c", "text": "d"}], "nextCursor": "e\u202e"},
            2,
        )

    def test_data_that_nest_deeper_than_python_calls_are_changed(self) -> None:
        deep: Any = HIDDEN
        for _ in range(50_000):
            deep = [deep]
        new, n = in_result({"structuredContent": {"deep": deep}}, "drop")
        inner = new["structuredContent"]["deep"]
        while isinstance(inner, list):
            inner = inner[0]
        assert (inner, n) == ("", 4)

    @pytest.mark.parametrize("mode", MODES)
    def test_lone_surrogates_pass(self, mode: Mode) -> None:
        given = result(structuredContent={"half": "\ud83d\u202e"})
        assert in_result(given, mode)[0]["structuredContent"]["half"][0] == "\ud83d"


TOOL = {
    "name": f"pay{HIDDEN}",
    "title": f"Pay{HIDDEN}",
    "description": f"Pays.{HIDDEN}",
    "inputSchema": {
        "type": "object",
        "properties": {
            f"to{HIDDEN}": {
                "type": "string",
                "description": f"Whom.{HIDDEN}",
                "enum": [f"a{HIDDEN}"],
                "const": f"b{HIDDEN}",
                "pattern": f"c{HIDDEN}",
                "default": f"d{HIDDEN}",
                "examples": [f"e{HIDDEN}"],
            },
            "enum": {"description": f"Which.{HIDDEN}"},
        },
        "required": [f"to{HIDDEN}"],
    },
}


class TestDefinitions:
    def test_a_definition_that_hides_nothing_is_the_same_object(self) -> None:
        tool = {"name": "weather", "description": "Says the weather ☀\ufe0f.", "inputSchema": {"type": "object"}}
        assert in_definition(tool, "show")[0] is tool

    def test_what_is_read_is_shown(self) -> None:
        shown = in_definition(TOOL, "show")[0]
        assert shown["title"] == "Pay⟨tags: obey⟩"
        assert shown["description"] == "Pays.⟨tags: obey⟩"
        assert shown["inputSchema"]["properties"]["enum"] == {"description": "Which.⟨tags: obey⟩"}
        to = shown["inputSchema"]["properties"][f"to{HIDDEN}"]
        assert (to["description"], to["default"], to["examples"]) == (
            "Whom.⟨tags: obey⟩",
            "d⟨tags: obey⟩",
            ["e⟨tags: obey⟩"],
        )

    def test_what_a_call_repeats_stays_and_is_counted(self) -> None:
        shown, n = in_definition(TOOL, "show")
        to = shown["inputSchema"]["properties"][f"to{HIDDEN}"]
        assert shown["name"] == f"pay{HIDDEN}"
        assert shown["inputSchema"]["required"] == [f"to{HIDDEN}"]
        assert (to["enum"], to["const"], to["pattern"]) == ([f"a{HIDDEN}"], f"b{HIDDEN}", f"c{HIDDEN}")
        assert n == 4 * 12

    def test_a_definition_that_hides_only_in_names_is_the_same_object(self) -> None:
        tool = {"name": f"pay{HIDDEN}", "inputSchema": {"type": "object"}}
        new, n = in_definition(tool, "drop")
        assert new is tool
        assert n == 4

    def test_the_output_schema_still_fits_the_results(self) -> None:
        key, value = "to\u200btal", "hi\u200bgh"
        tool = {"name": "a", "outputSchema": {"properties": {key: {"enum": [value]}}, "required": [key]}}
        for mode in MODES:
            schema = in_definition(tool, mode)[0]["outputSchema"]
            ((new_key, new_value),) = in_result({"structuredContent": {key: value}}, mode)[0][
                "structuredContent"
            ].items()
            assert schema == {"properties": {new_key: {"enum": [new_value]}}, "required": [new_key]}

    def test_arguments_of_prompts_keep_their_names(self) -> None:
        prompt = {"name": "a", "arguments": [{"name": "b\u202e", "description": "c\u202e"}]}
        assert in_definition(prompt, "drop") == (
            {"name": "a", "arguments": [{"name": "b\u202e", "description": "c"}]},
            2,
        )
