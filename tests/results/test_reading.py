"""What `read_result` answers: what is selected, the places of a text, and ranges that give the whole back."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.results.content import Whole, tokens_of
from agent_utilities.results.reading import READ_RESULT_DESCRIPTION, READ_RESULT_SCHEMA, Arguments, arguments_of, read
from agent_utilities.results.shape import Shown, shortened, units_of

HANDLE = "r_0123456789abcdefghijkl"
ITEMS = [{"number": i, "title": f"Crash {i}", "open": i % 2 == 0, "body": "word " * (i % 40)} for i in range(400)]
LOG = "".join(f"INFO request {i} took {i} ms\n" for i in range(3_000))
ISSUES, LINES, LINE = Whole.of(json.dumps({"issues": ITEMS})), Whole.of(LOG), Whole.of("longer " * 9_000)
_CALL = re.compile(r'read_result\(result="[^"]*", (.*)\) goes on')
"""How a program reads the next call in a line of ours."""


def asked(whole: Whole = ISSUES, tokens: int = 400, **arguments: Any) -> Shown:
    shown = read(whole, arguments, tokens, HANDLE)
    cost = tokens_of({"content": [{"type": "text", "text": text} for text in shown.blocks]})
    assert cost == shown.n_tokens <= tokens
    assert len(shown.blocks[0].splitlines()) == 1
    return shown


def refused(whole: Whole = ISSUES, **arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        read(whole, arguments, 400, HANDLE)
    return str(error.value)


def next_call(shown: Shown) -> dict[str, Any] | None:
    """Return the arguments of the call that a line says goes on."""
    match = _CALL.search(shown.blocks[0])
    return match and {key: json.loads(value) for key, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|-?\d+)', match[1])}


def followed(whole: Whole, tokens: int = 400, **arguments: Any) -> list[str]:
    """Return all that is read by following the calls."""
    call: dict[str, Any] | None = arguments
    texts = []
    while call is not None:
        shown = asked(whole, tokens, **call)
        texts.append(shown.blocks[1])
        call = next_call(shown)
    return texts


class TestDefinition:
    def test_it_takes_at_most_180_tokens(self):
        whole = {"name": "read_result", "description": READ_RESULT_DESCRIPTION, "inputSchema": READ_RESULT_SCHEMA}
        assert n_tokens(whole) <= 180

    def test_every_argument_of_it_is_read(self):
        assert set(READ_RESULT_SCHEMA["properties"]) == {"result", *Arguments.__slots__} - {"is_range"}


class TestArguments:
    @pytest.mark.parametrize(
        ("sent", "start", "count", "unit"),
        [
            ({}, 0, None, None),
            ({"start": None, "count": None, "unit": None, "select": "", "find": None}, 0, None, None),
            ({"start": "18", "count": "5"}, 18, 5, None),
            ({"start": 18.0, "count": 5.0}, 18, 5, None),
            ({"start": " +18.0 "}, 18, None, None),
            ({"start": -3, "unit": "lines"}, -3, None, "lines"),
        ],
    )
    def test_what_models_send_is_read(self, sent, start, count, unit):
        parsed = arguments_of({"result": HANDLE, **sent})
        assert (parsed.start, parsed.count, parsed.unit) == (start, count, unit)

    def test_what_cannot_be_meant_is_refused_with_what_would_do(self):
        wrong = [{"start": "many"}, {"start": True}, {"start": 1.5}, {"start": float("nan")}, {"start": [1]},
                 {"start": "٣"}, {"start": 10**20}, {"start": "[5:9]"}, {"unit": "Line"}, {"count": 0}, {"count": -1},
                 {"unit": "pages"}, {"unit": 3}, {"select": 3}, {"find": ["a"]}, {"page": 2},
                 {"start": {"a": 1}}]  # fmt: skip
        errors = {str(each): refused(**each) for each in wrong}
        assert {each: error for each, error in errors.items() if not re.search("; (give|it takes)", error)} == {}


class TestRange:
    def test_items_are_the_default_where_there_are(self):
        shown = asked(start=5, count=2)
        assert json.loads(f"[{shown.blocks[1]}]") == ITEMS[5:7]
        assert shown.blocks[0] == "items 5 to 6 of 400 follow; 393 more are not asked for"

    def test_lines_are_the_default_of_text(self):
        assert asked(LINES, start=5, count=2).blocks[1] == "INFO request 5 took 5 ms\nINFO request 6 took 6 ms\n"

    def test_characters_are_the_default_of_one_line(self):
        assert asked(LINE, start=5, count=9).blocks[1] == LINE.text[5:14]

    def test_any_unit_can_be_asked_for(self):
        assert asked(start=2, count=9, unit="characters").blocks[1] == ISSUES.text[2:11]
        assert asked(LINES, start=2, count=9, unit="characters").blocks[1] == LOG[2:11]

    def test_the_call_that_goes_on_is_told_with_what_is_left_of_the_count(self):
        shown = asked(LINES, start=100, count=300)
        n = shown.blocks[1].count("\n")
        call = f'read_result(result="{HANDLE}", start={100 + n}, count={300 - n})'
        assert shown.blocks[0] == f"lines 100 to {99 + n} of 3,000 follow; {call} goes on"

    def test_below_0_it_counts_from_the_end(self):
        shown = asked(LINES, start=-2)
        assert shown.blocks[1] == "INFO request 2998 took 2998 ms\nINFO request 2999 took 2999 ms\n"
        assert shown.blocks[0] == "lines 2,998 to 2,999 of 3,000 follow; they are the last"

    def test_further_back_than_there_is_begins_at_once(self):
        assert asked(LINES, start=-9_000, count=1).blocks[1] == "INFO request 0 took 0 ms\n"

    def test_after_the_end_it_says_what_there_is(self):
        assert refused(LINES, start=3_000) == (
            "there are 3,000 lines: '3000' (from read_result: start); give 0 to 2,999")  # fmt: skip

    def test_of_an_empty_text_there_is_nothing(self):
        assert "there is nothing to read" in refused(Whole.of(""))

    def test_where_there_are_no_items_they_are_refused(self):
        assert "give lines or characters" in refused(LINES, unit="items")

    def test_an_item_that_is_too_long_is_read_by_characters(self):
        whole = Whole.of(json.dumps(["a", "x" * 9_000, "b"]))
        shown = asked(whole, start=1)
        assert "which begin item 1 follow" in shown.blocks[0]
        assert next_call(shown) == {"start": 6 + len(shown.blocks[1]), "unit": "characters"}
        assert "".join(followed(whole, start=1)) == whole.text[6:]

    def test_following_the_calls_gives_all_items(self):
        assert [item for text in followed(ISSUES) for item in json.loads(f"[{text}]")] == ITEMS

    def test_following_the_calls_gives_all_of_a_text(self):
        assert {len(whole.text) for whole in (LINES, LINE) if "".join(followed(whole)) != whole.text} == set()

    def test_the_call_names_the_tool_as_the_caller_knows_it(self):
        assert (
            'docs__read_result(result="r_x", start='
            in read(LINES, {}, 400, "r_x", reader="docs__read_result").blocks[0]
        )


class TestSelect:
    def test_what_fits_is_all_shown(self):
        shown = asked(select="issues[?number > `397`].{n: number, t: title}")
        assert json.loads(shown.blocks[1]) == [{"n": 398, "t": "Crash 398"}, {"n": 399, "t": "Crash 399"}]
        assert shown.blocks[0].startswith("selected 2 items, 14 of ")

    def test_an_array_has_an_item_a_line(self):
        assert asked(select="issues[:2].title").blocks[1] == '["Crash 0",\n"Crash 1"]'

    def test_a_text_is_shown_as_it_is(self):
        assert asked(select="issues[3].title").blocks[1] == "Crash 3"

    def test_a_text_of_lines_is_shown_in_lines(self):
        whole = Whole.of(json.dumps({"log": LOG, "x": 1}))
        assert "".join(followed(whole, select="log", start=0)) == LOG

    def test_what_cannot_be_sent_is_escaped(self):
        assert asked(Whole.of('{"a": ["\\ud800"], "b": "\\ud800"}'), select="a").blocks[1] == '["\\ud800"]'
        assert asked(Whole.of('{"a": ["\\ud800"], "b": "\\ud800"}'), select="b").blocks[1] == '"\\ud800"'

    def test_a_field_that_is_missing_is_told(self):
        assert "titel" in asked(select="issues[].titel").blocks[0]

    def test_too_much_is_shortened_with_a_sketch_and_goes_on(self):
        shown = asked(select="issues[].title")
        assert "a narrower select" in shown.blocks[0]
        assert shown.blocks[1] == '[]: 400 of string "Crash 0"'
        call = next_call(shown)
        assert call is not None
        n = call.pop("start")
        assert call == {"select": "issues[].title"}
        assert json.loads(f"[{asked(select='issues[].title', start=n).blocks[1]}]")[0] == f"Crash {n}"

    def test_what_is_selected_can_be_paged(self):
        texts = followed(ISSUES, select="issues[].title", start=0)
        assert [title for text in texts for title in json.loads(f"[{text}]")] == [item["title"] for item in ITEMS]

    def test_what_is_selected_can_be_searched(self):
        shown = asked(select="issues[?open].title", find="Crash 39")
        assert shown.blocks[0] == '5 places of "Crash 39"; all follow'

    def test_text_has_nothing_to_select(self):
        assert "use find, or start and count" in refused(LINES, select="a")

    def test_what_is_malformed_is_refused(self):
        assert "from read_result: select" in refused(select="issues[")


class TestFind:
    def test_each_place_has_its_item(self):
        shown = asked(find="Crash 398")
        assert shown.blocks[0] == '1 place of "Crash 398"; all follow'
        assert shown.blocks[1] == f"[{HANDLE} item 398]\n{json.dumps(ITEMS[398])}"

    def test_each_place_has_its_line_and_some_around(self):
        shown = asked(LINES, find="request 1500 ")
        label, *lines = shown.blocks[1].splitlines()
        assert label == f"[{HANDLE} line 1500]"
        assert {"INFO request 1499 took 1499 ms", "INFO request 1500 took 1500 ms"} <= set(lines)
        assert set(lines) < set(LOG.splitlines())

    def test_small_letters_match_any_case(self):
        assert asked(LINES, find="info request 7 ").blocks[0] == '1 place of "info request 7 " in any case; all follow'

    def test_capitals_match_themselves_first(self):
        whole = Whole.of("Error\nerror\nerror\n" + LOG)
        assert asked(whole, find="Error").blocks[0].startswith('1 place of "Error"; ')
        assert asked(whole, find="ERROR").blocks[0].startswith('3 places of "ERROR" in any case; ')

    def test_the_places_that_do_not_fit_follow_by_another_call(self):
        call: dict[str, Any] | None = {"find": "INFO"}
        seen = list[str]()
        while call is not None:
            shown = asked(LINES, **call)
            seen += [line for line in shown.blocks[1].splitlines() if HANDLE not in line]
            call = next_call(shown)
        assert set(seen) == set(LOG.splitlines())

    def test_start_and_count_choose_places(self):
        shown = asked(LINES, find="took", start=-1)
        assert f"[{HANDLE} line 2999]" in shown.blocks[1]
        assert "there are 3,000 places" in refused(LINES, find="took", start=3_000)
        assert "those from 5 to 5 follow" in asked(LINES, find="took", start=5, count=1).blocks[0]

    def test_json_is_searched_as_it_is_written_and_as_it_reads(self):
        value = [{"a": 'say "hi"'}, {"a": "café"}, {"a": "line\nend"}]
        for ensure_ascii in (True, False):
            whole = Whole.of(json.dumps(value, ensure_ascii=ensure_ascii))
            found = [asked(whole, find=find).blocks[0][:8] for find in ('say "hi"', "café", "line\nend", '\\"hi\\"')]
            assert found == ["1 place "] * 4

    def test_what_is_not_there_is_said(self):
        assert asked(find="nowhere").blocks == (
            '0 places of "nowhere" in any case: it is not there, or is written otherwise',
        )

    def test_a_place_in_a_long_line_has_words_around(self):
        whole = Whole.of("longer " * 5_000 + "needle " + "longer " * 5_000)
        shown = asked(whole, find="needle")
        assert re.search(r"(longer ){20,}needle (longer ){20,}", shown.blocks[1])

    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_few_places_in_a_text_have_an_eighth_of_the_budget_each(self, n):
        shown = asked(Whole.of(("longer " * 9_000 + "needle ") * n + "longer " * 9_000), 4_000, find="needle")
        assert shown.blocks[0].endswith("; all follow")
        assert 0.9 < shown.n_tokens / (n * 500) < 1.05

    def test_no_place_is_missed_between_two_steps(self):
        text = "x" * ((1 << 18) - 3) + "needle" + "x" * (1 << 18) + "needle"
        assert asked(Whole.of(text), find="needle").blocks[0].startswith("2 places")

    def test_a_text_that_is_everywhere_is_counted_to_a_bound(self):
        assert asked(Whole.of("a" * 100_000), find="a").blocks[0].startswith("10,000 places or more of")

    def test_a_text_is_literal(self):
        assert asked(Whole.of("a.c abc"), find="a.c").blocks[0].startswith("1 place")


# -- what is shown and what is read give the whole back ----------------------------------------------------------------

_PIECES = ["a", "word ", "\n", "\r\n", "é", "e\u0301", "👩‍👩‍👧", "🇩🇪", "\ud83d", "\ude00", "\u2028", "中文", "\t", '"',
           "\\", "{", "}", "[", "]", ",", ":", "0", "🏽", "\x00", "\ufeff", " ", HANDLE]  # fmt: skip


def given_back(whole: Whole, tokens: int) -> str:
    """Return the head that is shown, and after it what is read by ranges of characters."""
    shown = shortened(whole, tokens, HANDLE)
    assert shown.n_tokens <= tokens
    match = re.match(rf"\[{HANDLE} characters 0 to ([\d,]+)\]\n", shown.blocks[-1])
    assert match is not None
    n = int(match[1].replace(",", ""))
    text = shown.blocks[-1][match.end() : match.end() + n]
    while len(text) < len(whole.text):
        part = asked(whole, tokens, start=len(text), unit="characters").blocks[1]
        assert part
        text += part
    return text


def random_text(chance: random.Random, n_most: int = 150) -> str:
    pieces = chance.choices(_PIECES, k=chance.randint(0, n_most))
    return "".join(piece * (20 if chance.random() < 0.2 else 1) for piece in pieces)


def random_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 4 and kind < 0.35:
        return [random_value(chance, depth + 1) for _ in range(chance.randint(0, 9))]
    if depth < 4 and kind < 0.7:
        names = chance.choices(["id", "title", "issues", "data", random_text(chance, 3)], k=chance.randint(0, 5))
        return {name: random_value(chance, depth + 1) for name in names}
    if kind < 0.9:
        return chance.choice([None, True, chance.randint(-(10**30), 10**30), 1e400, 0.1])
    return chance.choice(["x" * chance.randint(0, 900), random_text(chance, 20)])


@pytest.mark.parametrize("n", [2_000, pytest.param(20_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3_600)])])
def test_random_values_and_texts_are_given_back(n):
    failed = []
    for seed in range(n):
        chance = random.Random(seed)
        indent, ensure_ascii = chance.choice([None, None, 1]), chance.random() < 0.5
        value = json.dumps(random_value(chance), indent=indent, ensure_ascii=ensure_ascii)
        text = chance.choice([random_text(chance), value, value, f"Here:\n{value}"])
        if given_back(Whole.of(text), chance.choice([200, 300, 500])) != text:
            failed.append(seed)
    assert failed == []


@given(st.text(st.characters(codec=None), max_size=2_000) | st.text("ab\n\r\u0301\u200d", max_size=2_000))
def test_any_text_is_given_back(text):
    assert given_back(Whole.of(text), 200) == text


@given(st.lists(st.text(st.characters(codec=None)) | st.integers() | st.dictionaries(st.text(max_size=3), st.text())))
def test_any_items_are_given_back(items):
    whole = Whole.of(json.dumps(items))
    assert given_back(whole, 200) == whole.text
    if items:
        assert units_of(whole).name == "items"
        spans = [units_of(whole).span(i) for i in range(len(items))]
        assert [json.loads(whole.text[start:end]) for start, end in spans] == items
