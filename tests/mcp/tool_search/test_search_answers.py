"""A search's result tells a caller without a session the set that it may bring with its next request."""

from __future__ import annotations

import pytest

from tests.mcp.in_process import web_of
from tests.mcp.tool_search.conversation import Stateless, names_in, result_of
from tests.wire.search_questions import META, searched
from tests.wire.search_server import search_server

pytestmark = pytest.mark.anyio
DEFERRED = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "on"}


async def test_a_client_and_a_program_are_told_the_same_set_and_it_lists_what_was_found() -> None:
    async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
        caller = Stateless(web)
        found = result_of(await caller.ask(*searched("select:read_note")))
        active = found["_meta"][META]["active"]
        assert active == found["structuredContent"]["active"]
        assert names_in(await caller.ask("tools/list", {"_meta": {META: {"active": active}}})) == ["read_note"]


async def test_a_number_of_results_may_come_as_text() -> None:
    async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
        answer = result_of(await Stateless(web).ask(*searched("note", max_results="1")))
        assert len(answer["structuredContent"]["tools"]) == 1
