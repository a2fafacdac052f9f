"""`MCP_NO_MATCH=search` beside an operator's other settings, and how long its lists are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from mcp_types import PaginatedRequestParams

from agent_utilities import AgentServer, selection_meta
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.parse import read_cli
from tests.every import every
from tests.search.conversation import transcript
from tests.server.in_process import ask, web_of
from tests.wire.large_server import DENIED, ENTRY, NAMES, UNFIT, large_server
from tests.wire.search_questions import Question, call, searched

pytestmark = pytest.mark.anyio
Era = Literal["legacy", "auto"]
ERAS: tuple[Era, ...] = ("legacy", "auto")
SEARCHING = {"MCP_NO_MATCH": "search"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One graph for all servers here: their tools are the same."""
    return tmp_path_factory.mktemp("graph")


def large(folder: Path, *, with_denied: bool = True, **environ: str) -> AgentServer:
    """Return a server of 396 tools, nine more denied, that is ranked by words and waits for its graph."""
    given = {
        "MCP_GRAPH_FOLDER": str(folder),
        "MCP_GRAPH_DEADLINE_MS": "30000",
        "MCP_RANKER": "lexical",
        "MCP_DISABLED_TAGS": "vault",
    }
    return large_server(with_denied=with_denied, **{**given, **environ})


async def listed(client: Client[Any], **asked: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the names in a list, and what is told of it."""
    params = PaginatedRequestParams.model_validate({"_meta": selection_meta(**asked)} if asked else {})
    result = await client.session.list_tools(params=params)
    return [tool.name for tool in result.tools], (result.meta or {})[META_KEY]


async def said(client: Client[Any], name: str, arguments: dict[str, Any] | None = None, **asked: Any) -> str:
    """Return what a call says, be it an error."""
    meta = selection_meta(**asked) if asked else None
    result = await client.call_tool(name, arguments or {}, raise_on_error=False, meta=meta)
    return str(result.content[0].text)


class TestTheOperator:
    @every("era", ERAS)
    async def test_has_everything_shown_by_default(self, folder: Path, era: Era) -> None:
        async with Client(large(folder), mode=era) as client:
            names, told = await listed(client, query=UNFIT)
            assert (names, told["status"], "deferred" in told) == (list(NAMES), "no_match", False)
            assert await said(client, "call_tool", {"name": NAMES[0]}) == "Unknown tool: 'call_tool'"

    async def test_needs_no_naming_of_the_entry_tools_in_an_own_allow_list(self, folder: Path) -> None:
        server = large(folder, **SEARCHING, MCP_ENABLED_TOOLS="*_0,*_1,*_2")
        async with Client(server) as client:
            assert (await listed(client, query=UNFIT))[0] == ENTRY
            assert await said(client, "call_tool", {"name": "read_song_3"}) == "Unknown tool: 'read_song_3'"

    @every("era", ERAS)
    async def test_has_tool_search_off_for_good_and_is_told_at_the_start(self, folder: Path, era: Era) -> None:
        server = large(folder, **SEARCHING, MCP_TOOL_SEARCH="off")
        (notice,) = server.surface.operator.notices
        assert notice.startswith("tool search is off by env MCP_TOOL_SEARCH, which no_match=search cannot lift: ")
        async with Client(server, mode=era) as client:
            assert (await listed(client, query=UNFIT))[0] == list(NAMES)
            assert await said(client, "tool_search", {"query": "song"}) == "Unknown tool: 'tool_search'"

    async def test_is_told_by_which_of_its_settings_it_is_off(self, folder: Path) -> None:
        server = large(folder, **SEARCHING)
        server.surface.launch(read_cli([("--tool-search", "off")]))
        (notice,) = server.surface.operator.notices
        assert notice.startswith("tool search is off by option --tool-search, which no_match=search cannot lift: ")

    async def test_is_told_nothing_where_tool_search_may_stand_in(self, folder: Path) -> None:
        assert large(folder, **SEARCHING).surface.operator.notices == []

    @pytest.mark.outside
    async def test_means_answers_that_could_not_be_made_too(self, folder: Path) -> None:
        server = large(folder, **SEARCHING, MCP_GRAPH="neo4j", NEO4J_URI="bolt://127.0.0.1:1", MCP_RANKER="off")
        async with Client(server) as client:
            names, told = await listed(client, query="export a passport")
            assert (names, told["status"]) == (ENTRY, "unavailable")
            result = await client.call_tool("tool_search", {"query": "export a passport"})
            assert result.structured_content is not None
            assert result.structured_content["tools"][0]["name"].startswith("export_passport_")


async def test_no_answer_moves_because_a_tool_is_there_that_is_denied(tmp_path: Path) -> None:
    unfit = {"_meta": selection_meta(query=UNFIT, active=[DENIED[0], NAMES[0]], pin=[DENIED[1]])}
    questions: list[Question] = [
        ("tools/list", {"_meta": selection_meta(query=UNFIT)}),
        ("tools/list", unfit),
        ("tools/list", {"_meta": selection_meta(query=DENIED[0])}),
        ("tools/list", {"_meta": selection_meta(query=UNFIT, tools=[*NAMES[:50], *DENIED])}),
        searched(f"select:{DENIED[0]},{NAMES[0]}"),
        searched("open the vault", max_results=25),
        searched("open", server="vault"),
        call(DENIED[0]),
        call("call_tool", name=DENIED[0]),
        ("tools/call", {**call("tool_search", query="song", max_results=1)[1], **unfit}),
        ("tools/list", {"_meta": selection_meta(query=UNFIT)}),
    ]
    seen, expected = [
        await transcript(large(tmp_path / str(denied), with_denied=denied, **SEARCHING), questions)
        for denied in (True, False)
    ]
    assert [pair for pair in zip(seen, expected, strict=True) if pair[0] != pair[1]][:1] == []
    assert any("tool_search" in answer and UNFIT in asked for asked, answer in seen)


class TestOverHttp:
    async def test_a_list_that_fits_nothing_is_kept_for_as_long_as_any_with_a_query(self, folder: Path) -> None:
        async with web_of(large(folder, **SEARCHING)) as web:
            result = (await ask(web, "/mcp?q=zxqv")).json()["result"]
            assert ([tool["name"] for tool in result["tools"]], result["ttlMs"]) == (ENTRY, 5000)
            assert result["cacheScope"] == "private"

    @pytest.mark.outside
    async def test_a_list_that_could_not_be_made_is_not_kept(self, folder: Path) -> None:
        server = large(folder, **SEARCHING, MCP_GRAPH="neo4j", NEO4J_URI="bolt://127.0.0.1:1", MCP_RANKER="off")
        async with web_of(server) as web:
            result = (await ask(web, "/mcp?q=song")).json()["result"]
            assert ([tool["name"] for tool in result["tools"]], result["ttlMs"]) == (ENTRY, 0)

    async def test_the_revision_is_that_of_the_list_of_everything(self, folder: Path) -> None:
        revisions = []
        for given in ({}, SEARCHING):
            async with web_of(large(folder, **given)) as web:
                revisions.append((await web.get("/tools?q=zxqv")).json()["revision"])
        assert revisions[0] == revisions[1]
