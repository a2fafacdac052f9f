"""The selection in the `_meta` of one MCP request: an object, so that names are lists and flags are booleans."""

from __future__ import annotations

from typing import Any

import pytest

from agent_utilities import selection_meta
from agent_utilities.errors import SelectionError
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import NOTHING, NameSet
from agent_utilities.selection.parse import read_meta


def value(field: str, **given: Any) -> Any:
    setting = read_meta({META_KEY: given}).get(field, "meta")  # type: ignore[arg-type]
    return setting and setting.value


class TestValues:
    def test_names_are_a_list(self):
        assert value("allow_tools", tools=["Git_Log", "ls"]) == NameSet(frozenset({"git_log", "ls"}))

    def test_an_empty_list_permits_none(self):
        assert value("allow_tools", tools=[]) == NameSet()

    def test_a_flag_is_a_boolean(self):
        assert (value("read_only", read_only=True), value("read_only", read_only=False)) == (True, False)

    def test_a_key_ignores_case_and_takes_dashes(self):
        assert value("read_only", **{"Read-Only": True}) is True

    def test_null_and_blank_are_not_set(self):
        assert value("allow_tools", tools=None) is value("allow_tools", tools=" ") is None


class TestAbsence:
    def test_asks_for_nothing(self):
        for meta in [None, {}, {"progressToken": 1}, {META_KEY: None}, {META_KEY: {}}, "text", 5]:
            assert read_meta(meta) == NOTHING


class TestRefusals:
    def test_bad_input_is_refused_whole(self):
        for given, what in [
            ("tools=a", "not an object"),
            (["a"], "not an object"),
            ([], "not an object"),
            ("", "not an object"),
            (False, "not an object"),
            ({"tool": ["a"]}, "did you mean tools?"),
            ({"something": 1}, "use one of tools"),
            ({"tools": 5}, "give a list of names"),
            ({"tools": ["a", 5]}, "not a name"),
            ({"tools": ["a,b"]}, "have no comma"),
            ({"tools": [" "]}, "not blank"),
            ({"tools": {"a": 1}}, "give a list of names"),
            ({"tools": True}, "give a list of names"),
            ({"read_only": 1}, "give true or false"),
            ({"read_only": ["true"]}, "give true or false"),
            ({"top_k": True}, "give a whole number"),
            ({"top_k": 1.5}, "give a whole number"),
            ({"top_k": 0}, "not a positive integer"),
            ({"top_k": -1}, "not a positive integer"),
            ({"query": ["a"]}, "give text"),
            ({"tools": ["a\x00b"]}, "control character"),
            ({"tools": ["\ud800"]}, "control character"),
            ({"tools": ["x" * 9000]}, "too long"),
            ({"tools": [f"n{i}" for i in range(600)]}, "too many names"),
            ({"tools": [f"{i}*" for i in range(65)]}, "too many globs"),
        ]:
            with pytest.raises(SelectionError) as refused:
                read_meta({META_KEY: given})
            assert what in str(refused.value)

    def test_the_error_names_the_key_it_came_from(self):
        with pytest.raises(SelectionError) as refused:
            read_meta({META_KEY: {"top_k": "many"}})
        assert (refused.value.source, refused.value.value) == ("_meta top_k", "many")

    def test_a_key_that_is_no_text_is_refused(self):
        with pytest.raises(SelectionError, match="unknown _meta name"):
            read_meta({META_KEY: {1: ["a"]}})

    def test_an_endless_key_is_not_sent_back_whole(self):
        with pytest.raises(SelectionError) as refused:
            read_meta({META_KEY: {"x" * 1_000_000: ["a"]}})
        assert len(str(refused.value)) < 1_000


class TestWriting:
    def test_what_is_written_is_read_back(self):
        meta = selection_meta(tools=["git_log"], disabled_tags=[], read_only=True, query="what changed?", top_k=3)
        selection = read_meta(meta)
        read_back = {field: setting.value for (field, _), setting in selection.slots}
        assert read_back == {
            "allow_tools": NameSet(frozenset({"git_log"})),
            "deny_tags": NameSet(),
            "read_only": True,
            "query": ("what changed?",),
            "top_k": 3,
        }
