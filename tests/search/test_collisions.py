"""An author's own tools may be named as the entry tools are: his answer, where the caller may use them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent_utilities import AgentServer
from tests.every import every
from tests.search.conversation import Asking, InSession, Stateless, result_of, transcript
from tests.server.in_process import web_of
from tests.wire.search_questions import META, call, searched
from tests.wire.search_server import LEAKED, search_server

pytestmark = pytest.mark.anyio
OWN = ("tool_search", "call_tool", "search_tools")


def server(*, has_own: bool = True, **environ: str) -> AgentServer:
    given = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "on", **environ}
    mcp = search_server(with_denied=False, environ=given)
    for name in OWN if has_own else ():

        @mcp.tool(name=name, tags={"own"}, description=f"{LEAKED} {name} of the author's.")
        def own(query: str = "", name: str = "", arguments: dict[str, Any] | None = None) -> str:
            return LEAKED

    return mcp


async def listed(caller: Asking) -> list[str]:
    return [tool["name"] for tool in result_of(await caller.ask("tools/list"))["tools"]]


class TestPermitted:
    async def test_a_call_of_the_name_is_the_authors_tool(self) -> None:
        for name in OWN:
            async with web_of(server()) as web:
                for caller in (Stateless(web), await InSession.open(web)):
                    assert result_of(await caller.ask(*call(name, query="note")))["content"][0]["text"] == LEAKED

    async def test_the_entry_tools_have_other_names_that_work(self) -> None:
        async with web_of(server()) as web:
            caller = Stateless(web)
            assert await listed(caller) == ["mcp_tool_search", "mcp_call_tool"]
            found = result_of(await caller.ask(*call("mcp_tool_search", query="select:tool_search,read_note")))
            assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["tool_search", "read_note"]
            own = await caller.ask(*call("mcp_call_tool", name="call_tool", arguments={"name": "read_note"}))
            assert result_of(own)["content"][0]["text"] == LEAKED

    async def test_their_texts_name_them_as_they_are(self) -> None:
        async with web_of(server()) as web:
            tools = result_of(await Stateless(web).ask("tools/list"))["tools"]
        texts = " ".join(tool["description"] for tool in tools)
        assert re.findall(r"\b(tool_search|call_tool)\b", texts) == []


class TestDenied:
    async def test_one_that_bounds_deny_is_as_if_it_never_was(self) -> None:
        for bound in [{"MCP_DISABLED_TAGS": "own"}, {"MCP_READ_ONLY": "true"}]:
            seen = await transcript(server(**bound))
            assert seen == await transcript(server(has_own=False, **bound))

    @every("has_own", [True, False])
    async def test_a_deny_of_tool_search_by_name_defers_nothing(self, *, has_own: bool) -> None:
        async with web_of(server(has_own=has_own, MCP_DISABLED_TOOLS=",".join(OWN))) as web:
            for caller in (Stateless(web), await InSession.open(web)):
                assert len(await listed(caller)) == 10
                for question in (searched("note"), call("call_tool", name="read_note"), call("mcp_load", query="note")):
                    assert b"Unknown tool" in await caller.ask(*question)

    async def test_a_deny_of_call_tool_by_name_leaves_search_alone(self) -> None:
        async with web_of(server(has_own=False, MCP_DISABLED_TOOLS="call_tool")) as web:
            for caller in (Stateless(web), await InSession.open(web)):
                assert await listed(caller) == ["tool_search"]
                assert b"call_tool" not in await caller.ask("tools/list")
                assert b"Unknown tool: 'call_tool'" in await caller.ask(*call("call_tool", name="read_note"))
                found = await caller.ask(*searched("read a note"))
                assert b"read_note" in found
                assert b"call_tool" not in found

    async def test_a_caller_may_deny_them_to_himself(self) -> None:
        async with web_of(server(has_own=False)) as web:
            own = {"_meta": {META: {"disabled_tools": "tool_search"}}}
            assert len(result_of(await Stateless(web).ask("tools/list", own))["tools"]) == 10


class TestAliases:
    async def test_an_alias_is_unknown_where_nothing_is_deferred(self) -> None:
        for alias in ["mcp_load", "ToolSearch", "search_tools"]:
            async with web_of(server(has_own=False, MCP_TOOL_SEARCH="off")) as web:
                seen, unknown = [await Stateless(web).ask(*call(name, query="note")) for name in (alias, "no_tool")]
                assert seen.replace(alias.encode(), b"no_tool") == unknown

    async def test_a_deny_of_an_alias_by_name_holds_on_it(self) -> None:
        for alias in ["mcp_load", "ToolSearch", "search_tools"]:
            async with web_of(server(has_own=False, MCP_DISABLED_TOOLS=alias)) as web:
                assert f"Unknown tool: '{alias}'".encode() in await Stateless(web).ask(*call(alias, query="note"))
                assert b"read_note" in await Stateless(web).ask(*searched("read a note"))
