"""What one caller has loaded is in nobody else's list, and gone with his session."""

from __future__ import annotations

import asyncio
import gc
import json
from itertools import cycle, islice
from typing import Any
from weakref import WeakSet

import pytest
from fastmcp import Client, Context
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities.seam.session import Session
from agent_utilities.search.active_set import kept as kept_of
from tests.every import every
from tests.search.conversation import InSession, Stateless, names_in, result_of
from tests.server.in_process import web_of
from tests.wire.search_questions import META, call, searched
from tests.wire.search_server import PERMITTED, search_server

pytestmark = pytest.mark.anyio
DEFERRED = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "on"}
N_SESSIONS = 200


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> WeakSet[Session]:
    """The sessions that are still held by anything."""
    made: WeakSet[Session] = WeakSet()
    begin = Session.__init__

    def noted(session: Session, *arguments: Any) -> None:
        begin(session, *arguments)
        made.add(session)

    monkeypatch.setattr(Session, "__init__", noted)
    return made


class TestSessions:
    async def test_each_of_two_hundred_at_once_is_listed_only_what_it_loaded(self) -> None:
        async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
            sessions = await asyncio.gather(*(InSession.open(web) for _ in range(N_SESSIONS)))

            async def talk(place: int, session: InSession) -> tuple[list[str], list[str]]:
                first, second, third = islice(cycle(PERMITTED), place, place + 3)
                await session.ask(*searched(f"select:{first}"))
                await session.ask(*call(second))
                await session.ask(*call("call_tool", name=third))
                return names_in(await session.ask("tools/list")), [first, second, third]

            for listed, loaded in await asyncio.gather(*(talk(*each) for each in enumerate(sessions))):
                assert listed == loaded
            stateless = await Stateless(web).ask("tools/list")
            assert names_in(stateless) == []

    async def test_nothing_is_left_of_one_that_ended(self, kept: WeakSet[Session]) -> None:
        async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
            sessions = await asyncio.gather(*(InSession.open(web) for _ in range(20)))
            for session in sessions:
                await session.ask(*searched("note"))
                await session.ask("tools/list")
            assert len(kept) == 20
            await asyncio.gather(*(session.close() for session in sessions[1:]))
            async with asyncio.timeout(60):
                while len(kept) > 1:
                    gc.collect()
                    await asyncio.sleep(0)
            assert names_in(await sessions[0].ask("tools/list")) != []

    async def test_nothing_is_left_of_one_over_a_pipe(self, kept: WeakSet[Session]) -> None:
        async with Client(search_server(with_denied=False, environ=DEFERRED), mode="legacy") as client:
            await client.call_tool("tool_search", {"query": "select:read_note"})
            assert len(kept) == 1
        async with asyncio.timeout(60):
            while kept:
                gc.collect()
                await asyncio.sleep(0)

    async def test_requests_that_stand_alone_make_none(self, kept: WeakSet[Session]) -> None:
        async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
            for question in (("tools/list", {}), searched("note"), call("read_note"), ("server/discover", {})):
                await Stateless(web).ask(*question)
        assert not kept

    async def test_one_that_defers_nothing_is_as_empty_as_it_began(self, kept: WeakSet[Session]) -> None:
        async with web_of(search_server(with_denied=False, environ={**DEFERRED, "MCP_TOOL_SEARCH": "off"})) as web:
            session = await InSession.open(web)
            await session.ask("tools/list", {"_meta": {META: {"query": "note"}}})
            await session.ask(*call("read_note"))
            assert [kept_of(each).active.names for each in kept] == [()]


class TestRequestsThatStandAlone:
    async def test_one_that_names_anothers_session_neither_sees_nor_changes_its_set(self) -> None:
        async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
            session = await InSession.open(web)
            await session.ask(*searched("select:read_note"))
            borrowed = {"mcp-session-id": session.session}
            thief = Stateless(web)
            listed = await thief.ask("tools/list", **borrowed)
            await thief.ask(*searched("select:send_mail"), **borrowed)
            await thief.ask(*call("draw_chart"), **borrowed)
            assert b"read_note" not in listed
            assert names_in(await session.ask("tools/list")) == ["read_note"]

    async def test_an_active_value_of_one_is_in_no_other_request(self) -> None:
        async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
            caller = Stateless(web)
            asked = [
                caller.ask("tools/list", {"_meta": {META: {"active": name}}} if name else {})
                for name in [*PERMITTED, *[""] * 10]
            ]
            assert [names_in(each) for each in await asyncio.gather(*asked)] == [
                *([name] for name in PERMITTED),
                *[[]] * 10,
            ]


class TestTokens:
    @staticmethod
    def bearer(name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {name}"}

    async def test_callers_of_two_tokens_have_two_sets_and_neither_gets_at_the_others_session(self) -> None:
        tokens = {name: {"client_id": name, "scopes": []} for name in ("ann", "bob")}
        mcp = search_server(with_denied=False, environ=DEFERRED, auth=StaticTokenVerifier(tokens=tokens))
        async with web_of(mcp) as web:
            ann, bob = [await InSession.open(web, **self.bearer(name)) for name in ("ann", "bob")]
            await ann.ask(*searched("select:read_note"), **self.bearer("ann"))
            assert names_in(await bob.ask("tools/list", **self.bearer("bob"))) == []
            stolen = await ann.ask("tools/list", **self.bearer("bob"))
            assert b"read_note" not in stolen
            assert names_in(await ann.ask("tools/list", **self.bearer("ann"))) == ["read_note"]


class TestADenyThatComesLater:
    async def test_of_the_callers_own_beats_what_is_active_at_once(self) -> None:
        for header in ["x-mcp-disabled-tools", "x-mcp-disabled-tags"]:
            value = {"x-mcp-disabled-tools": "read_note", "x-mcp-disabled-tags": "note"}[header]
            async with web_of(search_server(with_denied=False, environ=DEFERRED)) as web:
                session = await InSession.open(web)
                await session.ask(*searched("select:read_note,send_mail"))
                listed = await session.ask("tools/list", **{header: value})
                found = result_of(await session.ask(*searched("select:read_note"), **{header: value}))
                called = result_of(await session.ask(*call("read_note"), **{header: value}))
                assert names_in(listed) == ["send_mail"]
                assert result_of(listed)["_meta"][META]["active"] == "send_mail"
                assert "read_note" not in json.dumps([found["structuredContent"]["tools"], found["_meta"]])
                assert called["content"][0]["text"] == "Unknown tool: 'read_note'"

    @every("is_removed", [True, False])
    async def test_of_the_author_beats_it_too(self, *, is_removed: bool) -> None:
        mcp = search_server(with_denied=False, environ=DEFERRED)
        async with web_of(mcp) as web:
            session = await InSession.open(web)
            await session.ask(*searched("select:read_note,send_mail"))
            if is_removed:
                mcp.local_provider.remove_tool("read_note")
            else:
                mcp.disable(names={"read_note"})
            told = [
                await session.ask(*each) for each in (("tools/list", {}), searched("read a note"), call("send_mail"))
            ]
            assert names_in(told[0]) == ["send_mail"]
            assert [b"read_note" in each for each in told] == [False] * 3
            assert b"Unknown tool" in await session.ask(*call("read_note"))
            seen = await session.ask(*searched("select:read_note"))
        mcp = search_server(with_denied=False, environ=DEFERRED)
        mcp.local_provider.remove_tool("read_note")
        async with web_of(mcp) as web:
            session = await InSession.open(web)
            for each in (searched("select:read_note,send_mail"), searched("read a note"), call("send_mail")):
                await session.ask(*each)
            assert seen == await session.ask(*searched("select:read_note"))

    async def test_of_the_session_itself_beats_it_too(self) -> None:
        mcp = search_server(with_denied=False, environ=DEFERRED)

        @mcp.tool
        async def lock(ctx: Context) -> str:
            await ctx.disable_components(names={"read_note"})
            return "locked"

        async with web_of(mcp) as web:
            session, other = await InSession.open(web), await InSession.open(web)
            for each in (session, other):
                await each.ask(*searched("select:read_note,send_mail"))
            await session.ask(*call("lock"))
            assert "read_note" not in names_in(await session.ask("tools/list"))
            found = result_of(await session.ask(*searched("select:read_note")))["structuredContent"]
            assert found["tools"] == []
            assert "read_note" not in found["unknown"]["read_note"]
            assert b"Unknown tool" in await session.ask(*call("call_tool", name="read_note"))
            assert "read_note" in names_in(await other.ask("tools/list"))
