"""What a settings file says: every field by every name, and nothing passed over."""

from __future__ import annotations

import pytest

from agent_utilities.errors import SelectionError
from agent_utilities.selection.model import NOTHING, NameSet
from agent_utilities.selection.profiles import FileFields, read_fields

NAME = "agent-utilities.toml"


def read(table: dict[str, object]) -> FileFields:
    return read_fields(table, NAME, "project", ("ranker", "list_ttl_ms"))


def refused(table: dict[str, object]) -> str:
    with pytest.raises(SelectionError) as error:
        read(table)
    return str(error.value)


class TestFields:
    def test_have_values_of_toml(self):
        fields = read({"tools": ["git_log", "Git_Diff"], "read_only": True, "top_k": 5, "tool-search": False, "q": "x"})
        values = {name: setting.value for (name, _), setting in fields.selection.slots}
        assert values["allow_tools"] == NameSet(frozenset({"git_log", "git_diff"}))
        assert (values["read_only"], values["top_k"], values["query"]) == (True, 5, ("x",))

    def test_name_the_file_and_the_key_as_it_was_written(self):
        setting = read({"Disabled-Tools": "rm"}).selection.get("deny_tools", "project")
        assert (setting.origins, setting.side) == (("file agent-utilities.toml: Disabled-Tools",), "operator")

    def test_of_an_empty_list_name_nothing(self):
        assert read({"tools": []}).selection.get("allow_tools", "project").value == NameSet()

    def test_that_are_blank_are_not_set(self):
        assert read({"tools": "", "query": "  "}).selection == NOTHING

    def test_of_two_names_of_one_field_are_united(self):
        setting = read({"tools": ["a"], "toolsets": ["b"]}).selection.get("allow_tools", "project")
        assert setting.value == NameSet(frozenset({"a"}), frozenset({"b"}))

    def test_that_cannot_be_read_are_refused_with_file_and_key(self):
        for table, said in [
            ({"tools": 5}, "of the wrong type: '5' (from file agent-utilities.toml: tools); give a list of names"),
            ({"tools": ["a,b"]}, "not a name: 'a,b' (from file agent-utilities.toml: tools)"),
            (
                {"read_only": 1},
                "of the wrong type: '1' (from file agent-utilities.toml: read_only); give true or false",
            ),
            ({"top_k": True}, "of the wrong type: 'True' (from file agent-utilities.toml: top_k)"),
            ({"top_k": 0}, "not a positive integer: '0' (from file agent-utilities.toml: top_k)"),
            ({"top_k": 1.5}, "of the wrong type: '1.5' (from file agent-utilities.toml: top_k)"),
            ({"query": ["a"]}, "of the wrong type: \"['a']\" (from file agent-utilities.toml: query); give text"),
            ({"tools": {"a": 1}}, "of the wrong type"),
        ]:
            assert said in refused(table)


class TestKeys:
    def test_that_are_unknown_are_refused_with_the_nearest(self):
        for key, meant in [
            ("tool", "tools"),
            ("denied_tools", "disabled_tools"),
            ("MCP_DISABLED_TAGS", "disabled_tags"),
            ("x-mcp-disabled-tools", "disabled_tools"),
            ("rankr", "ranker"),
            ("list-ttl", "list_ttl_ms"),
            ("profil", "profile"),
            ("profils-of", "profiles"),
        ]:
            said = refused({key: "x"})
            assert f"unknown key: '{key}' (from file agent-utilities.toml: {key}); did you mean {meant}?" == said

    def test_that_are_like_none_are_refused_too(self):
        assert refused({"zzzz": 1}) == "unknown key: 'zzzz' (from file agent-utilities.toml: zzzz); remove it"

    def test_that_only_callers_give_are_refused(self):
        assert "active is for callers to give" in refused({"active": "a"})

    def test_of_other_settings_are_kept_with_their_source(self):
        setting = read({"list-ttl-ms": 5}).settings["list_ttl_ms"]
        assert (setting.value, setting.source) == (5, "file agent-utilities.toml: list-ttl-ms")

    def test_of_other_settings_stand_once(self):
        assert "given twice" in refused({"list-ttl-ms": 5, "list_ttl_ms": 6})


class TestProfiles:
    def test_have_any_field(self):
        profile = read({"profiles": {"Review": {"tools": ["a"], "top_k": 3}}}).profiles["review"]
        assert {name for (name, _), _ in profile.slots} == {"allow_tools", "top_k"}
        assert profile.get("top_k", "project").origins == ("file agent-utilities.toml: profiles.Review.top_k",)

    def test_that_cannot_be_taken_are_refused(self):
        for table, said in [
            ({"profiles": {"a": {"ranker": "off"}}}, "(from file agent-utilities.toml: profiles.a.ranker)"),
            ({"profiles": {"a": {"profile": "b"}}}, "a profile in a profile"),
            ({"profiles": {"a": {"active": "b"}}}, "active is for callers to give"),
            ({"profiles": {"a": {"tool": "b"}}}, "did you mean tools?"),
            ({"profiles": {"a": "b"}}, "not a table: 'b' (from file agent-utilities.toml: profiles.a)"),
            ({"profiles": "b"}, "not a table: 'b' (from file agent-utilities.toml: profiles)"),
            ({"profiles": {"Straße": {}, "STRASSE": {}}}, "a profile of this name stands before it"),
            *(
                ({"profiles": {name: {}}}, "not a profile's name")
                for name in ("none", "ALL", "a,b", "re*", "", " a", "a\x07", "a\u200b", "x" * 65)
            ),
        ]:
            assert said in refused(table)

    def test_of_a_name_with_control_characters_are_told_without_them(self):
        assert "\x1b" not in refused({"profiles": {"\x1b[2J": {}}})
