"""No header and no query, however spelled, lifts a bound that the operator set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from urllib.parse import quote

import pytest

from agent_utilities.selection.channels import FIELDS, Field, field_of, spellings
from agent_utilities.selection.model import Channel
from tests.every import every, every_of
from tests.wire.expected import LAUNCHES, LEAKED, PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.wire.http_raw import Reply
from tests.wire.wires import HTTP_WIRES, Access, Answer, Caller, WireName, names

BY_KIND = {
    "names": [
        "all", "*", "wipe_notes", "*wipe*", "ALL", "**", "wipe*", "*_wipe", "none", "WIPE_NOTES", "wipe",
        "write_note,wipe_notes", "wipe_notes,wipe_notes", ",wipe_notes,", " wipe_notes ", "all,wipe_notes", "none,all",
        "\uff57\uff49\uff50\uff45\uff3f\uff4e\uff4f\uff54\uff45\uff53", "w\u0131pe_notes", "W\u0130PE_NOTES",
        "\ufb06ray_tool", "delete", "write", "sealed_note@2", "edit_note@2", "plan://secret", "note://hidden",
        "vault://{key}", "plot", "!wipe_notes", "-delete",
    ],
    "tags": [
        "all", "*", "none", "delete", "WRITE,delete", "d*", "\uff44\uff45\uff4c\uff45\uff54\uff45", "delete ",
        "all,none",
    ],
    "flag": ["false", "FALSE", "0", "off", "no", "true"],
    "text": ["wipe_notes", "delete", "all", "*", "wipe notes now"],
    "count": ["999999999", "1"],
    "number": ["999999999", "0"],
    "threshold": ["on", "off", "auto:1"],
    "budget": ["200", "off", "auto"],
    "active": ["wipe_notes", "+wipe_notes,read_note;turns=1;of=01234567"],
    "capabilities": ["wipe_notes", "delete,wipe_notes,../../x", "none"],
    "profile": ["none", "all", "*", "wipe_notes"],
}  # fmt: skip
"""Values to try for each kind of field, the broadest first."""

FEW = 3

ENTRY_TOOLS = ("tool_search", "call_tool", "read_result")
CALLS_OF_WIPE = (
    {"name": "wipe_notes"},
    {"name": "call_tool", "arguments": {"name": "wipe_notes", "arguments": {}}},
)


def sent(channel: Channel, *, everywhere: bool = False) -> Iterator[tuple[WireName, str, str, str]]:
    """Yield wire, launch, spelling and value.

    Every spelling comes on every wire to every launch, with the broadest values by turns, or everywhere with each of
    them; all values come once.
    """
    ways = list(product(HTTP_WIRES, LAUNCHES))
    for n, (key, field) in enumerate(spellings(channel)):
        is_first, values = key == field.spellings(channel)[0], BY_KIND[field.kind]
        n_turns = min(FEW, len(values))
        for i, value in enumerate(values):
            for at, (wire, launch) in enumerate(ways):
                is_turn = i < FEW and (everywhere or (at + n) % n_turns == i)
                if is_turn or (is_first and (wire, launch) == ("modern", "env")):
                    yield wire, launch, key, value


LISTS = {
    "tools/list": TOOLS,
    "prompts/list": PROMPTS,
    "resources/list": RESOURCES,
    "resources/templates/list": TEMPLATES,
}


def widened(caller: Caller, *methods: str) -> list[str]:
    """Return what a caller sees beyond the operator's bounds; a selection that is refused whole shows nothing."""
    first = caller.ask(methods[0])
    error = first.message.get("error", {})
    if first.status == 400 and "what" in error.get("data", error):
        return []
    beyond = [name for method in methods for name in names(caller, method) if name not in LISTS[method]]
    # They reach what is permitted and nothing else, as the calls show.
    beyond = [name for name in beyond if name not in ENTRY_TOOLS]
    for params in CALLS_OF_WIPE:
        called = caller.ask("tools/call", params)
        if not called.refused or LEAKED.encode() in called.raw:
            beyond.append(f"a call by {params['name']}")
    return beyond


@every(("http_wire", "launch", "key", "value"), sent("query"))
def test_no_query_widens(
    accesses: Mapping[str, Access], http_wire: WireName, launch: str, key: str, value: str
) -> None:
    with accesses[launch].calling(http_wire, f"?{key}={quote(value)}") as caller:
        assert widened(caller, "tools/list") == []


@every(("http_wire", "launch", "key", "value"), sent("header"))
def test_no_header_widens(
    accesses: Mapping[str, Access], http_wire: WireName, launch: str, key: str, value: str
) -> None:
    with accesses[launch].calling(http_wire, headers=[(key, value)]) as caller:
        assert widened(caller, "tools/list") == []


@pytest.mark.nightly
@every(("http_wire", "launch", "key", "value"), sent("query", everywhere=True))
def test_no_query_widens_anywhere(
    accesses: Mapping[str, Access], http_wire: WireName, launch: str, key: str, value: str
) -> None:
    with accesses[launch].calling(http_wire, f"?{key}={quote(value)}") as caller:
        assert widened(caller, "tools/list") == []


@pytest.mark.nightly
@every(("http_wire", "launch", "key", "value"), sent("header", everywhere=True))
def test_no_header_widens_anywhere(
    accesses: Mapping[str, Access], http_wire: WireName, launch: str, key: str, value: str
) -> None:
    with accesses[launch].calling(http_wire, headers=[(key, value)]) as caller:
        assert widened(caller, "tools/list") == []


@every("channel", ["query", "header"])
def test_every_spelling_is_sent_on_every_wire_to_every_launch(channel: Channel) -> None:
    ways = {
        key: {(wire, launch) for wire, launch, of, _ in sent(channel) if of == key} for key, _ in spellings(channel)
    }
    assert {key for key, on in ways.items() if on != set(product(HTTP_WIRES, LAUNCHES))} == set()


COMBINED: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "query-and-header-all": ("?tools=all", [("x-mcp-enabled-tools", "all")]),
    "query-and-header-name": ("?tools=wipe_notes", [("x-mcp-enabled-tools", "wipe_notes")]),
    "query-key-twice": ("?tools=read_note&tools=wipe_notes", []),
    "query-aliases": ("?tools=wipe_notes&toolsets=delete&tags=delete,read", []),
    "query-key-case": ("?TOOLS=wipe_notes&Tags=delete", []),
    "query-key-dash": ("?disabled-tools=none&disabled-tags=none&read-only=false", []),
    "query-key-encoded": ("?%74ools=wipe_notes&disabled%5Ftags=none", []),
    "query-array": ("?tools[]=wipe_notes&tools%5B0%5D=wipe_notes", []),
    "query-semicolons": ("?tools=read_note;tools=wipe_notes", []),
    "header-twice": ("", [("x-mcp-enabled-tools", "read_note"), ("x-mcp-enabled-tools", "wipe_notes")]),
    "header-aliases": (
        "",
        [("x-mcp-tools", "wipe_notes"), ("X-MCP-Toolsets", "delete"), ("x-mcp-enabled-tags", "all")],
    ),
    "header-case": ("", [("X-McP-EnAbLeD-TOOLS", "wipe_notes"), ("X-MCP-ENABLED-TAGS", "delete")]),
    "header-underscores": ("", [("x_mcp_enabled_tools", "wipe_notes")]),
    "undeny-all": ("?disabled_tools=none&disabled_tags=none", [("x-mcp-disabled-tools", "none")]),
    "readonly-both-ways": ("?read_only=true", [("x-mcp-read-only", "false"), ("X-MCP-Readonly", "0")]),
    "policy-header": ("", [("x-mcp-selection-policy", "override"), ("x-mcp-enabled-tools", "all")]),
    "policy-query": ("?selection_policy=override&policy=override&tools=all", []),
    "policy-env-names": ("?MCP_SELECTION_POLICY=override", [("MCP-SELECTION-POLICY", "override")]),
    "env-names": ("?MCP_ENABLED_TOOLS=wipe_notes&MCP_DISABLED_TAGS=", [("mcp-disabled-tags", "none")]),
    "forwarded": ("?tools=all", [("x-forwarded-for", "127.0.0.1"), ("x-original-url", "/mcp?tools=wipe_notes")]),
    "method-override": ("", [("x-http-method-override", "GET"), ("x-rewrite-url", "/tools?tools=wipe_notes")]),
}


@every_of("access", "accesses")
@every("http_wire", HTTP_WIRES)
@every("attack", COMBINED)
def test_no_combination_widens(http_wire: WireName, access: Access, attack: str) -> None:
    with access.calling(http_wire, *COMBINED[attack]) as caller:
        assert widened(caller, *LISTS) == []


@every_of("access", "accesses")
@every("attack", COMBINED)
def test_no_combination_widens_the_plain_list(access: Access, attack: str) -> None:
    query, headers = COMBINED[attack]
    assert plainly_widened(access.http.get(f"/tools{query}", headers)) == []


@every_of("access", "accesses")
@every("key", [key for key, _ in spellings("query")])
def test_no_query_widens_the_plain_list(access: Access, key: str) -> None:
    value = BY_KIND[known(key, "query").kind][0]
    assert plainly_widened(access.http.get(f"/tools?{key}={value}")) == []


@every_of("access", "accesses")
@every("key", [key for key, _ in spellings("header")])
def test_no_header_widens_the_plain_list(access: Access, key: str) -> None:
    value = BY_KIND[known(key, "header").kind][0]
    assert plainly_widened(access.http.get("/tools", [(key, value)])) == []


def known(key: str, channel: Channel) -> Field:
    field = field_of(key, channel)
    assert field is not None
    return field


def plainly_widened(reply: Reply) -> list[str]:
    """Return what `GET /tools` shows beyond the operator's bounds; a refused selection shows nothing."""
    body = reply.json
    if reply.status == 400:
        return []
    tools = {tool["name"]: str(tool) for tool in body["tools"]}
    return [name for name, told in tools.items() if name not in (*TOOLS, *ENTRY_TOOLS) or LEAKED in told]


@every("field", FIELDS)
def test_every_field_has_values_to_try(field: Field) -> None:
    assert BY_KIND[field.kind]


TAMPERED = [
    "/messages/?session_id={id}",
    "/messages/?session_id={id}&tools=all",
    "/messages/?session_id={id}&tools=wipe_notes&disabled_tags=none",
    "/messages/?tools=wipe_notes&session_id={id}&tools=read_note",
    "/messages/?session_id={id}&selection_policy=override&tools=all",
    "/messages/x?session_id={id}&tools=wipe_notes",
    "/messages//?session_id={id}&tools=wipe_notes",
    "/messages/..%2fmcp?session_id={id}&tools=wipe_notes",
]


@every_of("access", "accesses")
@every("endpoint", TAMPERED)
def test_a_tampered_sse_endpoint_does_not_permit_a_call(access: Access, endpoint: str) -> None:
    with access.calling("sse", "?tools=read_note") as caller:
        session = caller.endpoint.partition("session_id=")[2].partition("&")[0]  # type: ignore[attr-defined]
        caller.endpoint = endpoint.format(id=session)  # type: ignore[attr-defined]
        answer: Answer = caller.ask("tools/call", {"name": "wipe_notes", "arguments": {}})
        assert answer.status >= 400 or answer.refused
        assert LEAKED.encode() not in answer.raw
