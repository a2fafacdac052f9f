"""Which channel holds, by field and policy."""

from __future__ import annotations

import pytest

from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.merge import FLAGS, Effective, Narrowing, Within, effective, merge
from agent_utilities.selection.model import NameSet, Policy, Selection
from agent_utilities.selection.parse import read_cli, read_env, read_meta, read_request
from tests.every import every


def given(*, env: str = "", cli: str = "", query: str = "", header: str = "") -> Selection:
    return merge(
        read_env({"MCP_ENABLED_TOOLS": env}),
        read_cli([("--tools", cli)]),
        read_request(f"tools={query}".encode(), ((b"x-mcp-tools", header.encode()),)),
    )


def allowed(selection: Selection, policy: Policy = "narrow") -> list[frozenset[str]]:
    return [s.value.names for s in effective(selection, policy).allow_tools if isinstance(s.value, NameSet)]


class TestNarrow:
    def test_cli_replaces_env(self):
        assert allowed(given(env="a", cli="b")) == [{"b"}]

    def test_header_replaces_query(self):
        assert allowed(given(query="a", header="b")) == [{"b"}]

    def test_both_sides_hold(self):
        assert allowed(given(env="a", header="b")) == [{"a"}, {"b"}]

    def test_all_from_the_command_line_lifts_the_environments_list(self):
        (setting,) = effective(given(env="a", cli="all")).allow_tools
        assert setting.value == NameSet(everything=True)


class TestOverride:
    def test_the_highest_channel_holds_alone(self):
        for channels, held in [
            ({"env": "a", "cli": "b", "query": "c", "header": "d"}, {"d"}),
            ({"env": "a", "cli": "b", "query": "c"}, {"c"}),
            ({"env": "a", "cli": "b"}, {"b"}),
            ({"env": "a"}, {"a"}),
        ]:
            assert allowed(given(**channels), "override") == [held]


class TestReadOnly:
    def test_a_caller_can_not_lift_the_operators(self):
        for policy in ["narrow", "override"]:
            selection = merge(read_env({"MCP_READ_ONLY": "1"}), read_request(b"read_only=false", ()))
            assert effective(selection, policy).read_only.origins == ("env MCP_READ_ONLY",)

    def test_the_command_line_lifts_the_environments(self):
        selection = merge(read_env({"MCP_READ_ONLY": "1"}), read_cli([("--read-only", "false")]))
        assert effective(selection).read_only is None

    def test_a_caller_can_ask_for_it(self):
        assert effective(read_request(b"", ((b"x-mcp-readonly", b"1"),))).read_only is not None


class TestWithin:
    @every("flag", FLAGS)
    def test_a_flag_of_the_outer_request_holds_in_one_that_is_made_in_it(self, flag: str) -> None:
        outer = effective(read_request(f"{flag}=true".encode(), ()))
        within = getattr(Within(outer).narrowed(Effective()), flag)
        assert within is not None
        assert within == getattr(outer, flag)


class TestPreferences:
    def test_the_callers_query_replaces_the_operators(self):
        selection = merge(read_env({"MCP_QUERY": "git"}), read_request(b"q=logs", ()))
        assert effective(selection).query_text == "logs"

    def test_the_requests_meta_replaces_the_header(self):
        header = read_request(b"", ((b"x-mcp-top-k", b"9"),))
        assert effective(merge(header, read_meta({META_KEY: {"top_k": 3}}))).top_k_value == 3

    def test_the_header_replaces_the_url(self):
        assert effective(read_request(b"top_k=3", ((b"x-mcp-top-k", b"9"),))).top_k.value == 9


class TestNarrowing:
    def test_a_text_is_one_name_and_any_collection_is_its_names(self) -> None:
        meant = Narrowing("x", deny_tools=frozenset(["push"]))
        for names in ("push", ["push"], ("push",), {"push"}, (name for name in ["push"])):
            assert Narrowing("x", deny_tools=names) == meant  # type: ignore[arg-type]
            assert hash(Narrowing("x", deny_tools=["push"])) == hash(meant)  # type: ignore[arg-type]

    def test_what_is_no_name_is_refused(self) -> None:
        for field in ("allow_tools", "deny_tags", "capabilities"):
            with pytest.raises(TypeError, match=field):
                Narrowing("x", **{field: frozenset([None])})  # type: ignore[arg-type]


class TestDigest:
    def test_does_not_depend_on_where_values_came_from(self):
        assert effective(given(env="a")).bounds_digest == effective(given(cli="a")).bounds_digest

    def test_tells_a_list_of_nothing_from_no_list(self):
        assert effective(given(env="none")).bounds_digest != Effective().bounds_digest

    def test_tells_sides_apart(self):
        assert effective(given(env="a", header="b")).bounds_digest != effective(given(env="a,b")).bounds_digest
