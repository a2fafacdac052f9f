"""The context report: what of a server is in an agent's prompt, and what it costs there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.context import (
    ACTIVE,
    ATTACHED,
    DEFERRED,
    ENTRY_TOOLS,
    INSTRUCTIONS,
    LISTED,
    PINS,
    SECTIONS,
    ContextReport,
    context_report,
    n_tokens,
)

OF_TOOLS = [section for section in SECTIONS if section != INSTRUCTIONS]


def tool(name: str, description: str = "Does it.") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, "outputSchema": {"a": 1}}


def deferring(**options: Any) -> ContextReport:
    shown = [
        (ENTRY_TOOLS, "hub", tool("tool_search")),
        (ENTRY_TOOLS, "hub", tool("call_tool")),
        (PINS, "git", tool("git_status")),
        (ATTACHED, "git", tool("git_log")),
        (ATTACHED, "files", tool("read_file")),
        (ACTIVE, "files", tool("write_file")),
        (ACTIVE, "git", tool("git_push")),
        (DEFERRED, "git", tool("git_blame")),
        (DEFERRED, "git", tool("git_show")),
    ]
    return context_report(shown, "Ask before you push.", server="hub", max_active=24, **options)


class TestRows:
    def test_stand_section_by_section_and_the_dearest_server_first(self):
        shown = [
            (DEFERRED, "a", tool("x")),
            (LISTED, "cheap", tool("y")),
            (LISTED, "dear", tool("z", "A long description." * 9)),
        ]
        report = context_report(shown, "Hello.", server="hub")
        named = [(row.section, row.server) for row in report.rows]
        assert named == [(LISTED, "dear"), (LISTED, "cheap"), (INSTRUCTIONS, "hub"), (DEFERRED, "a")]

    def test_count_the_tools_of_a_server_in_a_section_together(self):
        row = next(row for row in deferring().rows if row.section == DEFERRED)
        assert (row.server, row.n_tools, row.tokens) == (
            "git",
            2,
            n_tokens(tool("git_blame")) + n_tokens(tool("git_show")),
        )

    def test_count_what_a_model_is_shown_and_no_more(self):
        (row,) = context_report([(LISTED, "a", tool("x"))], "").rows
        assert row.tokens == n_tokens({key: value for key, value in tool("x").items() if key != "outputSchema"})

    def test_refuse_a_section_that_there_is_not(self):
        with pytest.raises(ValueError, match="not in tuple"):
            context_report([("hidden", "a", tool("x"))], "")

    @given(
        st.lists(st.tuples(st.sampled_from(OF_TOOLS), st.sampled_from("abc"), st.text(max_size=40).map(tool))),
        st.text(max_size=40),
    )
    def test_sum_to_what_each_shown_tool_and_the_instructions_cost(self, shown, instructions):
        report = context_report(shown, instructions)
        in_prompt = sum(n_tokens(definition) for section, _, definition in shown if section != DEFERRED)
        assert report.total == sum(row.tokens for row in report.rows if row.section != DEFERRED)
        assert report.total == in_prompt + n_tokens(instructions)
        assert sum(row.n_tools for row in report.rows) == len(shown)

    @given(st.lists(st.tuples(st.sampled_from(OF_TOOLS), st.sampled_from("abc"), st.text(max_size=40).map(tool))))
    def test_of_all_tools_but_the_entry_tools_are_what_no_deferral_would_cost(self, shown):
        report = context_report(shown, "Hi.")
        everything = sum(n_tokens(definition) for section, _, definition in shown if section != ENTRY_TOOLS)
        assert report.undeferred_tokens == everything + n_tokens("Hi.")


class TestWhatWouldBeToldUndeferred:
    def test_counts_in_place_of_what_is_told_while_tools_are_deferred(self):
        report = context_report([], "Long: how to search the tools.", undeferred_instructions="Hi.")
        assert (report.total, report.undeferred_tokens) == (n_tokens("Long: how to search the tools."), n_tokens("Hi."))


class TestLines:
    def test_tell_what_is_attached_and_active(self):
        assert deferring().line == "2 of 7 attached, 2 of 24 active"
        assert deferring().active_line == "MCP active: 2/24 (write_file, git_push)"

    def test_tell_no_cap_where_there_is_none(self):
        report = context_report([(ENTRY_TOOLS, "a", tool("s")), (ACTIVE, "a", tool("x"))], "", max_active=0)
        assert (report.line, report.active_line) == ("0 of 1 attached, 1 active", "MCP active: 1 (x)")

    def test_name_none_where_none_is_active(self):
        report = context_report([(ENTRY_TOOLS, "a", tool("s")), (DEFERRED, "a", tool("x"))], "", max_active=24)
        assert report.active_line == "MCP active: 0/24"

    def test_tell_what_is_listed_where_no_tool_is_searched_for(self):
        report = context_report([(LISTED, "a", tool("x")), (DEFERRED, "a", tool("y"))], "")
        assert (report.line, report.active_line) == ("1 of 2 listed", "MCP active: no tool search")


class TestCounting:
    def test_is_by_what_is_given_and_named(self):
        report = deferring(count=lambda shown: 1, tokenizer="ones")
        assert (report.total, report.undeferred_tokens, report.tokenizer) == (8, 8, "ones")


class TestAsDict:
    def test_tells_all_of_it(self):
        told = context_report([(LISTED, "a", tool("x"))], "", count=lambda shown: 7, tokenizer="sevens").as_dict()
        assert told == {
            "line": "1 of 1 listed",
            "active_line": "MCP active: no tool search",
            "total": 7,
            "undeferred_tokens": 7,
            "tokenizer": "sevens",
            "n_permitted": 1,
            "n_attached": 0,
            "n_active": 0,
            "max_active": 0,
            "n_evicted": 0,
            "active": [],
            "rows": [{"section": "listed", "server": "a", "n_tools": 1, "tokens": 7}],
        }
