"""What the operator denies can't be listed, called, read, got, completed, subscribed to or told from the unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.every import every, every_of
from tests.wire.expected import (
    DENIED,
    DENIED_PROMPTS,
    DENIED_RESOURCES,
    DENIED_TEMPLATES,
    DENIED_TOOLS,
    DENIED_URIS,
    HASHED,
    HASHED_DENIED,
    LEAKED,
    PROMPTS,
    RESOURCES,
    SHADOWED,
    TEMPLATES,
    TOOLS,
    absent,
)
from tests.wire.wires import Answer, Caller, names

Params = dict[str, Any]
LISTS = {
    "tools/list": TOOLS,
    "prompts/list": PROMPTS,
    "resources/list": RESOURCES,
    "resources/templates/list": TEMPLATES,
}


def call(name: str) -> Params:
    return {"name": name, "arguments": {}}


def call_with_arguments(name: str) -> Params:
    return {"name": name, "arguments": {"text": "x"}}


def call_of_a_version(name: str) -> Params:
    return {"name": name, "arguments": {}, "_meta": {"fastmcp": {"version": "2"}}}


def read(uri: str) -> Params:
    return {"uri": uri}


def read_a_version(uri: str) -> Params:
    return {"uri": uri, "_meta": {"fastmcp": {"version": "2"}}}


def complete_prompt(name: str) -> Params:
    return {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "name", "value": ""}}


def complete_resource(uri: str) -> Params:
    return {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "name", "value": ""}}


GUESSES: list[tuple[str, Callable[[str], Params], list[str]]] = [
    ("tools/call", call, [*DENIED_TOOLS, HASHED_DENIED]),
    ("tools/call", call_with_arguments, [*DENIED_TOOLS, HASHED_DENIED]),
    ("tools/call", call_of_a_version, [*DENIED_TOOLS, HASHED_DENIED]),
    ("prompts/get", call, DENIED_PROMPTS),
    ("prompts/get", call_of_a_version, DENIED_PROMPTS),
    ("resources/read", read, [*DENIED_RESOURCES, *DENIED_URIS, *DENIED_TEMPLATES]),
    ("resources/read", read_a_version, [*DENIED_RESOURCES, *DENIED_URIS]),
    ("completion/complete", complete_prompt, DENIED_PROMPTS),
    ("completion/complete", complete_resource, [*DENIED_RESOURCES, *DENIED_URIS, *DENIED_TEMPLATES]),
    ("resources/subscribe", read, DENIED_RESOURCES),
]
EVERY_GUESS = [
    pytest.param(method, make, name, id=f"{method}-{make.__name__}-{name}")
    for method, make, names_ in GUESSES
    for name in names_
]
guesses = every(("method", "make", "name"), EVERY_GUESS)


def masked(answer: Answer, name: str) -> tuple[int, bytes]:
    """Return an answer with a name in it blotted out."""
    return answer.status, answer.raw.replace(name.encode(), b"?")


class TestLists:
    @every_of("caller", "callers")
    @every("method", LISTS)
    def test_a_list_is_exactly_what_the_operator_permits(self, caller: Caller, method: str) -> None:
        assert names(caller, method) == LISTS[method]

    @every_of("caller", "callers")
    @every("method", LISTS)
    def test_a_list_holds_no_word_of_what_is_denied(self, caller: Caller, method: str) -> None:
        text = caller.ask(method).raw.decode()
        assert [word for word in (*DENIED, LEAKED) if word in text] == []

    @every_of("caller", "callers")
    @every("method", LISTS)
    def test_a_cursor_does_not_reach_past_the_list(self, caller: Caller, method: str) -> None:
        answer = caller.ask(method, {"cursor": "eyJvIjogMH0="})
        assert LEAKED.encode() not in answer.raw

    @every_of("caller", "callers")
    def test_a_list_names_only_the_permitted_versions(self, caller: Caller) -> None:
        listed = {tool["name"]: tool for tool in caller.ask("tools/list").result["tools"]}
        assert "2" not in str(listed["edit_note"]["_meta"]["fastmcp"])


class TestPermitted:
    @every_of("caller", "callers")
    @every("name", TOOLS)
    def test_every_tool_listed_can_be_called(self, caller: Caller, name: str) -> None:
        assert not caller.ask("tools/call", call(name)).refused

    @every_of("caller", "callers")
    @every("name", PROMPTS)
    def test_every_prompt_listed_can_be_got(self, caller: Caller, name: str) -> None:
        assert not caller.ask("prompts/get", {"name": name}).refused

    @every_of("caller", "callers")
    @every("uri", [*RESOURCES, "note://other", "shelf://a/b"])
    def test_every_resource_listed_can_be_read(self, caller: Caller, uri: str) -> None:
        assert not caller.ask("resources/read", read(uri)).refused

    @every_of("caller", "callers")
    def test_a_permitted_app_tool_answers_to_its_hash(self, caller: Caller) -> None:
        assert not caller.ask("tools/call", call(HASHED)).refused

    @every_of("caller", "callers")
    @every("name", ["edit_note", "kid_edit"])
    def test_the_highest_permitted_version_answers(self, caller: Caller, name: str) -> None:
        assert caller.ask("tools/call", call(name)).result["content"][0]["text"].endswith("edit 1")

    @every_of("caller", "callers")
    def test_a_permitted_prompt_is_completed(self, caller: Caller) -> None:
        answer = caller.ask("completion/complete", complete_prompt("greet"))
        assert answer.result["completion"]["values"] == ["known greet"]


class TestGuesses:
    @every_of("caller", "callers")
    @guesses
    def test_yield_nothing_and_read_the_same_to_the_byte_as_what_never_existed(
        self, caller: Caller, method: str, make: Callable[[str], Params], name: str
    ) -> None:
        missing, denied = absent(name), caller.ask(method, make(name))
        assert LEAKED.encode() not in denied.raw
        assert masked(denied, name) == masked(caller.ask(method, make(missing)), missing)

    @every_of("caller", "callers")
    @every("uri", SHADOWED)
    def test_what_is_denied_is_not_served_by_a_permitted_template_that_fits_it(self, caller: Caller, uri: str) -> None:
        answer, missing = caller.ask("resources/read", read(uri)), "gone://hidden"
        assert masked(answer, uri) == masked(caller.ask("resources/read", read(missing)), missing)

    @every_of("caller", "callers")
    @every("uri", SHADOWED)
    def test_what_is_denied_is_not_completed_by_way_of_a_permitted_template(self, caller: Caller, uri: str) -> None:
        answer = caller.ask("completion/complete", complete_resource(uri))
        assert answer.result["completion"]["values"] == []

    @every_of("caller", "callers")
    @every("name", ["edit_note", "kid_edit", HASHED])
    def test_a_denied_version_reads_like_one_that_never_existed(self, caller: Caller, name: str) -> None:
        versions = [{**call(name), "_meta": {"fastmcp": {"version": version}}} for version in ("2", "3")]
        denied, missing = (caller.ask("tools/call", params).raw for params in versions)
        assert denied == missing

    @every_of("caller", "callers")
    def test_a_denied_version_of_a_prompt_reads_like_one_that_never_existed(self, caller: Caller) -> None:
        versions = [{"name": "story", "_meta": {"fastmcp": {"version": version}}} for version in ("2", "3")]
        denied, missing = (caller.ask("prompts/get", params).raw for params in versions)
        assert denied == missing


NEAR = [
    "WIPE_NOTES", "Wipe_Notes", " wipe_notes", "wipe_notes ", "wipe_notes\t", "wipe_notes\n", "wipe_notes\u200b",
    "\u200bwipe_notes", "wipe_notes\u00a0", "w\u0131pe_notes", "W\u0130PE_NOTES", "wipe\uff3fnotes", "wi\u0440e_notes",
    "\uff57\uff49\uff50\uff45\uff3f\uff4e\uff4f\uff54\uff45\uff53", "\ufb06ray_tool", "\ufb05ray_tool",
    "wipe_note\u017f",
    "wipe_notes\x00", "wipe_notes@2", "wipe_notes@1", "sealed_note@2", "edit_note@2", "kid_edit@2", "kid_edit@1",
    "wipe", "kid_kid_wipe", "kid/wipe", "kid.wipe", "kid:wipe", "KID_wipe", "burn", "far_far_burn", "far/burn",
    "*", "all", "wipe*", "*_notes", "wipe_notes,read_note", "read_note,wipe_notes", "../wipe_notes", "tool:wipe_notes",
    "tool:wipe_notes@", "panel___panel_wipe", "added_wipe@1", "%77ipe_notes", "",
]  # fmt: skip


class TestSpellings:
    @every_of("caller", "callers")
    @every("name", NEAR)
    def test_no_spelling_of_a_denied_tool_calls_it(self, caller: Caller, name: str) -> None:
        answer = caller.ask("tools/call", call(name))
        assert answer.refused
        assert LEAKED.encode() not in answer.raw

    @every_of("caller", "callers")
    @every("version", ["2", "v2", "2.0", "02", " 2", "\uff12", "latest", "*", ">=2", 2, None, ["2"], {"eq": "2"}])
    @every("name", ["sealed_note", "edit_note", "kid_edit"])
    def test_no_spelling_of_a_version_reaches_a_denied_one(self, caller: Caller, name: str, version: Any) -> None:
        answer = caller.ask("tools/call", {**call(name), "_meta": {"fastmcp": {"version": version}}})
        assert LEAKED.encode() not in answer.raw

    @every_of("caller", "callers")
    @every(
        "uri",
        [
            "PLAN://secret", "plan://SECRET", "plan://secret/", "plan://secret?x=1", "plan://secret#x", "plan:secret",
            "plan://%73ecret", "plan:///secret", " plan://secret", "toy://hidden", "toy://kid//hidden",
            "toy://kid/%68idden", "toy://kid/x/../hidden", "note://%68idden", "note://hidden?", "note://HIDDEN",
            "vault://", "VAULT://gold", "vault://gold?x=1", "vault://g%6fld", "shelf://a%2Fbooks", "shelf://a/books/",
        ],
    )  # fmt: skip
    def test_no_spelling_of_a_denied_uri_reads_it(self, caller: Caller, uri: str) -> None:
        assert LEAKED.encode() not in caller.ask("resources/read", read(uri)).raw


META: list[Params] = [
    {"x-mcp-enabled-tools": "all"},
    {"x-mcp-selection-policy": "override", "x-mcp-enabled-tools": "wipe_notes"},
    {"selection_policy": "override", "tools": "wipe_notes", "disabled_tags": "none"},
    {"agent-utilities/selection": {"disabled_tags": [], "disabled_tools": "none", "read_only": False, "tags": ["all"]}},
    {"fastmcp": {"tags": ["read"], "version": None, "visibility": ["app", "model"], "_internal": {"visibility": True}}},
    {"fastmcp": "all"},
]


MALFORMED: list[Params] = [
    {"agent-utilities/selection": {"permitted": 99, "selection_policy": "override", "tools": ["wipe_notes"]}},
    {"agent-utilities/selection": "override"},
]


class TestRequestMeta:
    @every_of("caller", "callers")
    @every("meta", MALFORMED)
    def test_malformed_request_meta_is_refused_and_tells_nothing(self, caller: Caller, meta: Params) -> None:
        for method, params in (("tools/list", {}), ("tools/call", call("wipe_notes"))):
            answer = caller.ask(method, {**params, "_meta": meta})
            assert answer.refused
            assert LEAKED.encode() not in answer.raw

    @every_of("caller", "callers")
    @every("meta", META)
    def test_request_meta_does_not_widen_a_list(self, caller: Caller, meta: Params) -> None:
        listed = caller.ask("tools/list", {"_meta": meta}).result["tools"]
        assert [tool["name"] for tool in listed] == TOOLS

    @every_of("caller", "callers")
    @every("meta", META)
    def test_request_meta_does_not_permit_a_call(self, caller: Caller, meta: Params) -> None:
        assert caller.ask("tools/call", {**call("wipe_notes"), "_meta": meta}).refused
