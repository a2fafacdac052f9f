"""Entry tools have names that no other tool has, and their texts name them so."""

from __future__ import annotations

import re

from agent_utilities.policy.entry_names import ALIASES, EntryNames, entry_names
from agent_utilities.search.entry_tools import call_definition, search_definition


def test_a_name_that_another_tool_has_is_left_to_it() -> None:
    names = entry_names({"tool_search", "mcp_tool_search", "mcp_load"})
    assert (names.search, names.call) == ("mcp_mcp_tool_search", "call_tool")
    assert names.aliases == {"ToolSearch", "search_tools"}


def test_a_name_means_one_of_them_or_none() -> None:
    names = entry_names({"tool_search"}, denied=["search_tools"])
    meant = {name: names.role(name) for name in ("tool_search", "mcp_tool_search", "call_tool", *ALIASES)}
    assert meant == {
        "tool_search": None,
        "mcp_tool_search": "search",
        "call_tool": "call",
        "mcp_load": "search",
        "ToolSearch": "search",
        "search_tools": None,
    }


def test_call_tool_that_is_denied_is_neither_called_nor_told_of() -> None:
    names = entry_names((), can_call=False)
    assert names.role("call_tool") is None
    assert "call_tool" not in search_definition(names, "")["description"]


def test_their_texts_name_them_as_they_are() -> None:
    names = entry_names({"tool_search", "call_tool"})
    texts = [search_definition(names, "")["description"], call_definition(names)["description"]]
    assert re.findall(r"\b(tool_search|call_tool)\b", " ".join(texts)) == []
    assert [re.findall(r"mcp_\w+", text) for text in texts] == [["mcp_call_tool"], ["mcp_tool_search"]]


def test_a_host_that_changes_a_schema_changes_no_other_list() -> None:
    search_definition(EntryNames(), "")["inputSchema"]["properties"].clear()
    assert search_definition(EntryNames(), "")["inputSchema"]["properties"]
