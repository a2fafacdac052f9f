"""SettingsFiles: which fields hold of those that operator and caller name."""

from __future__ import annotations

from typing import Any

import pytest

from agent_utilities.errors import SelectionError
from agent_utilities.selection.merge import Effective, asked_digest, effective, merge
from agent_utilities.selection.model import NameSet, Selection
from agent_utilities.selection.parse import read_cli, read_env, read_meta, read_request
from agent_utilities.selection.profiles import FileChannel, FileFields, SettingsFiles, read_fields


def file(channel: FileChannel = "file", **table: Any) -> FileFields:
    return read_fields(table, f"{channel}.toml", channel, ())


def operator(*files: FileFields, env: dict[str, str] | None = None, cli: str = "") -> Effective:
    launch = read_cli([("--profile", cli)]) if cli else Selection()
    given = merge(*(each.selection for each in files), read_env(env or {}), launch)
    return effective(SettingsFiles(files).for_operator(given))


def caller(*files: FileFields, query: bytes = b"", **headers: str) -> Effective:
    sent = tuple((f"x-mcp-{key.replace('_', '-')}".encode(), value.encode()) for key, value in headers.items())
    return effective(SettingsFiles(files).for_caller(read_request(query, sent)))


def allowed(settings: Effective) -> list[set[str]]:
    return [set(s.value.names | s.value.toolsets) for s in settings.allow_tools if isinstance(s.value, NameSet)]


def denied(settings: Effective) -> set[str]:
    return {
        name for s in settings.deny_tools if isinstance(s.value, NameSet) for name in s.value.names | s.value.toolsets
    }


REVIEW = {"tools": ["git_log"], "disabled_tools": ["rm"], "top_k": 3}
FILE = file(
    tools=["a", "b"], profiles={"review": REVIEW, "quiet": {"disabled_tools": ["shout"]}, "wide": {"tools": "all"}}
)


class TestOperator:
    def test_who_names_none_has_the_files_own_fields(self):
        assert allowed(operator(FILE)) == [{"a", "b"}]

    def test_a_profiles_field_stands_over_the_files(self):
        for named in [{"env": {"MCP_PROFILE": "Review"}}, {"cli": "REVIEW"}]:
            settings = operator(FILE, **named)
            assert (allowed(settings), denied(settings), settings.top_k_value) == ([{"git_log"}], {"rm"}, 3)

    def test_a_file_names_a_profile_for_itself(self):
        assert allowed(operator(file(profile="review", tools=["a"], profiles={"review": REVIEW}))) == [{"git_log"}]

    def test_a_field_in_the_environment_stands_over_a_profiles(self):
        assert allowed(operator(FILE, env={"MCP_PROFILE": "review", "MCP_ENABLED_TOOLS": "c"})) == [{"c"}]

    def test_denies_of_file_and_profile_add_up(self):
        both = file(disabled_tools=["a"], profiles={"review": REVIEW})
        assert denied(operator(both, cli="review")) == {"a", "rm"}

    def test_a_profile_on_the_command_line_replaces_one_in_the_environment_but_for_its_denies(self):
        settings = operator(FILE, env={"MCP_PROFILE": "review"}, cli="quiet")
        assert (allowed(settings), denied(settings)) == ([{"a", "b"}], {"rm", "shout"})

    def test_none_takes_the_files_profile_back_but_for_its_denies(self):
        settings = operator(file(profile="review", profiles={"review": REVIEW}), cli="none")
        assert (allowed(settings), denied(settings)) == ([], {"rm"})

    def test_an_unknown_one_is_refused_and_the_known_are_told(self):
        for name, hint in [
            ("revue", "did you mean review?"),
            ("zzz", "there are: quiet, review, wide"),
            ("re*", "there are: quiet, review, wide"),
        ]:
            with pytest.raises(SelectionError) as error:
                operator(FILE, env={"MCP_PROFILE": name})
            assert str(error.value) == f"unknown profile: {name!r} (from env MCP_PROFILE); {hint}"

    def test_where_no_file_defines_any_it_says_how(self):
        with pytest.raises(SelectionError, match=r"define it under \[profiles.review\]"):
            operator(cli="review")


class TestTwoFiles:
    def test_allow_lists_of_both_hold(self):
        assert allowed(operator(file(tools=["a"]), file("project", tools=["a", "b"]))) == [{"a"}, {"a", "b"}]

    def test_environment_and_command_line_replace_both(self):
        both = file(tools=["a"]), file("project", tools=["b"])
        assert allowed(operator(*both, env={"MCP_ENABLED_TOOLS": "c"})) == [{"c"}]

    def test_a_project_does_not_lift_read_only(self):
        assert operator(file(read_only=True), file("project", read_only=False)).read_only is not None

    def test_a_project_does_not_turn_tool_search_on_that_the_user_turned_off(self):
        given = operator(file(tool_search=False), file("project", tool_search=True))
        assert given.search_values["tool_search"].over is None

    def test_a_files_off_gives_way_to_the_environment(self):
        given = operator(file(tool_search=False), env={"MCP_TOOL_SEARCH": "on"})
        assert given.search_values["tool_search"].over is not None

    def test_a_projects_preference_stands_over_the_users(self):
        assert operator(file(top_k=3), file("project", top_k=9)).top_k_value == 9

    def test_a_project_does_not_choose_another_profile_for_the_user(self):
        own = file(profile="review", profiles={"review": REVIEW})
        for theirs in (
            file("project", profile="none"),
            file("project", profile="own", profiles={"own": {"tools": "all"}}),
        ):
            settings = operator(own, theirs)
            assert {"git_log"} in allowed(settings)
            assert denied(settings) == {"rm"}

    def test_a_projects_profile_of_the_same_name_only_narrows(self):
        own, theirs = file(profiles={"review": REVIEW}), file("project", profiles={"review": {"tools": "all"}})
        for settings in (operator(own, theirs, cli="review"), caller(own, theirs, profile="review")):
            assert {"git_log"} in allowed(settings)

    def test_a_project_names_a_profile_of_the_users(self):
        own, theirs = file(tools=["a"], profiles={"review": REVIEW}), file("project", profile="review")
        assert allowed(operator(own, theirs)) == [{"a"}, {"git_log"}]


class TestCaller:
    def test_a_profile_narrows_as_his_own_fields_would(self):
        for asked in [
            read_request(b"profile=review", ()),
            read_meta({"agent-utilities/selection": {"profile": "Review"}}),
        ]:
            settings = effective(merge(FILE.selection, SettingsFiles((FILE,)).for_caller(asked)))
            assert allowed(settings) == [{"a", "b"}, {"git_log"}]

    def test_his_own_field_stands_over_the_profiles(self):
        assert allowed(caller(FILE, query=b"profile=review&tools=x")) == [{"x"}]

    def test_his_own_allow_list_does_not_lift_the_profiles_denies(self):
        assert denied(caller(FILE, query=b"profile=review&tools=rm&disabled_tools=none")) == {"rm"}

    def test_a_header_names_another_than_the_url_does_but_for_the_denies(self):
        settings = caller(FILE, query=b"profile=review", profile="quiet")
        assert (allowed(settings), denied(settings)) == ([], {"rm", "shout"})

    def test_none_takes_the_urls_back_but_for_its_denies(self):
        settings = caller(FILE, query=b"profile=review", profile="none")
        assert (allowed(settings), denied(settings)) == ([], {"rm"})

    def test_two_in_one_channel_are_refused(self):
        with pytest.raises(SelectionError, match="more than one profile"):
            read_request(b"profile=review&profile=quiet", ())

    def test_one_given_twice_is_one(self):
        assert allowed(caller(FILE, query=b"profile=review&PROFILE=Review")) == [{"git_log"}]

    def test_an_unknown_one_is_refused_and_no_name_is_told(self):
        for name in ["revie", "zzz", "all", "re*", "*"]:
            with pytest.raises(SelectionError) as error:
                caller(FILE, profile=name)
            assert str(error.value) == f"unknown profile: {name!r} (from header x-mcp-profile); ask who runs the server"

    def test_any_is_unknown_where_no_file_defines_it(self):
        with pytest.raises(SelectionError, match="unknown profile"):
            caller(profile="review")

    def test_what_can_be_no_name_is_refused(self):
        for name in ["a,b", "x" * 65, "x" * 9000, "a%07b", "a%E2%80%8Bb", "a%00"]:
            with pytest.raises(SelectionError):
                read_request(f"profile={name}".encode(), ())

    def test_a_misspelt_key_is_refused(self):
        for key in ["profil", "profiles", "proflie", "Profles", "x-mcp-profile", "MCP_PROFILE"]:
            with pytest.raises(SelectionError, match="did you mean profile"):
                read_request(f"{key}=review".encode(), ())

    def test_blank_names_none(self):
        assert caller(FILE, query=b"profile=") == Effective()

    def test_what_the_operator_wrote_is_not_told_as_his_own(self):
        assert {s.side for s in caller(FILE, profile="review").deny_tools} == {"profile"}

    def test_his_digest_knows_the_profile_by_name_alone(self):
        one, same, other = (
            read_request(query, ()) for query in (b"profile=review", b"profile=REVIEW", b"profile=quiet")
        )
        assert asked_digest(one) == asked_digest(same) != asked_digest(other)
