"""Nothing beside the answers tells a denied name from one that never existed: metrics, summaries, routes, headers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.every import every, every_of
from tests.wire.expected import (
    DENIED,
    DENIED_PROMPTS,
    DENIED_RESOURCES,
    DENIED_TOOLS,
    DENIED_URIS,
    HASHED,
    HASHED_DENIED,
    LEAKED,
    TOOLS,
    absent,
)
from tests.wire.wires import ACCEPT, HTTP_WIRES, Access, WireName, jsonrpc, modern_request

SUMMARY = "agent-utilities/selection"
_fresh = itertools.count()

# Series that move with the clock, not with what was asked; tokens of lists are added up a second later.
_TIMED = re.compile(r"_created|mcp_decision_seconds_(sum|bucket)|listed_tokens")


def metrics(access: Access) -> Counter[str]:
    lines = access.http.get("/metrics").body.decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#") and not _TIMED.search(line))
    return Counter({series: int(float(value)) for series, value in pairs})


def moved(access: Access, act: Callable[[], object]) -> dict[str, int]:
    """Return by how much each metric grew while something was done."""
    before = metrics(access)
    act()
    after = metrics(access)
    return {series: after[series] - before[series] for series in after if after[series] != before[series]}


CALLS: list[tuple[str, Callable[[str], dict[str, Any]], list[str]]] = [
    ("tools/call", lambda name: {"name": name, "arguments": {}}, DENIED_TOOLS),
    ("tools/call", lambda name: {"name": name, "arguments": {"text": "x"}}, DENIED_TOOLS),
    ("prompts/get", lambda name: {"name": name}, DENIED_PROMPTS),
    ("resources/read", lambda uri: {"uri": uri}, [*DENIED_RESOURCES, *DENIED_URIS]),
    (
        "completion/complete",
        lambda name: {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "n", "value": ""}},
        DENIED_PROMPTS,
    ),
]
EVERY_CALL = [
    pytest.param(method, make, name, id=f"{method}-{name}-{i}")
    for i, (method, make, names_) in enumerate(CALLS)
    for name in names_
]


@pytest.fixture(autouse=True, scope="module")
def _settled(accesses: Mapping[str, Access]) -> None:
    """Every memo that a first request fills is filled."""
    for access in accesses.values():
        with access.calling("modern") as caller:
            for kind in ("tools", "prompts", "resources", "resources/templates"):
                caller.ask(f"{kind}/list")


class TestMetrics:
    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    @every(("method", "make", "name"), EVERY_CALL)
    def test_a_guess_of_a_denied_name_counts_like_one_of_an_unknown_name(
        self, http_wire: WireName, access: Access, method: str, make: Callable[[str], dict[str, Any]], name: str
    ) -> None:
        with access.calling(http_wire) as caller:
            denied = moved(access, lambda: caller.ask(method, make(name)))
            assert denied == moved(access, lambda: caller.ask(method, make(absent(name))))

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    def test_a_guess_of_a_denied_hash_counts_like_one_of_an_unknown_hash(
        self, http_wire: WireName, access: Access
    ) -> None:
        with access.calling(http_wire) as caller:
            denied = moved(access, lambda: caller.ask("tools/call", {"name": HASHED_DENIED, "arguments": {}}))
            missing = {"name": absent(HASHED_DENIED), "arguments": {}}
            assert denied == moved(access, lambda: caller.ask("tools/call", missing))

    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    @every("name", ["wipe_notes", "kid_wipe", "far_burn", "added_wipe"])
    @every("method", ["tools/list", "prompts/list", "resources/list"])
    def test_selecting_a_denied_name_counts_like_selecting_an_unknown_one(
        self, http_wire: WireName, access: Access, method: str, name: str
    ) -> None:
        grown = []
        for guess in (name, absent(name)):
            fresh = f"read_note,fresh{next(_fresh)}"  # no memo holds the decision yet
            with access.calling(http_wire, headers=[("x-mcp-enabled-tools", f"{guess},{fresh}")]) as caller:
                grown.append(moved(access, lambda caller=caller: caller.ask(method)))  # type: ignore[misc]
        assert grown[0] == grown[1]

    @every_of("access", "accesses")
    def test_the_exposition_names_no_component(self, access: Access) -> None:
        text = access.http.get("/metrics").body.decode()
        assert [name for name in DENIED if name in text] == []
        # What results cost is told by tool, of those that the operator permits.
        others = "\n".join(line for line in text.splitlines() if not line.startswith("mcp_result_tokens"))
        assert [name for name in TOOLS if name in others] == []

    @every_of("access", "accesses")
    def test_no_header_hides_a_request_from_the_metrics(self, access: Access) -> None:
        with access.calling("legacy", headers=[("mcp-method", "ping")]) as caller:
            grown = moved(access, lambda: caller.ask("tools/call", {"name": "read_note", "arguments": {}}))
        assert grown['mcp_requests_total{method="tools/call",outcome="ok"}'] == 1


class TestSummary:
    @every_of("access", "accesses")
    @every("http_wire", HTTP_WIRES)
    @every("name", ["wipe_notes", "kid_wipe", "far_burn", "added_wipe", "plot", "delete", "plan://secret"])
    @every("header", ["x-mcp-enabled-tools", "x-mcp-toolsets", "x-mcp-enabled-tags"])
    def test_a_denied_name_reads_the_same_as_an_unknown_one(
        self, http_wire: WireName, access: Access, header: str, name: str
    ) -> None:
        texts = []
        for guess in (name, absent(name)):
            with access.calling(http_wire, headers=[(header, guess)]) as caller:
                texts.append(_summary(caller.ask("tools/list").result, guess))
        assert texts[0] == texts[1]

    @every_of("access", "accesses")
    @every("name", [*DENIED_TOOLS, *DENIED_PROMPTS])
    @every("key", ["tools", "toolsets", "tags", "disabled_tools"])
    def test_no_hint_is_a_denied_name(self, access: Access, key: str, name: str) -> None:
        with access.calling("modern", f"?{key}={name},{name[:-1]},{name}s,delets,writ") as caller:
            unknown = caller.ask("tools/list").result["_meta"][SUMMARY]["unknown"]
        assert set(unknown.values()) - {None} <= {*TOOLS, "notes", "read"}

    @every_of("access", "accesses")
    @every("name", DENIED_TOOLS)
    def test_the_plain_list_tells_no_denied_name_from_an_unknown_one(self, access: Access, name: str) -> None:
        bodies = [access.http.get(f"/tools?toolsets={guess}").body for guess in (name, absent(name))]
        texts = [_blotted(body.decode(), guess) for body, guess in zip(bodies, (name, absent(name)), strict=True)]
        assert texts[0] == texts[1]

    @every_of("access", "accesses")
    @every("name", [name for name in TOOLS if name != "added_peek"])
    def test_a_permitted_name_is_not_called_unknown(self, access: Access, name: str) -> None:
        with access.calling("modern", f"?tools={name}") as caller:
            assert "unknown" not in caller.ask("tools/list").result["_meta"][SUMMARY]

    @every_of("access", "accesses")
    def test_a_permitted_injected_name_is_not_called_unknown(self, access: Access) -> None:
        with access.calling("modern", "?tools=added_peek") as caller:
            assert "unknown" not in caller.ask("tools/list").result["_meta"][SUMMARY]

    @every_of("access", "accesses")
    def test_the_tools_that_are_visible_are_counted(self, access: Access) -> None:
        with access.calling("modern") as caller:
            result = caller.ask("tools/list").result
        assert result["_meta"][SUMMARY]["visible"] == len(result["tools"])

    @every_of("access", "accesses")
    @every("kind", ["prompts", "resources"])
    def test_the_components_that_are_visible_are_counted(self, access: Access, kind: str) -> None:
        with access.calling("modern") as caller:
            result = caller.ask(f"{kind}/list").result
        assert result["_meta"][SUMMARY]["visible"] == len(result[kind])


def _summary(result: dict[str, Any], name: str) -> str:
    return _blotted(str({**result["_meta"][SUMMARY], "tools": [tool["name"] for tool in result["tools"]]}), name)


def _blotted(text: str, name: str) -> str:
    """Return a text without a name, the hint to it and the revision: they follow from how the name is spelled."""
    text = re.sub(r"(revision\W+)[0-9a-f]{12}", r"\1", text).replace(name, "?")
    return re.sub(r"""(["']\?["']: ?)(None|null|["']\w+["'])""", r"\1hint", text)


class TestRoutes:
    @every_of("access", "accesses")
    @every(
        "path",
        [
            "/",
            "/tools",
            "/context?definitions=true",
            "/metrics",
            "/health",
            "/ready",
            "/openapi.json",
            "/docs",
            "/sse/",
            "/.well-known/mcp",
        ],
    )
    def test_no_route_names_what_is_denied(self, access: Access, path: str) -> None:
        text = access.http.get(path).body.decode()
        assert [word for word in (*DENIED, LEAKED) if word in text] == []

    @every_of("access", "accesses")
    @every("wire", ["sse", "legacy"])
    def test_the_handshake_names_nothing_that_is_denied(self, access: Access, wire: WireName) -> None:
        initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
        text = access.http.send("POST", "/mcp", [ACCEPT], jsonrpc("initialize", initialize)).body.decode()
        assert [word for word in (*DENIED, LEAKED) if word in text] == []

    @every_of("access", "accesses")
    def test_discovery_names_nothing_that_is_denied(self, access: Access) -> None:
        with access.calling("modern") as caller:
            text = caller.ask("server/discover").raw.decode()
        assert [word for word in (*DENIED, LEAKED) if word in text] == []

    @every_of("access", "accesses")
    @every("method", ["HEAD", "GET"])
    @every("path", ["/tools", "/context"])
    def test_the_length_of_the_plain_list_is_that_of_what_it_shows(
        self, access: Access, method: str, path: str
    ) -> None:
        sizes = [
            access.http.send(method, f"{path}?tags={tag}").headers["content-length"] for tag in ("delete", "delets")
        ]
        assert sizes[0] == sizes[1]


class TestHttpHeaders:
    @every_of("access", "accesses")
    @every("name", [*DENIED_TOOLS, HASHED_DENIED])
    def test_the_headers_of_a_refusal_tell_nothing(self, access: Access, name: str) -> None:
        seen = []
        for guess in (name, absent(name)):
            request, headers = modern_request("tools/call", {"name": guess, "arguments": {}})
            reply = access.http.send("POST", "/mcp", headers, request)
            seen.append({key: value for key, value in reply.headers.items() if key != "date"})
        assert seen[0] == seen[1]

    @every_of("access", "accesses")
    @every("header", [HASHED, "read_note", "wipe_notes", "=?base64?cmVhZF9ub3Rl?=", None])
    def test_a_routing_header_that_names_another_tool_does_not_permit_a_call(
        self, access: Access, header: str | None
    ) -> None:
        request, headers = modern_request("tools/call", {"name": "wipe_notes", "arguments": {}})
        routing = [pair for pair in headers if pair[0] != "mcp-name"]
        reply = access.http.send("POST", "/mcp", [*routing, *([("mcp-name", header)] if header else [])], request)
        assert LEAKED.encode() not in reply.body

    @every_of("access", "accesses")
    @every("header", ["mcp-name", "mcp-method", "mcp-protocol-version"])
    def test_a_routing_header_given_twice_is_refused(self, access: Access, header: str) -> None:
        request, headers = modern_request("tools/call", {"name": "wipe_notes", "arguments": {}})
        assert access.http.send("POST", "/mcp", [*headers, (header, "read_note")], request).status == 400

    @every_of("access", "accesses")
    def test_a_method_header_of_a_list_does_not_make_a_call_a_list(self, access: Access) -> None:
        request, headers = modern_request("tools/call", {"name": "wipe_notes", "arguments": {}})
        lying = [(key, "tools/list" if key == "mcp-method" else value) for key, value in headers]
        assert access.http.send("POST", "/mcp", lying, request).status == 400


class TestSubscriptions:
    @every_of("access", "accesses")
    @every("uri", [*DENIED_RESOURCES, *DENIED_URIS])
    def test_listening_to_a_denied_resource_is_acknowledged_like_an_unknown_one(self, access: Access, uri: str) -> None:
        acknowledged = []
        for guess in (uri, absent(uri)):
            request, headers = modern_request(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": [guess]}}
            )
            stream = access.http.stream("/mcp", headers, request)
            acknowledged.append(stream.event().replace(guess.encode(), b"?"))
            stream.close()
        assert acknowledged[0] == acknowledged[1]
