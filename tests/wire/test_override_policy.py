"""Where the operator trusts its callers with allow-lists, its denies still hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing

import pytest

from tests.every import every, every_of
from tests.wire.expected import LEAKED
from tests.wire.processes import Launch, served
from tests.wire.wires import HTTP_WIRES, Access, WireName, names

BOUNDS = (
    ("MCP_ENABLED_TOOLS", "read_note"),
    ("MCP_DISABLED_TAGS", "write,delete"),
    ("MCP_DISABLED_TOOLS", "stray_tool"),
)
LAUNCHES = {
    "env": Launch(env=(*BOUNDS, ("MCP_SELECTION_POLICY", "override"))),
    "cli": Launch(env=BOUNDS, options=("--selection-policy", "override")),
}


@pytest.fixture(scope="module")
def trusting_ones() -> Iterator[Mapping[str, Access]]:
    """Servers that let a caller's allow-list replace their own, by launch."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(closing(Access(stack.enter_context(served(launch)).url)))
            for name, launch in LAUNCHES.items()
        }


@every_of("trusting", "trusting_ones")
@every("http_wire", HTTP_WIRES)
def test_without_a_selection_the_operators_list_holds(trusting: Access, http_wire: WireName) -> None:
    with trusting.calling(http_wire) as caller:
        assert names(caller, "tools/list") == ["read_note"]


@every_of("trusting", "trusting_ones")
@every("http_wire", HTTP_WIRES)
@every("query", ["?tools=list_notes", "?toolsets=list_notes"])
def test_a_callers_list_replaces_the_operators(trusting: Access, http_wire: WireName, query: str) -> None:
    with trusting.calling(http_wire, query) as caller:
        assert names(caller, "tools/list") == ["list_notes"]


@every_of("trusting", "trusting_ones")
@every("http_wire", HTTP_WIRES)
@every(
    ("query", "headers"),
    [
        ("?tools=all", []),
        ("?tools=wipe_notes,kid_wipe,stray_tool", []),
        ("?tools=all&tags=delete,write", []),
        ("?tools=all&disabled_tags=none&disabled_tools=none&read_only=false", []),
        ("", [("x-mcp-enabled-tools", "all"), ("x-mcp-disabled-tags", "none")]),
        ("", [("x-mcp-toolsets", "delete,write,notes")]),
    ],
)
def test_no_list_of_a_caller_lifts_a_deny(
    trusting: Access, http_wire: WireName, query: str, headers: list[tuple[str, str]]
) -> None:
    with trusting.calling(http_wire, query, headers) as caller:
        listed = caller.ask("tools/list").raw
        called = [
            caller.ask("tools/call", {"name": name, "arguments": {}})
            for name in ("wipe_notes", "stray_tool", "kid_wipe")
        ]
    assert LEAKED.encode() not in b"".join([listed, *(answer.raw for answer in called)])


@every_of("trusting", "trusting_ones")
@every("http_wire", HTTP_WIRES)
def test_no_caller_sets_the_policy_back(trusting: Access, http_wire: WireName) -> None:
    with trusting.calling(http_wire, "?tools=list_notes&selection_policy=narrow") as caller:
        assert names(caller, "tools/list") == ["list_notes"]
