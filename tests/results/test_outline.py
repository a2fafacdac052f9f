"""What JSON is like, and where its items are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_utilities.results.outline import outline_of

ITEMS = [{"number": i, "title": f"title {i}"} for i in range(100)]


class TestOutline:
    def test_items_are_those_of_the_array_that_has_most_of_it(self):
        values: dict[str, tuple[Any, tuple[str, ...] | None]] = {
            "at once": (ITEMS, ()),
            "under a key": ({"total": 100, "issues": ITEMS, "next": "x"}, ("issues",)),
            "deeper": (
                {"data": {"repository": {"issues": {"nodes": ITEMS}}}},
                ("data", "repository", "issues", "nodes"),
            ),
            "the larger": ({"a": ITEMS[:50], "b": ITEMS}, ("b",)),
            "beside a text that is larger": ({"text": "x" * 50_000, "tags": ["a", "b"]}, None),
            "none": ({"a": 1}, None),
            "empty": ([], None),
        }
        outlines = {name: outline_of(json.dumps(value), 0) for name, (value, _) in values.items()}
        paths = {name: each.items.path if each and each.items else None for name, each in outlines.items()}
        assert paths == {name: path for name, (_, path) in values.items()}

    @pytest.mark.parametrize("indent", [None, 1])
    def test_the_place_of_every_item_is_known(self, indent):
        values = [*range(3_000), *ITEMS, "a]b", [[1], 2], *(f"text {i}" for i in range(3_000)), {"x": "y" * 5_000}]
        form = json.dumps({"a": 1, "items": values}, indent=indent)
        outline = outline_of(form, 0)
        assert outline is not None
        assert outline.items is not None
        spans = [outline.items.span(i) for i in range(len(values))]
        assert [json.loads(form[start:end]) for start, end in spans] == values
        befores = [outline.items.n_before(end) for _, end in spans[::97]]
        assert befores == [i + 1 for i in range(len(values))][::97]
        assert [outline.items.n_before(end - 1) for _, end in spans[::97]] == list(range(len(values)))[::97]

    def test_a_sample_is_small_and_spread(self):
        outline = outline_of(json.dumps({"a": list(range(100_000)), "b": {str(i): [i] for i in range(9_000)}}), 0)
        assert outline is not None
        sample = outline.sample
        assert sample["a"].n == 100_000
        assert 32 <= len(sample["a"]) <= 64
        assert max(sample["a"]) > 90_000
        assert sum(each is not None for each in sample["b"].values()) <= 64
        assert len(sample["b"]) == 9_000

    def test_ten_megabytes_of_one_key_are_read(self):
        outline = outline_of(json.dumps({"k" * 10_000_000: 1}), 0)
        assert outline is not None
        assert list(map(len, outline.sample)) == [10_000_000]
