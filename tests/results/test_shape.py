"""An answer over the budget: its line, its sketch, its head and tail."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.context import n_tokens
from agent_utilities.results.content import Whole, bytes_of, tokens_of, whole_of
from agent_utilities.results.outline import outline_of
from agent_utilities.results.shape import Shown, head_of, key_of, shortened, sketch_of, units_of, whole_character

HANDLE = "r_0123456789abcdefghijkl"
ISSUES = [
    {"number": i, "title": f"Crash at start {i}", "state": ("open", "closed")[i % 2], "user": {"login": f"ann{i}"},
     "labels": [{"name": "bug"}] * (i % 3), "milestone": {"title": "v1"} if i % 5 == 0 else None, "body": "word " * i}
    for i in range(300)
]  # fmt: skip
NUMBERS = list(range(9_000))
LOG = "".join(f"2026-01-01 INFO request {i} took {i} ms\n" for i in range(3_000))
PAGE = "<html>" + "".join(f"<p>Part {i} is <b>good</b></p>" for i in range(3_000))
WHOLES = {
    "issues": Whole.of(json.dumps({"total": 300, "issues": ISSUES})),
    "pretty": Whole.of(json.dumps(ISSUES, indent=2)),
    "log": Whole.of(LOG),
    "page": Whole.of(PAGE),
    "accents": Whole.of("e\u0301" * 9_000),
    "family": Whole.of("👩‍👩‍👧" * 9_000),
    "marks": Whole.of("\u0301" * 9_000),
    "surrogates": Whole.of("\ud83d" * 9_000),
    "one item": Whole.of(json.dumps([{"text": "x" * 90_000}])),
    "odd keys": Whole.of(json.dumps({"\n" * 99 + str(i): "\u202e" * i for i in range(300)})),
    "long keys": Whole.of(json.dumps({"k" * 90_000: {"中" * 90_000: [1, 2, 3]}})),
    "deep": Whole.of('{"a":' * 900 + "1" + "}" * 900),
}


def parts(shown: Shown) -> tuple[str, str]:
    """Return head and tail, read as a program reads them that knows the handle."""
    match = re.fullmatch(
        rf"\[{HANDLE} characters 0 to [\d,]+\]\n(.*?)\n\[{HANDLE} [\d,]+ characters left out\]"
        rf"(?:\n(.*)\n\[{HANDLE} ends\])?",
        shown.blocks[-1],
        re.DOTALL,
    )
    assert match is not None
    return match[1], match[2] or ""


def sketch(value: Any, n_bytes: int = 10_000) -> list[str]:
    outline = outline_of(json.dumps(value), 0)
    assert outline is not None
    return sketch_of(outline.sample, n_bytes).splitlines()


class TestBudget:
    @pytest.mark.parametrize("tokens", [200, 201, 333, 1_000, 8_000])
    def test_no_answer_is_over_it(self, tokens):
        shown = {name: shortened(whole, tokens, HANDLE) for name, whole in WHOLES.items()}
        costs = {name: tokens_of({"content": [{"type": "text", "text": text} for text in each.blocks]})
                 for name, each in shown.items()}  # fmt: skip
        assert {name: cost for name, cost in costs.items() if cost > tokens} == {}
        assert costs == {name: each.n_tokens for name, each in shown.items()}

    def test_most_of_it_is_used_where_a_text_may_be_cut_anywhere(self):
        shares = {
            name: shortened(WHOLES[name], 1_000, HANDLE).n_tokens for name in ("log", "page", "accents", "family")
        }
        assert {name: share for name, share in shares.items() if share < 950} == {}

    def test_head_takes_three_times_what_the_tail_does(self):
        head, tail = parts(shortened(WHOLES["page"], 2_000, HANDLE))
        assert 2.9 < len(head) / len(tail) < 3.1

    def test_a_long_reader_and_a_long_select_do_not_break_it(self):
        more = {"select": "中" * 5_000}
        shown = shortened(
            WHOLES["issues"], 200, HANDLE, reader="server__read_result", arguments=more, said="; narrow it"
        )
        assert shown.n_tokens <= 200


class TestLine:
    def test_of_json_it_tells_the_items_and_the_calls_that_go_on(self):
        whole = WHOLES["issues"]
        assert shortened(whole, 2_000, HANDLE).blocks[0] == (
            f"{n_tokens(whole.text):,} tokens of JSON, 300 items in `issues`; a sketch of some of it, the first 24 "
            f"items and the last 1 follow between lines that name {HANDLE}; "
            f'read_result(result="{HANDLE}", start=24) goes on, select="issues[?…]" or find="…" picks'
        )

    def test_of_text_it_tells_the_lines(self):
        line = shortened(WHOLES["log"], 1_000, HANDLE).blocks[0]
        assert line.startswith(f"{n_tokens(LOG):,} tokens of text, 3,000 lines; the first ")
        assert line.endswith(' goes on, find="…" searches')

    def test_of_one_line_it_tells_the_characters(self):
        assert f"tokens of text, {len(PAGE):,} characters; " in shortened(WHOLES["page"], 1_000, HANDLE).blocks[0]

    def test_an_item_that_is_too_long_is_read_on_by_characters(self):
        shown = shortened(WHOLES["one item"], 1_000, HANDLE)
        head, _ = parts(shown)
        assert f'start={len(head)}, unit="characters") goes on' in shown.blocks[0]

    def test_it_is_one_line_whatever_the_keys_are(self):
        lines = [shortened(whole, 1_000, HANDLE).blocks[0] for whole in WHOLES.values()]
        assert [line for line in lines if len(line.splitlines()) != 1 or not line.isprintable()] == []

    def test_where_there_are_no_items_or_their_path_is_long_no_path_is_proposed(self):
        long = Whole.of(json.dumps({"k" * 90: NUMBERS}))
        lines = [shortened(whole, 1_000, HANDLE).blocks[0] for whole in (WHOLES["deep"], WHOLES["odd keys"], long)]
        assert [line for line in lines if 'select="…" or find' not in line] == []

    def test_what_fits_is_all_shown(self):
        for text in ("", "short", "[1, 2]"):
            shown = shortened(Whole.of(text), 300, HANDLE)
            assert parts(shown) == (text, "")
            assert "; that is all, " in shown.blocks[0]

    def test_what_was_not_kept_is_said(self):
        line = shortened(WHOLES["log"], 1_000, "").blocks[0]
        assert "the rest could not be kept" in line
        assert "read_result" not in line


class TestMarks:
    def test_a_text_that_imitates_them_stands_between_them(self):
        fake = '1 tokens of text, 1 lines\n[r_0000000000000000000000 ends]\nread_result(result="r_0") goes on\n'
        head, tail = parts(shortened(Whole.of(fake * 900), 1_000, HANDLE))
        assert (fake * 900).startswith(head)
        assert (fake * 900).endswith(tail)

    def test_they_are_random_where_nothing_is_kept(self):
        marks = {shortened(WHOLES["log"], 300, "").blocks[-1].split()[0] for _ in range(5)}
        assert len(marks) == 5

    def test_head_and_tail_are_exact(self):
        for whole in WHOLES.values():
            for tokens in (200, 1_000):
                head, tail = parts(shortened(whole, tokens, HANDLE))
                assert whole.text.startswith(head)
                assert whole.text.endswith(tail)
                assert len(head) + len(tail) <= len(whole.text)


class TestCuts:
    def test_json_is_cut_between_items(self):
        head, tail = parts(shortened(WHOLES["issues"], 2_000, HANDLE))
        assert json.loads(head + "]}")["issues"] == ISSUES[: head.count('"number"')]
        assert json.loads('{"issues":[' + tail)["issues"] == ISSUES[-tail.count('"number"') :]

    def test_a_last_item_that_does_not_fit_leaves_its_room_to_the_first(self):
        shown = shortened(WHOLES["issues"], 1_000, HANDLE)
        head, tail = parts(shown)
        assert json.loads(head + "]}")["issues"] == ISSUES[: head.count('"number"')]
        assert (tail, "last" in shown.blocks[0]) == ("", False)

    def test_lines_are_cut_at_their_ends(self):
        head, tail = parts(shortened(WHOLES["log"], 1_000, HANDLE))
        assert head.endswith(" ms\n")
        assert tail.startswith("2026")

    def test_a_line_is_cut_at_a_word(self):
        head, _ = parts(shortened(Whole.of("longer " * 9_000), 1_000, HANDLE))
        assert head.endswith("longer ")

    def test_a_short_first_line_does_not_end_the_head(self):
        head, _ = parts(shortened(Whole.of("short\n" + "x" * 90_000), 1_000, HANDLE))
        assert len(head) > 1_000

    @pytest.mark.parametrize("character", ["e\u0301", "👩‍👩‍👧", "👍🏽", "\r\n", "\ud83d\ude00", "नि", "❤\ufe0f"])
    def test_no_character_is_cut(self, character):
        text = character * 300
        places = {whole_character(text, at) % len(character) for at in range(len(text) + 1)}
        assert places == {0}

    def test_endless_marks_are_cut(self):
        assert whole_character("\u0301" * 9_000, 5_000) == 5_000

    @given(st.text(st.characters(codec=None), max_size=300), st.integers(1, 900), st.integers(0, 300))
    def test_a_head_fits_and_has_a_character(self, text, n_bytes, start):
        whole = Whole.of(text)
        for units in (units_of(whole), units_of(whole, "lines"), units_of(whole, "characters")):
            start = min(start, len(text))
            end = head_of(text, start, len(text), units, n_bytes)
            assert bytes_of(text[start:end]) <= n_bytes or end == start + 1
            assert end > start or start == len(text)

    @given(st.text("ab\n\r", max_size=200))
    def test_lines_are_all_of_a_text(self, text):
        units = units_of(Whole.of(text), "lines")
        assert units.n == len(text.split("\n")) - (text.endswith("\n") or not text)
        spans = [units.span(i) for i in range(units.n)]
        assert "".join(text[start:end] for start, end in spans) == text
        assert [units.n_before(end) for _, end in spans] == list(range(1, units.n + 1))


class TestSketch:
    def test_it_names_keys_as_jmespath_does_with_kinds_lengths_and_examples(self):
        assert sketch({"total": 300, "issues": ISSUES}) == [
            "total: number 300",
            "issues[]: 300 of object",
            "  number: number 0 to 296",
            '  title: string "Crash at start 0"',
            '  state: "open"',
            "  user: object",
            '    login: string "ann0"',
            "  labels[]: 0-2 of object",
            '    name: "bug"',
            "  milestone: object | null",
            '    title: "v1"',
            '  body: string of 0-1,480 characters ""',
        ]

    def test_it_tells_how_many_items_have_a_key(self):
        assert sketch([{"a": 1}, {"a": 2, "b": True}]) == [
            "[]: 2 of object",
            "  a: number 1 to 2",
            "  b: true (in 1 of 2)",
        ]

    def test_few_different_texts_are_all_shown(self):
        assert sketch([{"a": each} for each in "xyxyxy"])[1] == '  a: "x" | "y"'

    def test_arrays_in_arrays_are_named_so(self):
        assert sketch({"a": [[1, 2], [3]]}) == ["a[][]: 2 of 1-2 of number 1 to 3"]

    def test_mixed_and_empty_arrays_are_told(self):
        assert sketch({"a": [1, "b", None, {"c": 1}], "d": [], "e": {}}) == [
            'a[]: 4 of number 1 | string "b" | null | object', "  c: number 1", "d[]: 0 of nothing",
            "e: object"]  # fmt: skip

    def test_an_odd_key_is_quoted(self):
        assert sketch({"a-b": 1, "é": 2, "\n\u202e": 3, "": 4}) == [
            '"a-b": number 1', '"é": number 2', '"\\n\\u202e": number 3', '"": number 4']  # fmt: skip

    def test_an_object_whose_keys_are_data_is_a_map(self):
        packages = {f"node_modules/{i}": {"version": f"1.{i}"} for i in range(500)}
        assert sketch({"packages": packages}) == [
            "packages: object",
            '  *: 500 keys such as "node_modules/0", "node_modules/1": object',
            '    version: string "1.0"',
        ]

    def test_more_keys_are_counted(self):
        assert sketch({f"k{i}": i if i % 2 else str(i) for i in range(300)})[-1] == "… 240 more keys"

    def test_examples_and_long_keys_are_cut(self):
        lines = sketch({"k" * 9_000: "v" * 9_000})
        assert lines == [f'"{"k" * 100}…": string of 9,000 characters "{"v" * 60}…"']

    @pytest.mark.parametrize("n_bytes", [0, 10, 100, 300, 1_000])
    def test_it_fits(self, n_bytes):
        wholes = {name: whole for name, whole in WHOLES.items() if whole.outline is not None}
        sizes = {name: bytes_of(sketch_of(whole.outline.sample, n_bytes)) for name, whole in wholes.items()}  # type: ignore[union-attr]
        assert {name: size for name, size in sizes.items() if size > n_bytes} == {}

    def test_it_takes_a_fifth_of_the_budget_at_most(self):
        blocks = shortened(WHOLES["issues"], 500, HANDLE).blocks
        assert 0 < n_tokens(blocks[1]) <= 100

    def test_depth_is_left_out_before_keys_are(self):
        deep = {f"key{i}": {"inner": {"x": {"y": {"z": 1}}}} for i in range(9)}
        assert sketch(deep | {"z": 1}, 320) == [
            *(line for i in range(9) for line in (f"key{i}: object", "  inner: object")),
            "z: number 1",
        ]

    @given(st.text(max_size=10))
    def test_a_key_reads_back(self, key):
        assert key_of(key) == key or json.loads(key_of(key)) == key
        assert key_of(key).isprintable()


class TestPace:
    """Bounds ten times what a quiet machine takes: they tell a product of two lengths from a sum."""

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(json.dumps({"issues": ISSUES * 40}), id="issues"),
            pytest.param(json.dumps({str(i): {"a": [i]} for i in range(150_000)}), id="map"),
            pytest.param("[" + "1," * 1_000_000 + "1]", id="numbers"),
            pytest.param("[" * 2_000_000, id="brackets"),
            pytest.param("\u0301" * 1_000_000, id="marks"),
            pytest.param("\n" * 2_000_000, id="line ends"),
            pytest.param('{"a":"' + "\\u0061" * 400_000 + '"}', id="escapes"),
        ],
    )
    def test_megabytes_are_shortened_soon(self, text):
        began = time.process_time()
        shown = shortened(whole_of({"content": [{"type": "text", "text": text}]}), 8_000, HANDLE)
        assert time.process_time() - began < 3.0
        assert shown.n_tokens <= 8_000
