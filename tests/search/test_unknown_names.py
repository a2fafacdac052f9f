"""Names given to tool search that no tool bears are told, as those of bounds are."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from agent_utilities.server.command_line.listing import print_listing
from tests.search.test_active_set import shop
from tests.server.in_process import ask, web_of

pytestmark = pytest.mark.anyio


async def test_a_caller_is_told_of_his_own(tmp_path):
    for query in ["pin=read_fotos,read_photo", "active=read_fotos,read_photo"]:
        async with web_of(shop(MCP_GRAPH_FOLDER=str(tmp_path))) as web:
            result = (await ask(web, f"/mcp?{query}")).json()["result"]
        assert result["_meta"]["agent-utilities/selection"]["unknown"] == {"read_fotos": "read_photo"}


async def test_a_name_that_is_denied_reads_like_one_that_never_was(tmp_path):
    async with web_of(shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_DISABLED_TOOLS="read_photo")) as web:
        result = (await ask(web, "/mcp?pin=read_photo&active=read_photos")).json()["result"]
    unknown = result["_meta"]["agent-utilities/selection"]["unknown"]
    assert set(unknown) == {"read_photo", "read_photos"}
    assert "read_photo" not in unknown.values()


async def test_a_caller_is_not_told_of_what_the_operator_pinned(tmp_path):
    async with web_of(shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_PINNED_TOOLS="no_such_tool")) as web:
        result = (await ask(web, "/mcp?pin=read_photo")).json()["result"]
    assert "unknown" not in result["_meta"]["agent-utilities/selection"]


async def test_the_operator_is_told_of_his_by_a_listing(tmp_path):
    with redirect_stdout(io.StringIO()) as out:
        server = shop(MCP_GRAPH_FOLDER=str(tmp_path), MCP_PINNED_TOOLS="read_fotos")
        await print_listing(server, as_json=False)
    assert "no component bears the name 'read_fotos'; did you mean 'read_photo'?" in " ".join(out.getvalue().split())


async def test_the_plain_list_says_what_the_caller_asked_of_tool_search(tmp_path):
    async with web_of(shop(MCP_GRAPH_FOLDER=str(tmp_path))) as web:
        body = (await web.get("/tools?tool_search=auto&pin=read_photo&max_active=3&active=export_photo")).json()
    assert body["selection"]["caller"] == {
        "pins": ["read_photo"],
        "tool_search": "auto",
        "active": "export_photo",
        "max_active": 3,
    }
