"""Why an answer through a gateway may differ from the server's own: every reason, each with what it makes of it.

An answer is the server's own, as each reason that fits has it, one after the other, and nothing else. A reason that no
exchange needs is none: the test fails on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types.methods import validate_server_result
from pydantic_core import from_json, to_json

from agent_utilities.gateway.upstreams.names import Namespace
from tests.differential.plays import MIB, MODERN
from tests.differential.raw import UPSTREAMS, Message, Upstream

NAMESPACE = Namespace([*(upstream.name for upstream in UPSTREAMS), "honest"])
_CONNECTION = "io.modelcontextprotocol/"
_GROUPS = f"{_CONNECTION}groups"
_LISTED = re.compile(r"(listed/.*|play/(\d+|\{seed\})|made/.*)$")
_WITHIN = 16
"""How deep an item may stand within what is read."""
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Case:
    """What is compared.

    Args:
        upstream: whom it comes from.
        caller: the protocol version of who asks.
        method: what is asked: of a list, one item of it is compared.
        got: what came through the gateway, `{"answer": ..., "notices": [...]}`, or the item in its list as `answer`.
        is_again: whether it is an item whose name an item before it in the list had.
    """

    upstream: Upstream
    caller: str
    method: str
    got: Mapping[str, Any]
    is_again: bool = False

    @property
    def is_modern(self) -> bool:
        """Whether the caller is of 2026-07-28."""
        return self.caller == MODERN

    @property
    def is_list(self) -> bool:
        """Whether it is an item of a list."""
        return self.method.endswith("/list")

    def item_key(self) -> str:
        """Return under which key a list has its items."""
        return "resourceTemplates" if "templates" in self.method else self.method.removesuffix("/list")


@dataclass(frozen=True)
class Reason:
    """A reason.

    Args:
        why: in a sentence.
        made: what it makes of what is expected, which it may change; the same where it does not fit.
    """

    why: str
    made: Callable[[Message, Case], Any]


# -- parts of an answer ------------------------------------------------------------------------------------------------


def _result(said: Message) -> Message | None:
    answer = said["answer"]
    found = answer.get("result") if isinstance(answer, dict) else None
    return found if isinstance(found, dict) else None


def _on_result(change: Callable[[Message, Case], None]) -> Callable[[Message, Case], Any]:
    """Return what changes results, and neither errors nor lists."""

    def made(said: Message, case: Case) -> None:
        if not case.is_list and (result := _result(said)) is not None:
            change(result, case)

    return made


def _on_item(change: Callable[[Message, Case], None]) -> Callable[[Message, Case], Any]:
    """Return what changes items of lists."""

    def made(said: Message, case: Case) -> None:
        if case.is_list and isinstance(said["answer"], dict):
            change(said["answer"], case)

    return made


def _got_result(case: Case) -> Message:
    return _result(dict(case.got)) or {}


# -- what each makes of it ---------------------------------------------------------------------------------------------


def _prefixed(item: Message, case: Case) -> None:
    if case.item_key() in ("tools", "prompts"):
        item["name"] = NAMESPACE.namespaced(case.upstream.name, item["name"])


def uri_here(uri: Any, upstream: Upstream, got: str = "") -> Any:
    """Return what a URI of a server is called at the gateway, where it lists it, or makes it by a template."""
    beginning, sharing = f"{upstream.scheme}://", [each for each in UPSTREAMS if each.scheme == upstream.scheme]
    if len(sharing) == 1 or not isinstance(uri, str) or not uri.startswith(beginning):
        return uri
    path = uri.removeprefix(beginning)
    here = f"{beginning}{upstream.name}/{path}"
    if _LISTED.match(path):
        return uri if upstream is sharing[0] else here
    # One in no list bears the server's name where another server gave its caller the same before.
    return here if json.dumps(here) in got else uri


def _rename(value: Any, upstream: Upstream, got: str) -> None:
    """Rename the URIs of links, contents and embedded resources, or of a list of them."""
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            continue
        for key in ("uri", "uriTemplate", "resourceUri"):
            if key in each:
                each[key] = uri_here(each[key], upstream, got)
        if each.get("type") == "resource":
            _rename(each.get("resource"), upstream, got)


def _renamed(said: Message, case: Case) -> None:
    answer, result, got = said["answer"], _result(said), json.dumps(case.got)
    if case.is_list and isinstance(answer, dict):
        _rename(answer, case.upstream, got)
        if isinstance(meta := answer.get("_meta"), dict):
            _rename(meta.get("ui"), case.upstream, got)
    elif result is not None:
        _rename(result.get("content"), case.upstream, got)
        _rename(result.get("contents"), case.upstream, got)
        for message in result.get("messages") or ():
            _rename(message.get("content"), case.upstream, got)


def _tagged(item: Message, case: Case) -> None:
    told, meta = (case.got["answer"] or {}).get("_meta"), item.get("_meta") or {}
    if not isinstance(told, dict) or not isinstance(meta, dict):
        return
    tags, groups = told.get("fastmcp"), told.get(_GROUPS)
    if isinstance(tags, dict) and case.upstream.name in tags.get("tags", ()):
        meta = {**meta, "fastmcp": tags}
    if isinstance(groups, list) and case.upstream.name in groups:
        meta = {**meta, _GROUPS: groups}
    if meta:
        item["_meta"] = meta


def _of_connection(result: Message, case: Case) -> None:
    told, meta = _got_result(case).get("_meta"), result.get("_meta", {})
    if case.is_modern and not isinstance(meta, dict):
        meta = {}  # there must be one, and what is none has no room for it
    if isinstance(meta, dict):
        kept = {key: value for key, value in meta.items() if not key.startswith(_CONNECTION)}
        if case.is_modern and isinstance(told, dict):
            kept |= {key: value for key, value in told.items() if key.startswith(_CONNECTION)}
        if kept or meta:
            result["_meta"] = kept
        if not kept and meta:
            del result["_meta"]


def _kind_of_result(result: Message, case: Case) -> None:
    if case.is_modern:
        result.setdefault("resultType", "complete")
    else:
        result.pop("resultType", None)


def _keeping(result: Message, case: Case) -> None:
    if case.method == "resources/read":
        given = _got_result(case) if case.is_modern else {}
        for key in ("ttlMs", "cacheScope"):
            result.pop(key, None)
            if key in given:
                result[key] = given[key]


def _structured(result: Message, case: Case) -> None:
    value, got = result.get("structuredContent", {}), _got_result(case)
    if case.is_modern or case.upstream.era != MODERN or isinstance(value, dict):
        return
    del result["structuredContent"]
    if got.get("structuredContent") == {"result": value}:
        result["structuredContent"] = {"result": value}


def _output_schema(item: Message, case: Case) -> None:
    own = item.get("outputSchema")
    if "outputSchema" not in item or _fits(item, case) or not _fits({**item, "outputSchema": {"type": "object"}}, case):
        return
    del item["outputSchema"]
    shown = (case.got["answer"] or {}).get("outputSchema")
    if isinstance(shown, dict) and (shown.get("properties") or {}).get("result") == own:
        item["outputSchema"] = shown


def _without_tasks(item: Message, case: Case) -> None:
    if case.is_modern and "execution" not in (case.got["answer"] or {}):
        item.pop("execution", None)


def _once(said: Message, case: Case) -> None:
    if case.is_again:
        said["answer"] = None


def _left_out(said: Message, case: Case) -> None:
    """Expect what came of an item that does not fit: less of it, that fits, or nothing."""
    item, got = said["answer"], case.got["answer"]
    if not case.is_list or _fits(item, case):
        return
    is_less = isinstance(item, dict) and isinstance(got, dict) and _fits(got, case)
    mended = {"inputSchema", "annotations"}
    if isinstance(item, dict) and not isinstance(item.get("_meta", {}), dict):
        mended.add("_meta")  # which has the gateway's own instead
    if is_less and all(key in mended or (key in item and item[key] == got[key]) for key in got):
        said["answer"] = got
    else:
        said["answer"] = None


def _fits(item: Any, case: Case) -> bool:
    """Whether the caller's protocol version has such an item, and it can be read within a list.

    For another one a client refuses the whole list.
    """
    page: Message = {case.item_key(): [item]}
    if case.is_modern:
        page |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        validate_server_result(case.method, case.caller, page)
        from_json(_WITHIN * b"[" + to_json(item) + _WITHIN * b"]")
    except (ValueError, RecursionError):
        return False
    return isinstance(item, dict)


def _too_much(said: Message, case: Case) -> None:
    content = (_result(said) or {}).get("content")
    if not isinstance(content, list) or not content:
        return
    # As many as there are where it is written in the longest way: a line for each value, in an event of lines.
    lines = json.dumps(said, indent=2).splitlines()
    n_bytes = sum(map(len, lines)) + len("data: \r\n") * len(lines)
    if (n_bytes > 16 * MIB or len(content) > 2**14) and "the most that is taken" in json.dumps(case.got["answer"]):
        said["answer"] = case.got["answer"]


def _whole_characters(said: Message, case: Case) -> None:
    text = json.dumps(said, ensure_ascii=False)
    if (whole := _HALF.sub("\ufffd", text)) != text:
        said |= json.loads(whole)


def _elsewhere(said: Message, case: Case) -> None:
    said["notices"] = [each for each in said.get("notices", ()) if not each["method"].endswith("/list_changed")]


def _unknown_notices(said: Message, case: Case) -> None:
    said["notices"] = [
        each for each in said["notices"] if each["method"] in ("notifications/progress", "notifications/message")
    ]


def _no_error(said: Message, case: Case) -> None:
    answer, got = said["answer"], case.got["answer"]
    if not isinstance(answer, dict) or "error" not in answer or not isinstance(got, dict):
        return
    error, told = answer["error"], got.get("error")
    if isinstance(error, dict) and error.get("data", "") is None:
        del error["data"]
    is_one = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    if not is_one and isinstance(told, dict) and type(told.get("code")) is int and isinstance(told.get("message"), str):
        said_text = error.get("message") if isinstance(error, dict) else error
        if not isinstance(said_text, str) or said_text in told["message"]:
            answer["error"] = told
    elif not is_one and "not MCP" in json.dumps(_result(dict(case.got))):  # so the result of a call tells it
        said["answer"] = got


REASONS: Mapping[str, Reason] = {
    "names": Reason("two servers may have a tool of one name, so each bears its server's", _on_item(_prefixed)),
    "URIs": Reason("of two servers that have one URI the second's bears its name, wherever it names it", _renamed),
    "tags": Reason("a server's name is a toolset, and a list says which each component is in", _on_item(_tagged)),
    "connection": Reason("who is at the other end some keys say, and that is the gateway", _on_result(_of_connection)),
    "kind of result": Reason("2026-07-28 says of what kind a result is, others do not", _on_result(_kind_of_result)),
    "keeping": Reason("the gateway's callers are bounded, so it says who may keep a result", _on_result(_keeping)),
    "structured content": Reason("versions before 2026-07-28 have objects in it alone", _on_result(_structured)),
    "output schema": Reason("one that the caller's version has not costs itself alone", _on_item(_output_schema)),
    "tasks": Reason("how a tool runs as a task 2026-07-28 does not say of it", _on_item(_without_tasks)),
    "left out": Reason(
        "what the caller's version has not would cost its clients the whole list, and is left off", _left_out
    ),
    "too much": Reason("a message is bounded in bytes and in blocks of content", _too_much),
    "list_changed": Reason("lists are the gateway's, and it tells of their changes itself", _elsewhere),
    "unknown notices": Reason("whom a notice is for is not known where the protocol has no such", _unknown_notices),
    "half a character": Reason("UTF-8 has whole ones alone, and a sign for what is none", _whole_characters),
    "listed again": Reason("a name is one component's, so of several that bear it the first is listed", _once),
    "no error": Reason("JSON-RPC has a number and a text in it, and no null", _no_error),
}
"""In the order in which they are applied."""
