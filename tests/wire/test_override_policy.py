"""Where the operator trusts its callers with allow-lists, its denies still hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.wire.expected import LEAKED
from tests.wire.processes import Launch, served
from tests.wire.wires import Access, WireName, names

BOUNDS = (
    ("MCP_ENABLED_TOOLS", "read_note"),
    ("MCP_DISABLED_TAGS", "write,delete"),
    ("MCP_DISABLED_TOOLS", "stray_tool"),
)
LAUNCH = {
    "env": Launch(env=(*BOUNDS, ("MCP_SELECTION_POLICY", "override"))),
    "cli": Launch(env=BOUNDS, options=("--selection-policy", "override")),
}


@pytest.fixture(scope="module")
def trusting(launch: str) -> Iterator[Access]:
    """A server that lets a caller's allow-list replace its own."""
    with served(LAUNCH[launch]) as process, closing(Access(process.url)) as access:
        yield access


def test_without_a_selection_the_operators_list_holds(trusting: Access, http_wire: WireName) -> None:
    with trusting.calling(http_wire) as caller:
        assert names(caller, "tools/list") == ["read_note"]


@pytest.mark.parametrize("query", ["?tools=list_notes", "?toolsets=list_notes"])
def test_a_callers_list_replaces_the_operators(trusting: Access, http_wire: WireName, query: str) -> None:
    with trusting.calling(http_wire, query) as caller:
        assert names(caller, "tools/list") == ["list_notes"]


@pytest.mark.parametrize(
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


def test_no_caller_sets_the_policy_back(trusting: Access, http_wire: WireName) -> None:
    with trusting.calling(http_wire, "?tools=list_notes&selection_policy=narrow") as caller:
        assert names(caller, "tools/list") == ["list_notes"]
