"""A caller's own bound holds for it: on lists, on calls, on every HTTP wire, and for the whole of an SSE connection."""

from __future__ import annotations

import pytest

from agent_utilities.selection.channels import FIELDS
from tests.every import every, every_of
from tests.wire.expected import HASHED, PROMPTS, TOOLS, absent
from tests.wire.wires import HTTP_WIRES, Access, Caller, WireName, names

TAGGED = [name for name in TOOLS if name in ("read_note", "list_notes", "edit_note")]
"""The permitted tools with the tag `notes`."""


def asked(field: str, channel: str) -> list[str]:
    """Return every spelling of a field in a channel of the caller's."""
    return [key for each in FIELDS if each.name == field for key in each.spellings(channel)]


ALLOWS = [
    *(pytest.param(f"?{key}=read_note", [], id=f"?{key}") for key in asked("allow_tools", "query")),
    *(pytest.param("", [(key, "read_note")], id=key) for key in asked("allow_tools", "header")),
    pytest.param("/x/read_note", [], id="/x"),
    pytest.param("/x/READ_NOTE,wipe_notes/?tools=none", [], id="/x-with-a-denied-one"),
    pytest.param("/x/all", [("x-mcp-enabled-tools", "read_note")], id="header-over-path"),
    pytest.param("?tools=READ_NOTE", [], id="?tools-upper-case"),
    pytest.param("?tools=%EF%BD%92ead_note", [], id="?tools-full-width"),
    pytest.param("?TOOLS=read_note", [], id="?TOOLS"),
    pytest.param("?tools=read_note,wipe_notes", [], id="?tools-with-a-denied-one"),
    pytest.param("?tools=read_note&tools=", [], id="?tools-blank-too"),
    pytest.param("?tools=all", [("x-mcp-enabled-tools", "read_note")], id="header-over-query"),
    pytest.param("", [("X-MCP-ENABLED-tools", " read_note ")], id="header-mixed-case"),
    pytest.param("?tags=all", [("x-mcp-tools", "read_note"), ("x-mcp-enabled-tags", "read")], id="tools-and-tags"),
]
DENIES = [
    *(pytest.param(f"?{key}=list_notes", [], id=f"?{key}") for key in asked("deny_tools", "query")),
    *(pytest.param("", [(key, "list_notes")], id=key) for key in asked("deny_tools", "header")),
    pytest.param("?disabled_tools=list_notes", [("x-mcp-disabled-tools", "none")], id="query-deny-stands"),
    pytest.param("?disabled_tools=none", [("x-mcp-disabled-tools", "list_notes")], id="header-deny-stands"),
    pytest.param("?disabled_tools=LIST_*&tools=list_notes,all", [], id="deny-wins"),
]
TAGS = [
    *(pytest.param(f"?{key}=notes", [], id=f"?{key}") for key in asked("allow_tags", "query")),
    *(pytest.param("", [(key, "NOTES")], id=key) for key in asked("allow_tags", "header")),
]
WAYS_OUT = ["list_notes", "kid_peek", "far_look", "added_peek", "edit_note", HASHED]


def outcome(caller: Caller, name: str) -> tuple[int, bytes]:
    answer = caller.ask("tools/call", {"name": name, "arguments": {}})
    return answer.status, answer.raw.replace(name.encode(), b"?")


@every(("query", "headers"), ALLOWS)
class TestAllowed:
    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_only_what_was_asked_for_is_listed(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert names(caller, "tools/list") == ["read_note"]

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_what_was_asked_for_can_be_called(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert not caller.ask("tools/call", {"name": "read_note", "arguments": {"text": "x"}}).refused

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_all_else_is_refused_like_what_never_existed(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert {outcome(caller, name) for name in WAYS_OUT} == {outcome(caller, "nothing_here")}

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_prompts_are_bound_too(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert (names(caller, "prompts/list"), caller.ask("prompts/get", {"name": "greet"}).refused) == ([], True)

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_resources_are_bound_too(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            read = caller.ask("resources/read", {"uri": "note://open"})
            assert (names(caller, "resources/list"), read.refused) == ([], True)


@every(("query", "headers"), DENIES)
class TestDenied:
    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_what_the_caller_denied_is_not_listed(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert names(caller, "tools/list") == [name for name in TOOLS if name != "list_notes"]

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_what_the_caller_denied_reads_like_what_never_existed(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert outcome(caller, "list_notes") == outcome(caller, absent("list_notes"))


@every(("query", "headers"), TAGS)
class TestTagged:
    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_only_tools_with_the_tag_are_listed(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert names(caller, "tools/list") == TAGGED

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_no_tool_without_the_tag_can_be_called(
        self, http_wire: WireName, access: Access, query: str, headers: list[tuple[str, str]]
    ) -> None:
        with access.calling(http_wire, query, headers) as caller:
            assert outcome(caller, "kid_peek") == outcome(caller, absent("kid_peek"))


class TestNothing:
    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    @every("query", ["?tools=none", "?tools=nothing_here", "?tags=none", "?disabled_tools=all"])
    def test_an_empty_selection_is_an_empty_list(self, http_wire: WireName, access: Access, query: str) -> None:
        with access.calling(http_wire, query) as caller:
            assert names(caller, "tools/list") == []

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    @every("query", ["?tools=none", "?tools=nothing_here", "?tags=none", "?disabled_tools=all"])
    def test_an_empty_selection_permits_no_call(self, http_wire: WireName, access: Access, query: str) -> None:
        with access.calling(http_wire, query) as caller:
            assert {outcome(caller, name) for name in TOOLS} == {outcome(caller, "nothing_here")}


class TestPreferences:
    """A preference hides, and does not forbid."""

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_what_top_k_hides_can_be_called(self, http_wire: WireName, access: Access) -> None:
        with access.calling(http_wire, "?top_k=1") as caller:
            assert not caller.ask("tools/call", {"name": "list_notes", "arguments": {}}).refused

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_a_query_that_nothing_answers_hides_nothing(self, http_wire: WireName, access: Access) -> None:
        with access.calling(http_wire, "?q=zzzz") as caller:
            assert names(caller, "tools/list") == TOOLS


class TestNeighbours:
    """One caller's selection is no other's, even on one TCP connection and in one session."""

    @every_of("access", "accesses")
    @every("wire", ["legacy", "modern"])
    def test_the_next_request_is_not_bound_by_the_last(self, access: Access, wire: WireName) -> None:
        with access.calling(wire, "?tools=read_note") as bound:
            names(bound, "tools/list")
        with access.calling(wire) as free:
            assert names(free, "tools/list") == TOOLS

    @every_of("access", "accesses")
    def test_two_sse_connections_are_bound_each_by_its_own(self, access: Access) -> None:
        with access.calling("sse", "?tools=read_note") as first, access.calling("sse", "?tools=kid_peek") as second:
            seen = [names(caller, "tools/list") for caller in (first, second, first)]
        assert seen == [["read_note"], ["kid_peek"], ["read_note"]]


class TestSseConnection:
    @every_of("access", "accesses")
    def test_the_query_of_the_connection_is_in_its_message_url(self, access: Access) -> None:
        with access.calling("sse", "?tools=read_note&other=1") as caller:
            assert caller.endpoint.endswith("&tools=read_note")  # type: ignore[attr-defined]

    @every_of("access", "accesses")
    def test_a_bound_holds_for_every_request_of_the_connection(self, access: Access) -> None:
        with access.calling("sse", "?tools=read_note&disabled_tags=notes") as caller:
            assert [names(caller, "tools/list") for _ in range(3)] == [[], [], []]

    @every_of("access", "accesses")
    def test_a_post_narrows_the_connection_further(self, access: Access) -> None:
        with access.calling("sse", "?tools=read_note,list_notes") as caller:
            caller.endpoint += "&disabled_tools=list_notes"  # type: ignore[attr-defined]
            assert names(caller, "tools/list") == ["read_note"]

    @every_of("access", "accesses")
    @every("value", ["read_note%26tools%3Dall", "read_note%0D%0Adata%3A%20/x", "read_note%23", "a%20b+c"])
    def test_a_value_cannot_break_out_of_the_message_url(self, access: Access, value: str) -> None:
        with access.calling("sse", f"?tools={value}") as caller:
            first = caller.ask("tools/list")
            assert first.status == 400 or names(caller, "tools/list") == []


@every_of("access", "accesses")
@every("wire", ["legacy", "modern"])
def test_prompts_are_allowed_by_name_like_tools(access: Access, wire: WireName) -> None:
    with access.calling(wire, "?tools=read_note,greet,story,kid_hello") as caller:
        assert names(caller, "prompts/list") == PROMPTS
