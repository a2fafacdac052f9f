"""The entry tools cost little, and say how deferred tools are reached."""

from __future__ import annotations

from agent_utilities.catalog.context import n_tokens
from agent_utilities.search.entry_tools import (
    CALL_TOOL_DESCRIPTION,
    CALL_TOOL_SCHEMA,
    MAX_RESULTS,
    MAX_TOKENS,
    TOOL_SEARCH_DESCRIPTION,
    TOOL_SEARCH_SCHEMA,
)

MOST_TOKENS = 450


def longest_text() -> str:
    """Return as long a text as `deferred_text` may."""
    text = ""
    while n_tokens(f"{text}x") <= MAX_TOKENS:
        text += "x"
    return text


def test_both_tools_with_the_longest_text_take_at_most_450_tokens() -> None:
    description = f"{TOOL_SEARCH_DESCRIPTION} {longest_text()}"
    search = {"name": "tool_search", "description": description, "inputSchema": TOOL_SEARCH_SCHEMA}
    call = {"name": "call_tool", "description": CALL_TOOL_DESCRIPTION, "inputSchema": CALL_TOOL_SCHEMA}
    assert n_tokens(search) + n_tokens(call) <= MOST_TOKENS


def test_a_model_learns_both_ways_to_search_and_both_ways_to_call() -> None:
    said = ("words", "select:", "call it directly", "through call_tool")
    assert [word for word in said if word not in TOOL_SEARCH_DESCRIPTION] == []


def test_a_search_needs_words_and_a_call_a_name_and_nothing_else() -> None:
    required = [schema["required"] for schema in (TOOL_SEARCH_SCHEMA, CALL_TOOL_SCHEMA)]
    parameters = [list(schema["properties"]) for schema in (TOOL_SEARCH_SCHEMA, CALL_TOOL_SCHEMA)]
    assert required == [["query"], ["name"]]
    assert parameters == [["query", "max_results", "server"], ["name", "arguments"]]


def test_a_search_names_one_to_25_tools() -> None:
    results = TOOL_SEARCH_SCHEMA["properties"]["max_results"]
    assert (results["minimum"], results["maximum"]) == (1, MAX_RESULTS) == (1, 25)
