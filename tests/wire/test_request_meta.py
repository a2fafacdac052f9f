"""A caller that scopes one request by its `_meta`, over every wire: for that request it holds, and for no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.selection.channels import META_KEY
from tests.wire.expected import DENIED_TOOLS, LAUNCHES, PROMPTS, RESOURCES, TOOLS, absent
from tests.wire.processes import Launch
from tests.wire.wires import HTTP_WIRES, Access, Caller, stdio_caller

Callers = Mapping[str, Caller]


@pytest.fixture(scope="module")
def callers(accesses: Mapping[str, Access]) -> Iterator[Callers]:
    """A caller without headers or query on each wire, to the server that is bounded by environment."""
    with ExitStack() as stack:
        yield {
            "stdio": stack.enter_context(stdio_caller(LAUNCHES["env"])),
            **{wire: stack.enter_context(accesses["env"].calling(wire)) for wire in HTTP_WIRES},
        }


def meta(**selection: Any) -> dict[str, Any]:
    return {"_meta": {META_KEY: selection}}


def listed(caller: Caller, method: str = "tools/list", **selection: Any) -> list[str]:
    result = caller.ask(method, meta(**selection)).result
    key = "resourceTemplates" if method == "resources/templates/list" else method.removesuffix("/list")
    return [component.get("uriTemplate") or component.get("uri") or component["name"] for component in result[key]]


def on_each(callers: Callers, asked: Any) -> dict[str, Any]:
    return {wire: asked(caller) for wire, caller in callers.items()}


def everywhere(callers: Callers, expected: Any) -> dict[str, Any]:
    return dict.fromkeys(callers, expected)


def test_a_list_shows_exactly_what_it_asks_for(callers: Callers):
    shown = on_each(callers, lambda caller: listed(caller, tools=["read_note", "kid_peek"]))
    assert shown == everywhere(callers, ["read_note", "kid_peek"])


def test_prompts_and_resources_are_under_it_too(callers: Callers):
    assert on_each(callers, lambda caller: listed(caller, "prompts/list", tools=["greet"])) == everywhere(
        callers, ["greet"]
    )
    assert on_each(callers, lambda caller: listed(caller, "resources/list", disabled_tools=["note://open"])) == (
        everywhere(callers, [uri for uri in RESOURCES if uri != "note://open"])
    )


def test_the_next_request_is_not_bound_by_it(callers: Callers):
    def asked_twice(caller: Caller) -> list[str]:
        listed(caller, tools=["read_note"])
        return listed(caller)

    assert on_each(callers, asked_twice) == everywhere(callers, TOOLS)


def test_it_never_widens_what_the_operator_permits(callers: Callers):
    for selection in ({"tools": ["all"]}, {"tools": DENIED_TOOLS}, {"disabled_tags": []}, {"read_only": False}):
        shown = on_each(callers, lambda caller, given=selection: set(listed(caller, **given)) - set(TOOLS))
        assert shown == everywhere(callers, set()), selection
    assert on_each(callers, lambda caller: listed(caller, "prompts/list", tools=["all"])) == everywhere(
        callers, PROMPTS
    )


def test_a_call_of_what_it_denies_reads_like_one_of_what_never_was(callers: Callers):
    def call(caller: Caller, name: str) -> bytes:
        answer = caller.ask("tools/call", {"name": name, "arguments": {}, **meta(tools=["read_note"])})
        assert answer.refused
        return answer.raw.replace(name.encode(), b"?")

    never = absent("list_notes")
    assert on_each(callers, lambda caller: call(caller, "list_notes") == call(caller, never)) == (
        everywhere(callers, True)
    )


def test_a_call_of_what_it_permits_is_served(callers: Callers):
    asked = {"name": "list_notes", "arguments": {}, **meta(tools=["list_notes"])}
    assert on_each(callers, lambda caller: caller.ask("tools/call", asked).refused) == everywhere(callers, False)


def test_what_is_malformed_is_refused_with_the_key_it_came_from(callers: Callers):
    def refused(caller: Caller) -> Any:
        error = caller.ask("tools/list", meta(disabled_tag=["write"])).message["error"]
        return error["code"], error["data"]["source"], error["data"]["hint"]

    assert on_each(callers, refused) == everywhere(
        callers, (-32602, "_meta disabled_tag", "did you mean disabled_tags?")
    )


def test_a_malformed_one_refuses_a_call_before_it_runs(callers: Callers):
    asked = {"name": "list_notes", "arguments": {}, **meta(tools=5)}
    assert on_each(callers, lambda caller: caller.ask("tools/call", asked).message["error"]["code"]) == (
        everywhere(callers, -32602)
    )


def test_what_was_asked_for_is_told_in_the_result(callers: Callers):
    def told(caller: Caller) -> Any:
        asked = meta(tools=["read_note", "read_notes"], top_k=1)
        summary = caller.ask("tools/list", asked).result["_meta"][META_KEY]
        return summary["permitted"], summary["visible"], summary["unknown"]

    assert on_each(callers, told) == everywhere(callers, (1, 1, {"read_notes": "read_note"}))


def test_it_stands_over_the_header_and_the_header_over_the_url(accesses: Mapping[str, Access]):
    shown = {}
    for wire in HTTP_WIRES:
        query, headers = "?tools=kid_peek", [("x-mcp-enabled-tools", "list_notes")]
        with accesses["env"].calling(wire, query, headers) as caller:
            shown[wire] = (listed(caller), listed(caller, tools=["read_note"]))
    assert shown == dict.fromkeys(HTTP_WIRES, (["list_notes"], ["read_note"]))


def test_denies_of_header_and_meta_add_up(accesses: Mapping[str, Access]):
    shown = {}
    for wire in HTTP_WIRES:
        with accesses["env"].calling(wire, "", [("x-mcp-disabled-tools", "list_notes")]) as caller:
            shown[wire] = {"list_notes", "read_note"} & set(listed(caller, disabled_tools=["read_note"]))
    assert shown == dict.fromkeys(HTTP_WIRES, frozenset())


def test_a_query_over_stdio_opens_the_graph_when_it_comes(tmp_path: Path):
    environ = {"MCP_GRAPH": "auto", "MCP_GRAPH_FOLDER": str(tmp_path), "MCP_GRAPH_DEADLINE_MS": "30000"}
    with stdio_caller(Launch(env=tuple(environ.items()))) as caller:
        assert listed(caller, disabled_tags=["delete"]) != []
        assert list(tmp_path.iterdir()) == []
        result = caller.ask("tools/list", meta(query="list_notes")).result
        assert [tool["name"] for tool in result["tools"]] == ["list_notes"]
        assert (result["_meta"][META_KEY]["status"], len(list(tmp_path.iterdir())) > 0) == ("fresh", True)
