"""What a server's author adds in FastMCP's own ways (caches, search, indirect calls, auth) lifts no bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.every import every
from tests.wire.expected import LEAKED, absent
from tests.wire.processes import Launch, served
from tests.wire.wires import HTTP_WIRES, Access, Answer, Caller, WireName, names

DENIES = (("MCP_DISABLED_TAGS", "delete"),)
SUMMARY = "agent-utilities/selection"


@contextmanager
def into(script: str) -> Iterator[Access]:
    with served(Launch(env=DENIES, script=script)) as process, closing(Access(process.url)) as access:
        yield access


def call(caller: Caller, tool: str, /, **arguments: str) -> Answer:
    return caller.ask("tools/call", {"name": tool, "arguments": arguments})


ADMIN, USER = ("authorization", "Bearer admin"), ("authorization", "Bearer user")


@pytest.fixture(scope="module")
def indirect() -> Iterator[Access]:
    """A server whose permitted tools reach for others."""
    with into("indirect_server.py") as access:
        yield access


@pytest.fixture(scope="module")
def caching() -> Iterator[Access]:
    """A server whose cache is filled by a caller that set no bound."""
    with into("caching_server.py") as access:
        with access.calling("modern") as caller:
            for method in ("tools/list", "prompts/list", "resources/list"):
                names(caller, method)
            call(caller, "second")
            caller.ask("prompts/get", {"name": "ask"})
            caller.ask("resources/read", {"uri": "note://open"})
        yield access


@pytest.fixture(scope="module")
def roles() -> Iterator[Access]:
    """A server whose administrator has listed everything."""
    with into("roles_server.py") as access:
        with access.calling("modern", headers=[ADMIN]) as admin:
            for method in ("tools/list", "prompts/list", "resources/list"):
                names(admin, method)
        yield access


class TestIndirectCalls:
    @every("http_wire", HTTP_WIRES)
    def test_search_finds_what_is_permitted(self, indirect: Access, http_wire: WireName) -> None:
        with indirect.calling(http_wire) as caller:
            assert b"read_note" in call(caller, "search_tools", query="note").raw

    @every("http_wire", HTTP_WIRES)
    def test_search_finds_nothing_denied(self, indirect: Access, http_wire: WireName) -> None:
        with indirect.calling(http_wire) as caller:
            assert LEAKED.encode() not in call(caller, "search_tools", query="wipes a note").raw

    @every("http_wire", HTTP_WIRES)
    def test_search_finds_nothing_outside_the_callers_bound(self, indirect: Access, http_wire: WireName) -> None:
        with indirect.calling(http_wire, "?tools=search_tools,read_note") as caller:
            assert b"count_notes" not in call(caller, "search_tools", query="note").raw

    @every("http_wire", HTTP_WIRES)
    @every(
        ("tool", "key", "name"),
        [
            ("call_tool", "name", "wipe_note"),
            ("forward", "name", "wipe_note"),
            ("get_prompt", "name", "plot"),
            ("read_resource", "uri", "plan://secret"),
        ],
    )
    def test_what_a_tool_reaches_for_is_refused_like_the_unknown(
        self, indirect: Access, http_wire: WireName, tool: str, key: str, name: str
    ) -> None:
        with indirect.calling(http_wire) as caller:
            seen = [
                call(caller, tool, **{key: guess}).raw.replace(guess.encode(), b"?") for guess in (name, absent(name))
            ]
        assert seen[0] == seen[1]

    @every("http_wire", HTTP_WIRES)
    @every("tool", ["list_prompts", "list_resources"])
    def test_a_list_by_way_of_a_tool_holds_nothing_denied(
        self, indirect: Access, http_wire: WireName, tool: str
    ) -> None:
        with indirect.calling(http_wire) as caller:
            answer = call(caller, tool)
            assert (answer.refused, LEAKED.encode() in answer.raw) == (False, False)

    @every("http_wire", HTTP_WIRES)
    def test_session_visibility_does_not_lift_the_operators_deny(self, indirect: Access, http_wire: WireName) -> None:
        with indirect.calling(http_wire) as caller:
            call(caller, "unlock")
            assert LEAKED.encode() not in call(caller, "wipe_note").raw


class TestCachedAnswers:
    @every("http_wire", HTTP_WIRES)
    def test_the_operators_deny_stands_before_the_cache(self, caching: Access, http_wire: WireName) -> None:
        with caching.calling(http_wire) as caller:
            assert (names(caller, "tools/list"), call(caller, "third").refused) == (["first", "second"], True)

    @every("http_wire", HTTP_WIRES)
    @every(("method", "shown"), [("tools/list", ["first"]), ("prompts/list", []), ("resources/list", [])])
    def test_a_cached_list_is_bound_by_its_caller(
        self, caching: Access, http_wire: WireName, method: str, shown: list[str]
    ) -> None:
        with caching.calling(http_wire, "?tools=first") as caller:
            assert names(caller, method) == shown

    @every("http_wire", HTTP_WIRES)
    @every(
        ("method", "params"),
        [
            ("tools/call", {"name": "second", "arguments": {}}),
            ("prompts/get", {"name": "ask"}),
            ("resources/read", {"uri": "note://open"}),
        ],
    )
    def test_a_cached_answer_is_bound_by_its_caller(
        self, caching: Access, http_wire: WireName, method: str, params: dict[str, Any]
    ) -> None:
        with caching.calling(http_wire, "?tools=first") as caller:
            assert caller.ask(method, params).refused


class TestAnotherUsersComponents:
    """What a component's own `auth` keeps from a user reads like what never existed, whoever asked before."""

    @every("path", ["/tools", "/context", "/metrics"])
    def test_the_routes_need_the_token_that_mcp_needs(self, roles: Access, path: str) -> None:
        assert roles.http.get(path).status == 401

    def test_a_user_lists_only_what_is_shared(self, roles: Access) -> None:
        with roles.calling("modern", headers=[USER]) as user:
            assert names(user, "tools/list") == ["shared"]

    @every("name", ["boss_tool", absent("boss_tool")])
    def test_a_name_of_a_tool_is_told_from_no_other(self, roles: Access, name: str) -> None:
        assert told_unknown(roles, name) == {name}

    @every("name", ["boss_plan", "boss_desk", "boss://desk"])
    def test_a_name_of_another_kind_is_told_from_no_other(self, roles: Access, name: str) -> None:
        assert told_unknown(roles, name) == {name}


def told_unknown(roles: Access, name: str) -> set[str]:
    """Return the names that a user is told are unknown, when it asks for one."""
    with roles.calling("modern", f"?tools=shared,{name}", [USER]) as user:
        return set(user.ask("tools/list").result["_meta"][SUMMARY].get("unknown", {}))
