"""Asking a running server why, over a real socket."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator

import pytest

from agent_utilities.cli.app import main
from tests.command_line import Done, run_command
from tests.server.servers import log_server, running


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(log_server(environ={"MCP_DISABLED_TAGS": "delete"})) as url:
        yield url


@pytest.fixture
def explain(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    return lambda *arguments: run_command(main, ["agent-utilities", "explain", *arguments], os.environ, capfd)


@pytest.fixture
def verdicts(explain: Callable[..., Done]) -> Callable[..., dict[str, tuple[str, str]]]:
    def asked(*arguments: str) -> dict[str, tuple[str, str]]:
        rows = json.loads(explain("--json", *arguments).stdout)["tools"]
        return {row["name"]: (row["verdict"], row["reason"]) for row in rows}

    return asked


@pytest.fixture(scope="module")
def with_profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("settings") / "mine.toml"
    file.write_text("[profiles.review]\ndisabled_tags = 'write'\n[profiles.one]\ntop_k = 1\n")
    with running(log_server(environ={"MCP_CONFIG_FILE": str(file)})) as url:
        yield url


class TestProfiles:
    def test_are_told_for_what_they_deny(self, with_profiles, verdicts):
        by_name = verdicts(with_profiles, "--query", "profile=review")
        assert by_name["rotate_log"][0] == "denied"
        assert by_name["rotate_log"][1].startswith("denied by the profile")
        assert by_name["tail_log"] == ("visible", "")

    def test_are_told_where_they_may_have_left_a_tool_out(self, with_profiles, verdicts):
        assert verdicts(with_profiles, "--query", "profile=one")["rotate_log"][0] == "not shown"

    def test_that_are_unknown_are_refused(self, with_profiles, explain):
        assert "unknown profile: 'revue'" in explain(with_profiles, "--query", "profile=revue").stderr


class TestReasons:
    def test_name_the_header_that_denies(self, base, verdicts):
        by_name = verdicts(base, "--header", "x-mcp-disabled-tags=write")
        assert by_name["rotate_log"] == ("denied", "denied by tag (header x-mcp-disabled-tags)")

    def test_name_the_query_key_in_the_url(self, base, verdicts):
        by_name = verdicts(f"{base}/mcp?tools=tail_log")
        assert by_name["search_logs"] == ("denied", "not among the allowed tools (query tools)")
        assert by_name["tail_log"] == ("visible", "")

    def test_name_the_path_of_the_url(self, base, verdicts):
        by_name = verdicts(f"{base}/mcp/x/tail_lo%67,write/readonly?tools=search_logs")
        assert by_name["rotate_log"] == ("denied", "not annotated readOnlyHint: true (URL path)")
        assert (by_name["tail_log"][0], by_name["search_logs"][0]) == ("visible", "visible")
        assert verdicts(f"{base}/sse/x/write/")["tail_log"] == ("denied", "not among the allowed tools (URL path)")

    def test_tell_deferred_from_denied(self, base, verdicts):
        assert verdicts(base, "--query", "top_k=1")["search_logs"][0] == "deferred"

    def test_tell_nothing_of_what_the_operator_denies(self, base, explain, verdicts):
        assert "delete_log" not in verdicts(base)
        for name in ("delete_log", "absent_log"):
            assert explain(base, "--tool", name).stdout.startswith(f"{name} is unknown: the server offers no tool")

    def test_answer_for_one_tool(self, base, explain):
        text = explain(base, "--tool", "rotate_log", "--header", "x-mcp-read-only=1").stdout
        assert "rotate_log is denied: not annotated readOnlyHint: true (header" in text


class TestTable:
    def test_sums_up_what_is_seen(self, base, explain):
        text = explain(base, "--query", "tools=tail_logs,tail_log").stdout
        assert "1 visible, 1 permitted, of 3 that the server offers" in text
        assert "did you mean 'tail_log'?" in text


class TestRefused:
    def test_with_one_line_and_a_code(self, base, explain):
        for arguments, code, message in [
            (["not-a-url"], 2, "not an HTTP URL"),
            (["http://127.0.0.1:1"], 1, "is the server running?"),
            (["{base}", "--header", "novalue"], 2, "write it as name=value"),
            (["{base}", "--query", "disabled_tag=x"], 2, "did you mean disabled_tags?"),
            (["{base}/mcp/x/writ"], 2, "names nothing that is known: 'writ' (from URL path); did you mean 'write'?"),
            (["{base}/elsewhere"], 1, "is it one of ours?"),
        ]:
            done = explain(*(argument.format(base=base) for argument in arguments))
            assert (done.returncode, done.stderr.count("\n")) == (code, 1)
            assert message in done.stderr


@pytest.fixture
def deferring() -> Iterator[str]:
    with running(log_server(environ={"MCP_TOOL_SEARCH": "on", "MCP_PINNED_TOOLS": "tail_log"})) as url:
        yield url


class TestWhereToolsAreDeferred:
    def test_each_tool_is_told_of_and_the_two_by_which_they_are_reached(self, deferring, verdicts):
        by_name = verdicts(deferring, "--header", "x-mcp-disabled-tags=delete", "--header", "x-mcp-active=rotate_log")
        assert {name: verdict for name, (verdict, _) in by_name.items()} == {
            "tool_search": "visible",
            "call_tool": "visible",
            "tail_log": "visible",
            "rotate_log": "visible",
            "search_logs": "deferred",
            "delete_log": "denied",
        }
        assert by_name["search_logs"][1] == "permitted and can be called; tool_search finds it"
        assert by_name["call_tool"][1] == "by which deferred tools are reached"
