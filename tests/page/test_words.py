"""Words on the page: the parts of each score are those that rank, and nothing of denied tools is in any."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.catalog.document import ToolDocument
from agent_utilities.gateway.capabilities.caller import CapabilitiesSwitched, WordsRouted
from agent_utilities.page.words import _once
from agent_utilities.query.ranking.answerability import PastRequests
from agent_utilities.query.ranking.arrays import Scores
from agent_utilities.query.ranking.lexical import LexicalRanker
from agent_utilities.query.ranking.open import has_minilm, open_hybrid
from agent_utilities.seam.events import Event
from agent_utilities.selection.model import NOTHING
from tests.access.team import Team
from tests.every import every
from tests.gateway.capabilities.capable import gateway
from tests.page.looking import logged_in, opened
from tests.page.test_panels import READERS, without_key
from tests.parts import capabilities_of, query_of
from tests.query.graph.wrapped import until

pytestmark = pytest.mark.anyio

DOCUMENTS = [
    ToolDocument("git_log", description="Show the history of a repository.", server="git"),
    ToolDocument("git_blame", description="Show who changed each line of a file.", server="git"),
    ToolDocument("read_file", description="Read a file.", server="files"),
    ToolDocument("delete_file", description="Delete a file.", server="files"),
    ToolDocument("send_mail", description="Send a mail to somebody.", server="mail"),
]
REQUESTS = ["show the history", "delete the file and send a mail", "git_log", "read `read_file` now", "nothing of it"]


def server(folder: Path) -> AgentServer:
    environ = {"MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": "60000"}
    mcp = create_mcp_server("docs", environ=environ)
    for document in DOCUMENTS:
        mcp.tool(name=document.name, description=document.description)(lambda: "done")
    return mcp


async def ready(mcp: AgentServer, web: httpx2.AsyncClient) -> None:
    """Wait until graph and index are there: a query waits for both."""
    await web.get("/tools?q=warm+up")
    await until(lambda: query_of(mcp).resolver.ranker is not None, "the ranker")
    ranker = query_of(mcp).resolver.ranker
    assert ranker is not None
    await ranker.wait_until_settled()


class TestParts:
    @every("request_", REQUESTS)
    def test_add_up_to_the_score_by_words(self, request_: str) -> None:
        check(LexicalRanker(), request_)

    @pytest.mark.skipif(not has_minilm(), reason="the offline model is not installed")
    @every("request_", REQUESTS)
    def test_add_up_to_the_score_by_vectors_too(self, request_: str, tmp_path: Path) -> None:
        hybrid = open_hybrid("hybrid", "minilm", tmp_path / "vectors.db")
        assert hybrid is not None
        check(hybrid, request_)


def check(ranker: object, request_: str) -> None:
    index = ranker.index(DOCUMENTS)  # type: ignore[attr-defined]
    asked = PastRequests.of({4: ["write to my boss", "show it to them"]})
    for each in (index, index.learn(asked)):
        plain, parts = each.rank(request_), dict[str, Scores]()
        ranking = each.rank(request_, parts=parts)
        assert (ranking.indexes, ranking.scores) == (plain.indexes, plain.scores)
        for i, score in enumerate(ranking.scores):
            assert sum(values[i] for values in ranking.parts.values()) == pytest.approx(score, abs=5e-6)
        assert plain.parts == {}


class TestPanel:
    async def test_ranks_as_the_answer_does(self, tmp_path: Path) -> None:
        mcp = server(tmp_path)
        async with opened(mcp) as web:
            await ready(mcp, web)
            ranks = (await web.get("/page/words?format=json&q=show+the+history")).json()["ranks"]
            tools = (await web.get("/tools?q=show+the+history")).json()["tools"]
            page = (await web.get("/page/words?q=show+the+history")).text
        scores = {row["name"]: row["score"] for row in ranks}
        assert [scores[tool["name"]] for tool in tools] == [tool["score"] for tool in tools]
        assert [row["name"] for row in ranks if row["shown"]] == [tool["name"] for tool in tools]
        assert "t.text CONTAINS $query" in page
        assert "$query = &#39;show the history&#39;" in page
        assert "matched 1: git_log" in page

    async def test_says_that_ranking_took_too_long(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mcp = server(tmp_path)
        async with opened(mcp) as web:
            await ready(mcp, web)
            monkeypatch.setattr("agent_utilities.page.words._RANK_S", 0)
            page = await web.get("/page/words?q=show+the+history")
        assert (page.status_code, "ranking took more than 0 s" in page.text) == (200, True)

    async def test_says_why_there_is_nothing(self, tmp_path: Path) -> None:
        async with opened(create_mcp_server("off", environ={"MCP_GRAPH": "off"})) as web:
            assert "queries are off" in (await web.get("/page/words?q=x")).text

    @every("words", ["<script>alert(1)</script>", "{{ 7 * 7 }}", "‮evil", "'; MATCH (n) DETACH DELETE n //"])
    async def test_takes_whatever_is_typed_as_words(self, tmp_path_factory: pytest.TempPathFactory, words: str) -> None:
        mcp = server(tmp_path_factory.mktemp("graph"))
        async with opened(mcp) as web:
            answer = await web.get("/page/words", params={"q": words})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "‮" not in answer.text

    async def test_has_no_effect(self, tmp_path: Path) -> None:
        mcp = server(tmp_path)
        async with opened(mcp) as web:
            await ready(mcp, web)
            await web.get("/page/words?q=show+the+history")
            assert (await web.get("/page/calls?format=json")).json()["calls"] == []
            assert (await web.get("/page/sessions?format=json")).json()["sessions"] == []

    async def test_of_a_reader_who_may_not_know_a_tool_is_its_twins(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        told = []
        for has_push in (True, False):
            folder = tmp_path_factory.mktemp("team")
            team = Team(folder, READERS)
            environ = {"MCP_GRAPH": "auto", "MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": "lexical"}
            mcp = team.server({**environ, "MCP_GRAPH_DEADLINE_MS": "60000"})
            if not has_push:
                mcp.local_provider.remove_tool("git_push")
            async with logged_in(mcp, team.token("bob")["authorization"].split()[1]) as web:
                await ready(mcp, web)
                page = (await web.get("/page/words?q=git+push+log")).text
            told.append(without_key(page))
        assert "git_log" in told[0]
        assert told[0] == told[1]


class TestStatements:
    async def test_tell_a_reader_what_was_asked_for_their_words_and_an_operator_what_else_was(
        self, tmp_path: Path
    ) -> None:
        team = Team(tmp_path, READERS)
        environ = {"MCP_GRAPH": "auto", "MCP_GRAPH_FOLDER": str(tmp_path), "MCP_RANKER": "lexical"}
        mcp = team.server({**environ, "MCP_GRAPH_DEADLINE_MS": "60000"})
        ann, bob = team.token("ann"), team.token("bob")
        async with logged_in(mcp, bob["authorization"].split()[1]) as web:
            await ready(mcp, web)
            pages = [(await web.get("/page/words?q=git+push+log", headers=who)).text for who in ({}, ann)]
        n_statements = [len(re.findall(r"<pre[^>]*>[^<]*MATCH ", page)) for page in pages]
        assert n_statements[0] == 1
        assert n_statements[1] > 1
        assert ["git_push" in page for page in pages] == [False, True]


class TestEdges:
    def test_between_tools_that_are_used_together_are_told_once(self) -> None:
        edges = [("a", "b", "used_with", 3), ("b", "a", "used_with", 2), ("a", "c", "used_with", 1)]
        assert _once(edges) == [edges[0], edges[2]]

    def test_that_lead_from_one_to_the_other_are_told_each_way(self) -> None:
        edges = [("a", "b", "followed_by", 3), ("b", "a", "followed_by", 2), ("a", "b", "used_with", 1)]
        assert _once([*edges, edges[0]]) == edges


class TestCapabilities:
    @pytest.mark.outside
    async def test_stand_against_their_gate_and_none_is_switched_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served = gateway(tmp_path)
        heard: list[Event] = []
        notify = served.notify
        async with opened(served) as web:
            switching = capabilities_of(served).switching
            await until(lambda: capabilities_of(served).switching.router.is_ready, "triggers read")
            monkeypatch.setattr(served, "notify", lambda event: (heard.append(event), notify(event)))
            page = (await web.get("/page/words?q=what+time+is+it+in+Tokyo")).text
            route = await switching.router.route("what time is it in Tokyo", switching.usable(NOTHING))
            held = switching.holders.names()
        name, score = route.scores[0]
        assert (name, route.gate is not None) == ("clock", True)
        assert f"clock {score:.3f}" in page
        assert (held, [each for each in heard if isinstance(each, WordsRouted | CapabilitiesSwitched)]) == (set(), [])
