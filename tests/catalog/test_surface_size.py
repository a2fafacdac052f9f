"""The warning of a large surface: when it is given, and what it says would cut it."""

from __future__ import annotations

import re

from agent_utilities.catalog.context import (
    MANY_TOKENS,
    MANY_TOOLS,
    ListedTool,
    open_warning,
    surface_warning,
)


def tools(n: int, *tags: str, tokens: int = 10, read_only: bool = False) -> list[ListedTool]:
    return [ListedTool(frozenset(tags), read_only, tokens)] * n


def warning(listed: list[ListedTool], *, can_defer: bool = True, defers: bool = False) -> str | None:
    return surface_warning(listed, can_defer=can_defer, defers=defers)


class TestWhen:
    def test_nothing_is_said_up_to_the_limits(self):
        for listed in [[], tools(MANY_TOOLS), tools(2, tokens=MANY_TOKENS // 2)]:
            assert warning(listed) is None

    def test_it_is_said_past_either(self):
        for listed in [tools(MANY_TOOLS + 1), tools(1, tokens=MANY_TOKENS + 1)]:
            assert warning(listed) is not None


class TestWhatItSays:
    def test_is_one_line_with_each_cut_and_what_it_leaves(self):
        listed = [*tools(30, "git", tokens=200), *tools(20, "files", tokens=100, read_only=True)]
        assert warning(listed) == (
            "a large surface: 50 tools, about 8,000 tokens in every prompt; --tool-search on defers all but --pin, "
            "--toolsets git leaves 30 (6,000 tokens), --read-only leaves 20 (2,000 tokens)"
        )

    def test_names_no_toolset_that_all_tools_are_in(self):
        assert "--toolsets" not in (warning(tools(50, "all")) or "")

    def test_names_the_dearest_toolset_and_not_the_one_with_most_tools(self):
        listed = [*tools(40, "cheap"), *tools(5, "dear", tokens=1000)]
        assert "--toolsets dear leaves 5 " in (warning(listed) or "")

    def test_is_the_same_whatever_order_equal_toolsets_came_in(self):
        assert "--toolsets a leaves" in (warning([*tools(25, "b"), *tools(25, "a")]) or "")

    def test_offers_no_read_only_that_would_cut_nothing_or_everything(self):
        for read_only in [True, False]:
            assert "--read-only" not in (warning(tools(50, read_only=read_only)) or "")

    def test_offers_no_tool_search_that_cannot_be(self):
        assert "--tool-search" not in (warning(tools(50), can_defer=False) or "")

    def test_offers_fewer_pins_where_tools_are_deferred(self):
        told = warning(tools(50), defers=True) or ""
        assert told.endswith("; fewer --pin would cut it")

    def test_is_said_though_nothing_would_cut_it(self):
        assert (warning(tools(50), can_defer=False) or "").endswith("in every prompt")


class TestWhatAnybodyMayRead:
    def test_holds_no_number_but_the_limits(self):
        for defers in [True, False]:
            assert re.findall(r"[\d,]*\d", open_warning(defers=defers)) == [str(MANY_TOOLS), f"{MANY_TOKENS:,}"]
