"""What a result costs, and the whole of it."""

from __future__ import annotations

import base64
import json
import re
import struct
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from agent_utilities.catalog.context import n_tokens
from agent_utilities.results import content
from agent_utilities.results.content import (
    Whole,
    bytes_in,
    bytes_of,
    counted,
    tokens_of,
    whole_of,
    written,
)
from agent_utilities.results.outline import NO_VALUE, outline_of

ITEMS = [{"number": i, "title": f"title {i}"} for i in range(100)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=60,
)


def text(*texts: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": each} for each in texts]}


def image(header: bytes, n_more: int = 4_000) -> dict[str, Any]:
    data = base64.b64encode(header + bytes(n_more)).decode()
    return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}


class TestTokens:
    @pytest.mark.parametrize("each", ["", "abc", "é" * 50, "中文", "👩‍👩‍👧", "\ud800", "x" * 10_000])
    def test_a_text_costs_what_it_does_in_a_list(self, each):
        assert tokens_of(text(each)) == n_tokens(each)

    def test_texts_are_joined_by_line_ends(self):
        assert tokens_of(text("a" * 19, "b" * 18)) == 10

    def test_of_text_and_structured_content_the_larger_counts(self):
        both = {**text("short"), "structuredContent": {"result": ITEMS}}
        assert tokens_of(both) == n_tokens(json.dumps({"result": ITEMS}, separators=(",", ":")))
        assert tokens_of({**text("x" * 5_000), "structuredContent": {"a": 1}}) == n_tokens("x" * 5_000)

    def test_structured_content_that_no_encoder_takes_is_counted(self):
        odd = [{"a": "\ud800"}, {"a": float("nan")}, {"a": float("inf")}, {"a": 10**5_000}, {"a": {1, 2}}, {1: 2}]
        assert [each for each in odd if tokens_of({"content": [], "structuredContent": each}) == 0] == []

    def test_an_image_costs_what_its_pixels_do(self):
        jpeg = b"\xff\xd8\xff\xe1" + struct.pack(">H", 2_002) + bytes(2_000)
        jpeg += b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 300, 500)
        headers = {"png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 500, 300), "jpeg": jpeg}
        assert {name: tokens_of(image(header)) for name, header in headers.items()} == dict.fromkeys(headers, 200)

    def test_a_large_image_costs_no_more_than_hosts_scale_it_to(self):
        assert tokens_of(image(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 9_000, 9_000))) == 1_600

    def test_an_image_of_unknown_size_costs_the_most(self):
        jpegs = [b"\xff\xd8", b"\xff\xd8\xff\xe1\xff\xff", b"\xff\xd8" + b"\xff\xe1\0\0" * 1_000]
        headers = [b"", b"BM", b"\x89PNG", b"RIFF\0\0\0\0WEBPVP8X", b"GIF89a", *jpegs]
        assert [header for header in headers if tokens_of(image(header, 0)) != 1_600] == []
        assert tokens_of({"content": [{"type": "image", "data": "%%% no base64"}]}) == 1_600

    def test_sounds_and_files_cost_their_length_in_base64(self):
        sound = {"type": "audio", "data": "A" * 3_800, "mimeType": "audio/wav"}
        file = {"type": "resource", "resource": {"uri": "a:b", "blob": "A" * 3_800}}
        assert tokens_of({"content": [sound]}) == tokens_of({"content": [file]}) == 1_000

    def test_an_embedded_text_is_text_and_a_link_is_json(self):
        link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
        assert tokens_of({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "x" * 380}}]}) == 100
        assert tokens_of({"content": [link]}) == n_tokens(json.dumps(link, separators=(",", ":")))

    def test_what_is_malformed_raises_nothing(self):
        contents: list[Any] = [None, "text", 3, [None], ["a"], [{}], [{"type": "text"}], [{"type": "text", "text": 3}],
                               [{"type": "resource", "resource": None}], [{"type": "image", "data": None}]]  # fmt: skip
        assert [each for each in contents if tokens_of({"content": each}) > 20] == []
        assert tokens_of({}) == 0

    @pytest.mark.anyio
    async def test_what_is_long_is_counted_off_the_event_loop(self, monkeypatch):
        threads = list[bool]()
        monkeypatch.setattr(
            content, "tokens_of", lambda *_, **__: threads.append(threading.current_thread() is threading.main_thread())
        )
        long = {"a": [{"b": ITEMS * 200}]}
        for result in (text("x" * 300_000), {**text("There are many."), "structuredContent": long},
                       {**text('{"ok":true}'), "structuredContent": long}):  # fmt: skip
            await counted(result)
        await counted({**text(json.dumps(ITEMS)), "structuredContent": {"result": ITEMS}})
        assert threads == [False, False, False, True]

    def test_json_is_not_counted_where_text_alone_is_over(self):
        both = {**text("x" * 3_800), "structuredContent": {"result": ITEMS * 9}}
        assert (tokens_of(both, 999), tokens_of(both, 1_000)) == (1_000, tokens_of(both))

    @given(st.integers(0, 100_000))
    def test_the_most_bytes_of_so_many_tokens_count_as_no_more(self, tokens):
        assert n_tokens("x" * bytes_in(tokens)) <= tokens


class TestWhole:
    def test_texts_and_embedded_texts_are_joined_by_line_ends(self):
        embedded = {"type": "resource", "resource": {"uri": "a:b", "text": "two"}}
        assert whole_of({"content": [{"type": "text", "text": "one"}, embedded]}).text == "one\ntwo"

    def test_json_in_text_stays_as_it_was_written(self):
        odd = '{ "a": 1.50, "a": [1e400,  "\\u00e9"] }\n'
        assert whole_of(text(odd)).text == odd

    def test_structured_content_that_repeats_the_text_adds_nothing(self):
        pretty = json.dumps(ITEMS, indent=2)
        results = {
            "a text": {**text("line\n" * 50), "structuredContent": {"result": "line\n" * 50}},
            "json": {**text(json.dumps(ITEMS)), "structuredContent": {"result": ITEMS}},
            "pretty json": {**text(pretty), "structuredContent": {"result": ITEMS}},
        }
        assert [name for name, each in results.items() if whole_of(each).text != each["content"][0]["text"]] == []

    def test_json_that_is_as_long_and_says_something_else_loses_nothing(self):
        structured = {"issues": ITEMS, "total": 100}
        others = [{"issues": ITEMS, "total": 101}, {"issues": ITEMS[:-1], "total": 1000},
                  {"issues": ITEMS, "totals": 100},
                  {"issues": ITEMS[1:] + ITEMS[:1], "total": 100}, {**structured, "more": 1}, {"result": structured},
                  ITEMS, [*ITEMS, 1], {"issues": [*ITEMS, {}], "total": 100}]  # fmt: skip
        for other in others:
            whole = whole_of({**text(json.dumps(other)), "structuredContent": structured})
            assert whole.text == f"{json.dumps(other)}\n{written(structured)}"
            assert whole.value == structured

    def test_texts_that_are_no_items_are_kept_beside_them(self):
        whole = whole_of({**text("one", "two"), "structuredContent": {"result": ["1", "2"]}})
        assert whole.text == 'one\ntwo\n{"result":["1","2"]}'

    @given(JSON, st.sampled_from([None, 2]), st.booleans())
    def test_json_of_every_shape_is_known_for_a_copy(self, value, indent, is_inner):
        value = [value] if is_inner else {"a": value}
        form = json.dumps(value, indent=indent)
        whole = whole_of({**text(form), "structuredContent": {"result": value} if is_inner else value})
        assert (whole.text, whole.outline) == (form, outline_of(form, 0, value))

    def test_structured_content_alone_is_shown_as_json(self):
        whole = whole_of({"content": [], "structuredContent": {"result": ITEMS}})
        assert json.loads(whole.text) == {"result": ITEMS} == whole.value

    def test_structured_content_stands_for_texts_that_are_its_items(self):
        whole = whole_of({**text(*map(json.dumps, ITEMS)), "structuredContent": {"result": ITEMS}})
        assert whole.text == written({"result": ITEMS})

    def test_a_text_beside_structured_content_comes_first_and_whole(self):
        whole = whole_of({**text("There are 100."), "structuredContent": {"issues": ITEMS}})
        assert whole.text == f"There are 100.\n{written({'issues': ITEMS})}"
        assert whole.value == {"issues": ITEMS}

    def test_a_longer_text_beside_structured_content_is_kept_too(self):
        whole = whole_of({**text("word " * 9_000), "structuredContent": {"issues": ITEMS}})
        assert whole.text.startswith("word " * 9_000)
        assert whole.value == {"issues": ITEMS}

    def test_images_and_a_few_links_are_media(self):
        link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
        blocks = [*image(b"")["content"], link]
        whole = whole_of({"content": [*blocks, {"type": "text", "text": "a"}]})
        assert (list(whole.media), whole.text) == (blocks, "a")

    def test_many_links_are_lines(self):
        links = [{"type": "resource_link", "uri": f"file:///{i}", "name": f"{i}"} for i in range(100)]
        whole = whole_of({"content": links})
        assert [json.loads(line) for line in whole.text.splitlines()] == links
        assert whole.media == ()

    def test_it_costs_what_its_text_and_its_media_do(self):
        result = {"content": [*text("x" * 380)["content"], *image(b"")["content"]]}
        assert whole_of(result).tokens == tokens_of(result) == 1_700

    @pytest.mark.parametrize("each", ["", "a\nb", "\ud800 é", json.dumps(ITEMS), "\ufeff{}"])
    def test_it_comes_back_as_it_was_kept(self, each):
        whole = whole_of({**text(each), "structuredContent": {"a": "\ud83d"}, "content": image(b"")["content"]})
        assert Whole.from_bytes(whole.to_bytes()) == whole
        assert Whole.from_bytes(Whole.of(each).to_bytes()) == Whole.of(each)


class TestValue:
    def test_json_is_found_at_the_beginning_and_after_a_few_words(self):
        of_it = json.dumps({"a": ITEMS}, indent=1)
        forms = [of_it, f"\ufeff{of_it}", f" \n{of_it}\n", f"Found 100:\n{of_it}", f"Found:\n```json\n{of_it}\n```\n"]
        assert [form for form in forms if Whole.of(form).value != {"a": ITEMS}] == []

    def test_text_is_no_value(self):
        forms = ["", "a", "3", '"a"', "null", "{", "[1,", "[1,]", '{"a":1,}', "[1 2]", "[1]]", "{} {}", "[1]\n[2]",
                 "[,1]", "[INFO] started", "{a: 1}", '{"a" 1}', "{1: 2}", '["\n"]', "a\n[x]", "[" * 100_000,
                 '{"a":' * 100_000, "[" + "1" * 5_000 + "]", "[tru]", "[\x0b1]", "[1,\u00a02]"]  # fmt: skip
        assert [form[:20] for form in forms if Whole.of(form).value is not NO_VALUE] == []

    def test_what_json_does_not_have_and_python_reads_is_read(self):
        value = Whole.of('{"a": NaN, "b": Infinity, "c": 1e400, "d": "\\ud800", "e": 1, "e": 2}').value
        assert {key: str(each) for key, each in value.items()} == {
            "a": "nan", "b": "inf", "c": "inf", "d": "\ud800", "e": "2"}  # fmt: skip

    def test_its_types_are_the_plain_ones(self):
        value = Whole.of(json.dumps({"a": {"b": ITEMS}})).value
        assert [type(value), type(value["a"]), type(value["a"]["b"])] == [dict, dict, list]

    @given(
        JSON,
        st.sampled_from([None, 0, 2]),
        st.booleans(),
    )
    def test_it_is_what_pythons_parser_gives(self, value, indent, ensure_ascii):
        form = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
        assert Whole.of(form).value == (value if isinstance(value, dict | list) else NO_VALUE)

    def test_a_long_array_of_short_items_is_what_pythons_parser_gives(self):
        values = [
            *range(5_000),
            "a,b",
            'q"',
            "]",
            [1],
            {},
            *("x" * (i % 300) for i in range(5_000)),
            True,
            None,
            -1.5e3,
        ]
        for separators in ((",", ":"), (", ", ": "), (" ,\n", ":")):
            assert Whole.of(json.dumps(values, separators=separators)).value == values


class TestWritten:
    def test_a_lone_surrogate_is_escaped(self):
        assert written({"a": "\ud800é"}) == '{"a":"\\ud800é"}'

    def test_it_is_compact_json(self):
        values = [ITEMS, {"a": ITEMS}, list(range(2_000)), {str(i): [i] for i in range(2_000)}, [], {}, "é", None, 1.5]
        assert [
            each for each in values if written(each) != json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        ] == []

    def test_what_is_nested_too_deeply_is_null_and_no_more_than_that(self):
        deep: list[Any] = []
        for _ in range(sys.getrecursionlimit() * 20):
            deep = [deep]
        form = written({"a": ITEMS, "deep": [1, deep]})
        assert json.loads(form)["a"] == ITEMS
        assert re.search(r'"deep":\[1,\[*null\]+}$', form)

    def test_what_is_long_is_written_by_small_steps(self, monkeypatch):
        lengths = list[int]()

        def noted(value: Any, **options: Any) -> bytes:
            text = to_json(value, **options)
            lengths.append(len(text))
            return text

        monkeypatch.setattr(content, "to_json", noted)
        values = [
            ITEMS * 2_000,
            {str(i): ITEMS for i in range(2_000)},
            {"a": {"b": [ITEMS * 50] * 20}},
            ["x" * 99] * 99_999,
        ]
        for value in values:
            assert json.loads(written(value)) == value
        assert max(lengths) < 500_000

    def test_its_bytes_are_those_of_utf_8(self):
        assert [bytes_of(each) for each in ("", "a", "é", "中", "👩", "\ud800")] == [0, 1, 2, 3, 4, 3]
