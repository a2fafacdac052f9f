"""Tool search before seven servers that others wrote: what is in a prompt at the start, and after three searches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from agent_utilities.catalog.context import n_tokens
from tests.gateway.upstreams.gateway_process import DEFERRING_NONE, Gateway, gateway
from tests.gateway.upstreams.real_servers import N_TOOLS, SERVERS, real_config
from tests.wire.wires import Caller, LegacyCaller

pytestmark = [pytest.mark.node, pytest.mark.outside]

SEARCHES = {
    "show the last commits of the repository": "git_git_log",
    "what time is it in Tokyo": "time_get_current_time",
    "remember in the knowledge graph that Anna works at Acme": "memory_create_entities",
}
"""What a user of the seven may want, and the tool that it takes."""
MOST_LISTED, MOST_AFTER_SEARCHES = 1_200, 3_500


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway as it defers by itself: `auto` is what holds where nobody sets anything."""
    folder = tmp_path_factory.mktemp("searched")
    with gateway(real_config(folder), folder, MCP_GRAPH="embedded", MCP_TOOL_SEARCH="auto") as it:
        it.until_listed([server.name for server in SERVERS])
        it.until(_ranks_all, "tools of all servers found by their names")
        yield it


def _ranks_all(it: Gateway) -> bool:
    """Whether the ranker knows the servers that became known last; a search in this era activates nothing."""
    with it.calling("modern") as caller:
        return all(name in _found(_search(caller, name.replace("_", " "))) for name in SEARCHES.values())


@dataclass(frozen=True)
class Prompt:
    """What a list puts into a prompt.

    Args:
        listed: the tools of `tools/list`.
        results: the texts of searches so far.
    """

    listed: Sequence[dict[str, Any]]
    results: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return [tool["name"] for tool in self.listed]

    @property
    def tokens(self) -> int:
        """What the list takes."""
        return sum(map(n_tokens, self.listed))

    @property
    def tokens_of_results(self) -> int:
        """What the results of searches take besides."""
        return sum(map(n_tokens, self.results))


@dataclass(frozen=True)
class Run:
    """What one session saw.

    Args:
        undeferred: where nothing is deferred.
        start: before any search.
        found: what each search found, best first, by its words.
        end: after the searches.
    """

    undeferred: Prompt
    start: Prompt
    found: dict[str, list[str]]
    end: Prompt


@pytest.fixture(scope="module")
def run(served: Gateway) -> Run:
    with served.calling("modern", DEFERRING_NONE) as caller:
        undeferred = _listed(caller)
    with closing(LegacyCaller(served.access.http, "", ())) as caller:
        start = _listed(caller)
        results = {words: _search(caller, words) for words in SEARCHES}
        end = Prompt(_listed(caller).listed, [result["content"][0]["text"] for result in results.values()])
    return Run(undeferred, start, {words: _found(result) for words, result in results.items()}, end)


class TestOfTheSevenServers:
    def test_all_of_them_is_deferred_at_the_start(self, run: Run) -> None:
        assert len(run.undeferred.names) >= N_TOOLS
        assert run.start.names == ["tool_search", "call_tool"]

    def test_the_list_is_small_at_the_start(self, run: Run) -> None:
        assert run.start.tokens <= MOST_LISTED

    def test_the_list_is_small_after_three_searches(self, run: Run) -> None:
        assert run.end.tokens <= MOST_AFTER_SEARCHES

    def test_each_search_finds_the_tool_that_is_wanted(self, run: Run) -> None:
        assert {words: name for words, name in SEARCHES.items() if name not in run.found[words]} == {}

    def test_what_came_in_full_is_listed_from_then_on(self, run: Run) -> None:
        assert len(run.end.names) > len(run.start.names) + len(SEARCHES)

    def test_the_figures(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        with capsys.disabled():
            print(f"\nnot deferred     {len(run.undeferred.names):3} tools {run.undeferred.tokens:6} tokens")
            print(f"at the start     {len(run.start.names):3} tools {run.start.tokens:6} tokens")
            after = f"{run.end.tokens:6} tokens, and {run.end.tokens_of_results} in results"
            print(f"after 3 searches {len(run.end.names):3} tools {after}")
        assert run.start.tokens < run.end.tokens < run.undeferred.tokens


class TestByCallTool:
    """What the tools of others answer by `call_tool`, in a host whose list stays as it was."""

    def test_the_result_is_the_tools_own(self, served: Gateway) -> None:
        with closing(LegacyCaller(served.access.http, "", ())) as caller:
            arguments = {"timezone": "Asia/Tokyo"}
            answer = caller.ask("tools/call", _by_call_tool("time_get_current_time", arguments)).result
        assert json.loads(answer["content"][0]["text"])["timezone"] == "Asia/Tokyo"

    def test_wrong_arguments_are_answered_with_the_schema(self, served: Gateway) -> None:
        with closing(LegacyCaller(served.access.http, "", ())) as caller:
            answer = caller.ask("tools/call", _by_call_tool("git_git_log", {})).result
        assert answer["isError"]
        assert answer["content"][-1]["text"].startswith(
            "wrong arguments: 'repo_path' is a required property. git_git_log"
        )


def _by_call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}


def _listed(caller: Caller) -> Prompt:
    return Prompt(caller.ask("tools/list").result["tools"])


def _search(caller: Caller, words: str) -> dict[str, Any]:
    return caller.ask("tools/call", {"name": "tool_search", "arguments": {"query": words}}).result


def _found(result: dict[str, Any]) -> list[str]:
    told = json.loads(result["content"][0]["text"])
    return [tool["name"] for tool in (*told["tools"], *told.get("more", ()))]
