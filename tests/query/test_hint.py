"""Where words alone rank for want of a model, operators and callers are told what brings one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agent_utilities import create_mcp_server
from agent_utilities.query.ranking import minilm
from tests.server.in_process import ask, web_of

pytestmark = pytest.mark.anyio
KEY = "agent-utilities/selection"
COMMAND = "`agent-utilities embeddings install` (84 MB"


@pytest.fixture
def without_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(minilm, "DISTRIBUTION", "no-such-wheel")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


async def told(folder: Path, *queries: str, **environ: str) -> list[dict[str, Any]]:
    """Return what a client is told beside its lists."""
    environ = {"MCP_GRAPH_FOLDER": str(folder), "MCP_GRAPH_DEADLINE_MS": "10000", **environ}
    server = create_mcp_server("words", environ=environ)
    server.tool(lambda: "", name="read_note", description="Reads a note")
    server.tool(lambda: "", name="drop_table", description="Drops a table")
    async with web_of(server) as web:
        lists = [(await ask(web, f"/mcp?q={query}")).json() for query in queries]
    return [listed["result"]["_meta"][KEY] for listed in lists]


@pytest.mark.usefixtures("without_model")
class TestWithoutAModel:
    async def test_an_answered_list_and_one_that_nothing_fits_say_what_brings_one(self, tmp_path: Path) -> None:
        found, none = await told(tmp_path, "reads a note", "zebra")
        assert (found["ranked"], none["status"]) == (["read_note"], "no_match")
        assert COMMAND in found["hint"]
        assert COMMAND in none["hint"]

    async def test_a_list_without_words_says_nothing_of_it(self, tmp_path: Path) -> None:
        (plain,) = await told(tmp_path, "")
        assert "hint" not in plain

    async def test_it_is_logged_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "agent_utilities"):
            await told(tmp_path, "reads a note", "zebra")
        assert caplog.text.count(COMMAND) == 1

    async def test_who_wants_words_alone_is_told_nothing(self, tmp_path: Path) -> None:
        (found,) = await told(tmp_path, "reads a note", MCP_RANKER="lexical")
        assert "hint" not in found
