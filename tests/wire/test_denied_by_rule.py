"""A caller whom a rule of access denies some components is answered as by a server that never had them, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.every import every, every_of
from tests.wire.http_raw import Headers, RawHttp
from tests.wire.outsider_server import DENIED, DENIED_PROMPTS, DENIED_TOOLS, DENIED_URIS, LEAKED, write_rules
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.search_questions import META, Question, masked
from tests.wire.wires import ACCEPT, HTTP_WIRES, LegacyCaller, ModernCaller, SseCaller, WireName, modern_request

pytestmark = pytest.mark.outside

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
NAMES = [*DENIED, "note", "vault", "read_note", "plots", "greet", "kid"]
ASKED: list[dict[str, str]] = [
    {},
    {"tools": ",".join(NAMES)},
    {"disabled_tools": ",".join(NAMES)},
    *({"toolsets": name} for name in NAMES),
    *({"tags": name} for name in ("vault", "valt", "note")),
    *({"query": words} for words in ("open the vault", "LEAKED", "read a note")),
    {"query": "note", "top_k": "3"},
    {"tool_search": "on", "pin": ",".join(NAMES)},
    {"tool_search": "on", "active": ",".join(DENIED_TOOLS)},
    {"read_only": "true"},
]


def _called(name: str, /, **arguments: Any) -> Question:
    return "tools/call", {"name": name, "arguments": arguments}


def _completed(ref: Mapping[str, str]) -> Question:
    return "completion/complete", {"ref": ref, "argument": {"name": "key", "value": ""}}


QUESTIONS: list[Question] = [
    *(("tools/list", {"_meta": {META: asked}}) for asked in ASKED),
    *((method, {"_meta": {META: asked}}) for asked in ASKED[:4] for method in LISTS[1:]),
    *(_called(name) for name in (*DENIED_TOOLS, "edit_note", "read_note")),
    *(_called(name, number="many") for name in DENIED_TOOLS),
    *(_called("call_tool", name=name) for name in DENIED_TOOLS),
    *(_called("tool_search", query=words) for words in ("vault", "note", "LEAKED", *map("select:{}".format, DENIED))),
    *(("prompts/get", {"name": name}) for name in (*DENIED_PROMPTS, "greet")),
    *(("resources/read", {"uri": uri}) for uri in (*DENIED_URIS, "note://open", "note://of/x")),
    *(_completed({"type": "ref/prompt", "name": name}) for name in (*DENIED_PROMPTS, "greet")),
    *(_completed({"type": "ref/resource", "uri": uri}) for uri in (*DENIED_URIS, "note://of/{key}")),
    *((method, {}) for method in LISTS),
]
"""Asked one after another, so that what one leaves in a session is seen in the next."""
ROUTES = [
    *("/tools", "/context?definitions=true", "/ready", "/health", "/metrics", "/", "/openapi.json"),
    *(f"/tools?toolsets={name}" for name in NAMES if ":" not in name),
    *("/tools?q=vault", "/tools?tool_search=on&q=vault", "/tools?tags=vault,valt"),
]


@dataclass(frozen=True)
class Twins:
    """Two servers under the same rules: one has what they deny, the other never had; and a caller whom they deny it."""

    having: HttpProcess
    never: HttpProcess
    tokens: Mapping[str, str]

    @property
    def who(self) -> Headers:
        return [("authorization", f"Bearer {self.tokens['bob']}")]

    @property
    def who_may(self) -> Headers:
        return [("authorization", f"Bearer {self.tokens['ann']}")]

    @property
    def both(self) -> tuple[HttpProcess, HttpProcess]:
        return self.having, self.never


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Twins]]:
    """Such servers, by how they list."""
    settings, tokens = write_rules(tmp_path_factory.mktemp("rules"))
    with ExitStack() as stack:
        found = {}
        for name, more in {"whole": (), "searched": (("MCP_TOOL_SEARCH", "on"),)}.items():
            env = (("MCP_CONFIG_FILE", str(settings)), *more)
            launches = [Launch(env=(*env, *denied), script="outsider_server.py") for denied in (HAS, ())]
            found[name] = Twins(*(stack.enter_context(served(launch)) for launch in launches), tokens)
        yield found


HAS = (("WITH_DENIED", "1"),)


def transcript(wire: WireName, process: HttpProcess, who: Headers) -> list[str]:
    """Return what a caller is answered, from their greeting to their last question."""
    with closing(RawHttp(process.url)) as http:
        if wire == "modern":
            modern = ModernCaller(http, "", who)
            return [masked(modern.ask("server/discover").raw), *(masked(modern.ask(*each).raw) for each in QUESTIONS)]
        with closing(LegacyCaller(http, "", who) if wire == "legacy" else SseCaller(http, "", who)) as caller:
            return [masked(caller.opened.raw), *(masked(caller.ask(*each).raw) for each in QUESTIONS)]


@every_of("pair", "twins")
@every("wire", HTTP_WIRES)
def test_no_answer_moves_because_a_denied_component_is_there(wire: WireName, pair: Twins) -> None:
    seen, expected = (transcript(wire, process, pair.who) for process in pair.both)
    asked = ["greeting", *QUESTIONS]
    differing = [each for each in zip(asked, seen, expected, strict=True) if each[1] != each[2]]
    assert differing[:1] == []


def test_the_questions_would_show_what_is_there_to_who_may_have_it(twins: dict[str, Twins]) -> None:
    pair = twins["whole"]
    ann, bob = (transcript("modern", pair.having, who) for who in (pair.who_may, pair.who))
    shown = [asked for asked, one, other in zip(["greeting", *QUESTIONS], ann, bob, strict=True) if one != other]
    assert len(shown) > len(QUESTIONS) // 2
    assert sum(LEAKED in answer for answer in ann) > 20
    assert [answer for answer in bob if '"LEAKED ' in answer] == []


@every_of("pair", "twins")
@every("path", ROUTES)
def test_no_route_moves_because_a_denied_component_is_there(path: str, pair: Twins) -> None:
    replies = []
    for process in pair.both:
        with closing(RawHttp(process.url)) as http:
            reply = http.get(path, pair.who)
        replies.append((reply.status, masked(reply.body), {k: v for k, v in reply.headers.items() if k != "date"}))
    assert replies[0] == replies[1]


@every_of("pair", "twins")
@every("name", [*NAMES, "plat", "plotz", "wipe_not", "greetin", "secret"])
def test_no_path_moves_because_a_denied_component_is_there(name: str, pair: Twins) -> None:
    request, headers = modern_request("tools/list")
    replies = []
    for process in pair.both:
        with closing(RawHttp(process.url)) as http:
            reply = http.send("POST", f"/mcp/x/{name.replace(':', '%3A')}", [*headers, *pair.who], request)
        replies.append((reply.status, masked(reply.body)))
    assert replies[0] == replies[1]


@every_of("pair", "twins")
@every("uri", DENIED_URIS)
def test_no_stream_moves_because_a_denied_resource_is_there(uri: str, pair: Twins) -> None:
    request, headers = modern_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    acknowledged = []
    for process in pair.both:
        with closing(RawHttp(process.url)) as http, closing(http.stream("/mcp", [*headers, *pair.who], request)) as got:
            acknowledged.append(re.sub(rb'"[0-9a-f-]{36}"', b"", got.event()))
    assert acknowledged[0] == acknowledged[1]


@every_of("pair", "twins")
@every("wire", ["sse", "legacy"])
def test_no_request_without_a_token_is_told_anything(wire: WireName, pair: Twins) -> None:
    for process in pair.both:
        with closing(RawHttp(process.url)) as http:
            for path in ("/mcp", "/mcp/x/vault", "/mcp/x/nothing", "/sse", "/tools", "/context", "/metrics"):
                reply = http.send("GET" if path != "/mcp" else "POST", path, [ACCEPT], {} if path == "/mcp" else None)
                assert reply.status in (401, 404), (path, reply.status)
                assert not any(word.encode() in reply.body for word in (*DENIED, "outsiders", LEAKED))
