"""A search's result tells a caller without a session the set that it may bring with its next request."""

from __future__ import annotations

import pytest

from agent_utilities import create_mcp_server
from tests.every import every
from tests.search.conversation import Stateless, names_in, result_of
from tests.server.in_process import web_of
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


@every(("n_characters", "n_full"), [(50, 10), (1200, 5), (2200, 3)])
@every("with_denied", [False, True])
async def test_more_room_is_given_where_definitions_are_long_whatever_is_denied(
    n_characters: int, n_full: int, with_denied: bool
) -> None:
    mcp = create_mcp_server("archive", environ={**DEFERRED, "MCP_DISABLED_TAGS": "secret"})
    for number in range(24):
        is_denied = number % 2 == 1
        if with_denied or not is_denied:
            text = f"Read note {number}. {'x' * (20_000 if is_denied else n_characters)}"
            tags = {"secret"} if is_denied else set()
            mcp.tool(name=f"note_{number}", description=text, tags=tags)(lambda: "read")
    async with web_of(mcp) as web:
        told = result_of(await Stateless(web).ask(*searched("read a note")))["structuredContent"]
    assert (len(told["tools"]), len(told.get("more", []))) == (n_full, 10 - n_full)
