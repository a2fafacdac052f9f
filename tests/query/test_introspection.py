"""What a server's own index is made of: the same documents that `eval` reads from a file of its tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP

from agent_utilities import create_mcp_server
from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.cli.evaluation.data import read_tools
from agent_utilities.query.introspection import Introspection, caller_scope
from agent_utilities.seam.components import given_name
from agent_utilities.seam.whole_catalog import WholeCatalog
from agent_utilities.selection.model import NOTHING
from tests.every import every

pytestmark = pytest.mark.anyio
ROWS = [
    {"id": "1", "server": "travelNotes", "name": "analyzeEvidence", "description": "Say what became of it."},
    {"id": "2", "server": "travelNotes", "name": "git_log", "description": "List commits.", "tags": ["git", "read"]},
    {"id": "3", "server": "music", "name": "play_song", "description": "Play it.", "title": "Sing along"},
]


async def test_the_index_served_is_the_index_measured(tmp_path: Path) -> None:
    server = create_mcp_server("travelNotes")
    servers: dict[str, FastMCP[Any]] = {"travelNotes": server, "music": FastMCP("music")}
    for row in ROWS:
        tags = set(row.get("tags", ()))
        servers[str(row["server"])].tool(
            lambda: "", name=row["name"], title=row.get("title"), description=row["description"], tags=tags
        )
    server.mount(servers["music"])
    (tmp_path / "tools.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    measured = {tool.document for tool in read_tools(tmp_path / "tools.jsonl")}
    served = await Introspection(server, server.offered(WholeCatalog)[0], lambda: None).live_tools()
    assert set(served.documents) == measured


def test_scopes_that_hold_different_tools_are_told_apart_whatever_the_names() -> None:
    server = create_mcp_server("scopes", environ={})
    catalog = Catalog(tuple(entry("tool", name) for name in ("a, b", "a,b", "a", "b", "c")))
    refusals = [frozenset({"a,b"}), frozenset({"a, b"}), frozenset({"a", "b"}), frozenset({"a"}), frozenset[str]()]
    verdict, whole = server.verdict(NOTHING), server.offered(WholeCatalog)[0]
    scopes = [caller_scope(whole, verdict, catalog, refused) for refused in refusals]
    assert len({each.names() for each in scopes}) == len({each.digest for each in scopes}) == len(refusals)


@every(
    ("server", "name"),
    [
        (FastMCP("abba-1234"), "abba-1234"),
        (FastMCP(), ""),
        (FastMCP(FastMCP.generate_name("abba")), "abba"),
        (create_mcp_server("notes"), "notes"),
    ],
)
def test_a_name_drawn_at_random_is_none(server: FastMCP[Any], name: str) -> None:
    assert given_name(server) == name
