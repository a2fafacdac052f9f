"""Matching names, tags and globs, and the rule that is told."""

from __future__ import annotations

import pytest

from agent_utilities.catalog.model import entry
from agent_utilities.policy.bounds import Bounds, fits
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.parse import read_cli, read_env, read_request


def refusal(tool, *options, **env):
    rule = Bounds(effective(merge(read_env(env), read_cli(options)))).refusal(tool)
    return rule.text if rule else None


PUSH = entry("tool", "git_push", tags={"git", "Write"})


class TestMatcher:
    def test_star_is_the_only_wildcard(self):
        for pattern, name, does_fit in [
            ("git*", "git_push", True),
            ("*push", "git_push", True),
            ("g*_*h", "git_push", True),
            ("*", "", True),
            ("a*a", "a", False),
            ("ab*ba", "aba", False),
            ("**i**", "git", True),
            ("git?push", "git_push", False),
            ("[g]it*", "git_push", False),
            ("a*b*c", "abxc", True),
            ("a*b*c", "acb", False),
            ("a*b*b*c", "abc", False),
            ("a*b*b*c", "abbc", True),
            ("*ab*ab*", "ab", False),
            ("x*aa*a*y", "xaay", False),
            ("a*a*a", "aa", False),
        ]:
            assert fits(name, frozenset({pattern})) is does_fit

    @pytest.mark.timeout(20)
    def test_a_hostile_glob_does_not_backtrack(self):
        assert not fits("a" * 20_000, frozenset({"a*" * 200 + "b"}))


class TestAServerWhoseToolsAreNotKnownYet:
    def test_may_be_learnt_of_where_bounds_may_leave_any_of_them(self):
        for option, names, may in [
            ("--tools", "Git_push,ls", True),
            ("--tools", "git_*", True),
            ("--tools", "g*", True),
            ("--tools", "*_push", True),
            ("--tools", "gi,git,ls,gitlab_push,none", False),
            ("--tools", "h*", False),
            ("--toolsets", "git", True),
            ("--toolsets", "fs,git_push", True),
            ("--toolsets", "fs", False),
            ("--tags", "fs", False),
            ("--disabled-tools", "git_push,*_delete", True),
            ("--disabled-tools", "git", False),
            ("--disabled-tools", "git_*", False),
            ("--disabled-tags", "git", False),
            ("--read-only", "true", True),
        ]:
            unknown = entry("tool", "git_", tags=["git"], read_only=True)
            assert Bounds(effective(read_cli([(option, names)]))).may_permit(unknown) is may

    def test_may_not_where_another_bound_refuses_them(self):
        unknown = entry("tool", "git_", tags=["git"], read_only=True)
        given = merge(read_cli([("--tools", "git_push")]), read_env({"MCP_DISABLED_TOOLS": "git"}))
        assert not Bounds(effective(given)).may_permit(unknown)


class TestReasons:
    def test_a_deny_by_tag_names_its_origin(self):
        assert refusal(PUSH, MCP_DISABLED_TAGS="WRITE") == "denied by tag (env MCP_DISABLED_TAGS)"

    def test_a_toolset_is_a_tag_or_a_name(self):
        assert refusal(PUSH, ("--toolsets", "write")) is None
        assert refusal(PUSH, ("--toolsets", "git_push")) is None

    def test_a_tool_name_is_not_a_tag(self):
        assert refusal(PUSH, ("--tools", "write")) == "not among the allowed tools (option --tools)"

    def test_a_name_in_a_deny_is_a_toolset_too(self):
        for name in ["Write", "WRITE", "git_push"]:
            assert refusal(PUSH, ("--disabled-tools", name)) == "denied by name (option --disabled-tools)"

    def test_a_pattern_in_a_deny_is_of_names(self):
        assert refusal(PUSH, ("--disabled-tools", "w*,*rite,writ")) is None
        assert refusal(PUSH, ("--disabled-toolsets", "w*")) is not None

    def test_allowed_tools_and_allowed_tags_are_both_needed(self):
        assert refusal(PUSH, ("--tools", "git_push"), ("--tags", "read")) == (
            "bears none of the allowed tags (option --tags)"
        )

    def test_prompts_and_resources_only_read(self):
        assert refusal(entry("prompt", "p"), ("--read-only", "true")) is None

    def test_a_tool_both_sides_refuse_is_the_operators(self):
        caller = read_request(b"disabled_tools=git_push", ())
        operator = read_cli([("--tags", "read")])
        rule = Bounds(effective(merge(operator, caller))).refusal(PUSH)
        assert rule.setting.side == "operator"


class TestAll:
    def test_allows_tools_without_tags(self):
        assert refusal(entry("tool", "bare"), ("--tags", "all")) is None

    def test_denies_every_tool_where_it_is_denied(self):
        assert refusal(PUSH, ("--disabled-tools", "all")) == "denied by name (option --disabled-tools)"

    def test_a_star_among_tags_needs_a_tag(self):
        assert refusal(entry("tool", "bare"), ("--tags", "*")) is not None
