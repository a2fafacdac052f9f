"""Malformed selections are refused whole, with HTTP 400 and a reason, on every path; nothing leaks or breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest

from agent_utilities.selection.channels import FIELDS, Field
from agent_utilities.selection.parse import MAX_BYTES, MAX_GLOBS, MAX_KEYS, MAX_NAMES
from tests.every import every
from tests.wire.expected import DENIED, LAUNCHES, LEAKED, TOOLS
from tests.wire.http_raw import Headers, Reply
from tests.wire.wires import ACCEPT, HTTP_WIRES, Access, WireName, jsonrpc, modern_request, names

PATHS = ["sse", "legacy", "modern", "/tools", "/context"]

CONTROL = ["\x00", "\x07", "\n", "\r\nx-mcp-tools: all", "\x1b[2J", "\x7f", "\x85"]
INVISIBLE = ["\u200b", "\u200d", "\u202e", "\ufeff", "\u2066", "\u00ad"]


def sent(access: Access, path: str, query: str = "", headers: Headers = ()) -> Reply:
    """Send one request of a wire, or to a route, and return the HTTP answer."""
    if path.startswith("/"):
        return access.http.get(f"{path}{query}", headers)
    if path == "sse":
        return access.http.get(f"/sse{query}", headers)
    if path == "modern":
        request, routing = modern_request("tools/list")
        return access.http.send("POST", f"/mcp{query}", [*routing, *headers], request)
    return access.http.send("POST", f"/mcp{query}", [ACCEPT, *headers], jsonrpc("initialize", {}))


def bad_value(field: Field) -> str:
    """Return a value that a field can't be read from."""
    return {
        "names": ",",
        "tags": " , ",
        "flag": "perhaps",
        "text": "a\x07",
        "count": "0",
        "number": "-1",
        "threshold": "auto:0",
        "budget": "199",
        "active": "a;b",
        "profile": "a,b",
        "capabilities": " , ",
    }[field.kind]


SPELLED = [field for field in FIELDS if field.kind != "text"]
"""Fields whose bad value is one that a header can hold."""

BAD_QUERIES = {
    **{
        f"{field.name}-{key}": f"{key}={quote(bad_value(field))}"
        for field in FIELDS
        for key in field.spellings("query")
    },
    **{f"control-{each!a}": f"tools=a{quote(each)}b" for each in CONTROL},
    **{f"invisible-{each!a}": f"tools=a{quote(each)}b" for each in INVISIBLE},
    "surrogate": "tools=%ed%a0%80",
    "not-utf-8": "tools=%ff%fe",
    "overlong": "tools=%c0%ae%c0%ae",
    "key-not-utf-8": "to%ffols=read_note",
    "too-long": "tools=" + "a" * (MAX_BYTES + 1),
    "too-long-together": "&".join(["tools=" + "a" * 1000] * 9),
    "too-many-names": "tools=" + ",".join(f"n{i}" for i in range(MAX_NAMES + 1)),
    "too-many-names-together": "&".join(f"tools=n{i}" for i in range(MAX_NAMES + 1)),
    "too-many-globs": "tools=" + ",".join(f"n{i}*" for i in range(MAX_GLOBS + 1)),
    "top-k-negative": "top_k=-1",
    "top-k-fraction": "top_k=1.5",
    "top-k-exponent": "top_k=1e3",
    "top-k-huge": "top_k=99999999999999999999",
    "top-k-other-digits": "top_k=%EF%BC%95",
    "near-miss": "tool=read_note",
    "near-miss-deny": "disabled_tool=read_note",
    "another-word": "deny_tools=read_note",
    "header-style": "x-mcp-disabled-tools=read_note",
    "too-many-keys": "&".join(["x=y"] * (MAX_KEYS + 1)),
    "one-good-one-bad": "tools=read_note&top_k=x",
}
BAD_HEADERS: dict[str, tuple[str, bytes]] = {
    **{f"{row.name}-{key}": (key, bad_value(row).encode()) for row in SPELLED for key in row.spellings("header")},
    **{f"invisible-{each!a}": ("x-mcp-enabled-tools", f"a{each}b".encode()) for each in [*INVISIBLE, "\x85"]},
    "not-utf-8": ("x-mcp-enabled-tools", b"\xff\xfe"),
    "latin-1": ("x-mcp-enabled-tools", "na\u00efve".encode("latin-1")),
    "too-long": ("x-mcp-enabled-tools", b"a" * (MAX_BYTES + 1)),
    "too-many-names": ("x-mcp-enabled-tools", ",".join(f"n{i}" for i in range(MAX_NAMES + 1)).encode()),
    "too-many-globs": ("x-mcp-disabled-tools", ",".join(f"*n{i}" for i in range(MAX_GLOBS + 1)).encode()),
    "near-miss": ("x-mcp-enabled-tool", b"read_note"),
    "another-word": ("x-mcp-denied-tools", b"read_note"),
    "another-prefix": ("mcp-disabled-tools", b"read_note"),
    "no-prefix": ("x-deny-tags", b"read"),
    "badly-encoded": ("x-mcp-query", b"UTF-8''%zz"),
    "near-miss-case": ("X-MCP-Enable-Tools", b"read_note"),
}  # fmt: skip

paths = every("path", PATHS)
bad_queries = every("bad", BAD_QUERIES)
bad_headers = every("bad", BAD_HEADERS)


@pytest.fixture(scope="session")
def access(accesses: Mapping[str, Access]) -> Access:
    """A way into one server: reading input does not depend on the operator's bounds."""
    return accesses["env"]


class TestRefusals:
    @paths
    @bad_queries
    def test_a_malformed_query_is_a_400(self, access: Access, path: str, bad: str) -> None:
        assert sent(access, path, f"?{BAD_QUERIES[bad]}").status == 400

    @paths
    @bad_headers
    def test_a_malformed_header_is_a_400(self, access: Access, path: str, bad: str) -> None:
        assert sent(access, path, headers=[BAD_HEADERS[bad]]).status == 400

    @bad_queries
    def test_the_reason_has_four_parts(self, access: Access, bad: str) -> None:
        error = sent(access, "modern", f"?{BAD_QUERIES[bad]}").json["error"]["data"]
        assert {key: type(value) for key, value in error.items()} == dict.fromkeys(
            ["what", "value", "source", "hint"], str
        )

    @bad_headers
    def test_the_reason_names_the_header(self, access: Access, bad: str) -> None:
        error = sent(access, "modern", headers=[BAD_HEADERS[bad]]).json["error"]["data"]
        assert BAD_HEADERS[bad][0].lower() in error["source"].lower()

    @bad_queries
    def test_the_reason_tells_nothing_of_the_catalog(self, access: Access, bad: str) -> None:
        text = sent(access, "modern", f"?{BAD_QUERIES[bad]}").body.decode()
        assert [word for word in (*DENIED, *TOOLS, LEAKED) if word in text and word not in BAD_QUERIES[bad]] == []

    @bad_queries
    def test_the_reason_is_short_and_safe_to_print(self, access: Access, bad: str) -> None:
        error = sent(access, "modern", f"?{BAD_QUERIES[bad]}").json["error"]["data"]
        assert all(len(part) < 400 and part.isprintable() for part in error.values())


@every("value", ["a\x00b", "a\rb", "a\x0bb"])
def test_a_control_character_never_gets_through_a_header(access: Access, value: str) -> None:
    """The HTTP server refuses these before any application sees them."""
    _, routing = modern_request("tools/list")
    raw = b"".join(f"{key}: {text}\r\n".encode() for key, text in routing)
    assert access.raw(b"POST /mcp HTTP/1.1\r\nhost: x\r\n" + raw + f"x-mcp-tools: {value}\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 400"
    )


@every("bad", ["tools-tools", "not-utf-8", "too-long", "near-miss"])
def test_a_malformed_query_on_the_sse_message_url_is_a_400(access: Access, bad: str) -> None:
    bad = BAD_QUERIES.get(bad) or BAD_QUERIES["allow_tools-tools"]
    with access.calling("sse") as caller:
        caller.endpoint += f"&{bad}"  # type: ignore[attr-defined]
        assert caller.ask("tools/list").status == 400


def test_a_malformed_query_below_the_sse_message_url_serves_nothing(access: Access) -> None:
    with access.calling("sse") as caller:
        caller.endpoint = caller.endpoint.replace("/messages/", "/messages/x") + "&top_k=x"  # type: ignore[attr-defined]
        assert caller.ask("tools/list").refused


@every("size", [70_000, 300_000])
def test_a_request_line_beyond_all_bounds_is_refused(access: Access, size: int) -> None:
    assert access.http.get("/tools?tools=" + "a" * size).status in (400, 414, 431)


@every("http_wire", HTTP_WIRES)
def test_the_server_answers_after_all_this(http_wire: WireName, access: Access) -> None:
    with access.calling(http_wire) as caller:
        assert names(caller, "tools/list") == TOOLS


class TestLimits:
    """What is just within the limits is served."""

    @every("http_wire", HTTP_WIRES)
    @every(
        "query",
        [
            "tools=" + ",".join(f"n{i}" for i in range(MAX_NAMES)),
            "tools=" + ",".join(f"n{i}*" for i in range(MAX_GLOBS)),
            "tools=" + "a" * MAX_BYTES,
            "top_k=999999999",
        ],
    )
    def test_the_largest_selection_is_served(self, http_wire: WireName, access: Access, query: str) -> None:
        with access.calling(http_wire, f"?{query}") as caller:
            assert not caller.ask("tools/list").refused


ARGUMENT = {"name": "n", "value": ""}
BODIES: dict[str, Any] = {
    "batch": [jsonrpc("tools/call", {"name": "wipe_notes"}), jsonrpc("tools/list")],
    "no-params": {"jsonrpc": "2.0", "id": 7, "method": "tools/call"},
    "list-params": {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ["wipe_notes"]},
    "list-name": jsonrpc("tools/call", {"name": ["wipe_notes"]}),
    "map-name": jsonrpc("tools/call", {"name": {"$eq": "wipe_notes"}}),
    "list-ref": jsonrpc("completion/complete", {"ref": ["ref/prompt", "plot"], "argument": ARGUMENT}),
    "odd-ref": jsonrpc("completion/complete", {"ref": {"type": "ref/PROMPT", "name": "plot"}, "argument": ARGUMENT}),
    "no-ref": jsonrpc("completion/complete", {"argument": ARGUMENT}),
    "null-meta": jsonrpc("tools/call", {"name": "wipe_notes", "_meta": None}),
    "text-meta": jsonrpc("tools/list", {"_meta": "override"}),
    "name-twice": b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_notes","name":"wipe_notes"}}',
    "method-twice": b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call","params":{"name":"wipe_notes"}}',
    "escaped-name": b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\\u0077ipe_notes"}}',
    "utf-16": '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wipe_notes"}}'.encode("utf-16"),
    "not-json": b"\xff\xfe{",
    "deep": b"[" * 20_000,
}  # fmt: skip


@every("body", BODIES)
@every("wire", ["sse", "legacy", "modern"])
def test_no_malformed_body_reaches_what_is_denied(access: Access, wire: WireName, body: str) -> None:
    with access.calling(wire) as caller:
        reply = caller.post(BODIES[body])  # type: ignore[attr-defined]
        assert LEAKED.encode() not in reply
        assert names(caller, "tools/list") == TOOLS


def test_both_launches_refuse_the_same(accesses: dict[str, Access]) -> None:
    seen = [sent(accesses[launch], "modern", f"?{BAD_QUERIES['near-miss']}").body for launch in LAUNCHES]
    assert seen[0] == seen[1]
