"""What a server lists, and what it sends on a request: each follows from a number, for whoever asks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.differential.values import (
    HALF_A_CHARACTER,
    NUMBERS,
    WORDS,
    Json,
    Message,
    any_schema,
    object_schema,
    own_meta,
    perhaps,
    some,
    some_object,
)

MODERN = "2026-07-28"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MIB = 2**20

# -- what is asked -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exchange:
    """A request, and what a server does on it.

    Args:
        seed: what both follow from.
        method: of the protocol.
        scheme: of the server's URIs.
    """

    seed: int
    method: str
    scheme: str

    @property
    def params(self) -> Message:
        """What the server itself is asked."""
        rng, number = Random(f"asked {self.seed}"), str(self.seed)
        match self.method:
            case "tools/call":
                return {"name": "play", "arguments": {**some_object(rng), "seed": self.seed}}
            case "prompts/get":
                return {"name": "play", "arguments": {"seed": number, "other": rng.choice(WORDS)}}
            case "resources/read":
                return {"uri": f"{self.scheme}://play/{number}"}
            case _:
                ref = {"type": "ref/prompt", "name": "play"}
                return {"ref": ref, "argument": {"name": "seed", "value": number}}

    def play(self, era: str) -> Play:
        """Return what a server of an era does."""
        return play(self.method, self.params, self.scheme, era)


def exchange(seed: int, scheme: str) -> Exchange:
    """Return the exchange of a seed."""
    methods = ("tools/call", "prompts/get", "resources/read", "completion/complete")
    return Exchange(seed, Random(f"method {seed}").choices(methods, (76, 10, 10, 4))[0], scheme)


def seed_of(method: str, params: Mapping[str, Any]) -> int | None:
    """Return the seed that a request bears; None for one that bears none."""
    try:
        match method:
            case "tools/call" | "prompts/get":
                return int(params["arguments"]["seed"])
            case "resources/read":
                return int(params["uri"].rpartition("/")[2])
            case _:
                return int(params["argument"]["value"])
    except (KeyError, TypeError, ValueError):
        return None


# -- what is sent ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """What a server sends on a request.

    Args:
        notices: before the answer, in this order; the token of progress is the request's.
        answer: with `result` or `error`.
    """

    notices: tuple[Message, ...]
    answer: Message

    @property
    def is_loud(self) -> bool:
        """Whether a server over stdio can't say whose a notice is: such a call is made while there is no other."""
        return any(notice["method"] == "notifications/message" for notice in self.notices)


def play(method: str, params: Mapping[str, Any], scheme: str, era: str) -> Play:
    """Return what a server of an era does on a request."""
    seed = seed_of(method, params)
    rng = Random(f"play {seed}")
    notices = _notices(rng) if rng.random() < 0.2 else ()
    if rng.random() < 0.12:
        return Play(notices, {"error": _error(rng)})
    result = _result(rng, method, params, scheme)
    result |= perhaps(rng, 0.1, _meta=lambda: own_meta(rng))
    result |= perhaps(rng, 0.05, **{"usage": lambda: some(rng), "own key": lambda: some(rng)})
    if rng.random() < 0.02:
        result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "fuzz", "version": "1"}, "kept": 1}
    if rng.random() < 0.02:
        result["_meta"] = rng.choice((5, None, [], [1], "x", True))
    if era == MODERN and rng.random() < 0.9:
        result["resultType"] = "complete"
        if method == "resources/read":
            result |= {"ttlMs": 0, "cacheScope": "private"}
    return Play(notices, {"result": result})


def _result(rng: Random, method: str, params: Mapping[str, Any], scheme: str) -> Message:
    match method:
        case "tools/call":
            return _called(rng, params, scheme)
        case "prompts/get":
            return _prompt(rng, scheme)
        case "resources/read":
            return _read(rng, params["uri"])
        case _:
            return {"completion": {"values": [rng.choice(WORDS)], **perhaps(rng, 0.3, total=lambda: 5)}}


def _notices(rng: Random) -> tuple[Message, ...]:
    kind = rng.randrange(20)
    if kind < 9:
        return tuple(_progress(rng, n) for n in range(rng.randrange(1, 6)))
    if kind < 18:
        return tuple(_log(rng) for _ in range(rng.randrange(1, 6)))
    odd = "notifications/odd" if kind == 18 else "notifications/tools/list_changed"
    return ({"method": odd}, _progress(rng, 0), {"method": "notifications/odd", "params": some_object(rng)})


def _progress(rng: Random, n: int) -> Message:
    more = perhaps(rng, 0.3, total=lambda: 5, message=lambda: rng.choice(WORDS))
    return {"method": "notifications/progress", "params": {"progress": n + rng.choice((0, 0.25)), **more}}


def _log(rng: Random) -> Message:
    more = perhaps(rng, 0.2, logger=lambda: rng.choice(WORDS), _meta=lambda: own_meta(rng))
    return {"method": "notifications/message", "params": {"level": rng.choice(LEVELS), "data": some(rng), **more}}


_NO_ERRORS: Sequence[Json] = (
    {"code": "E_FAIL", "message": "text for a code"},
    {"message": "no code"},
    {"code": -32000},
    {"code": 1.5, "message": "a fraction"},
    {"code": -32001, "message": None},
    "failed",
    None,
)
"""What servers answer with in an error's place."""


def _error(rng: Random) -> Json:
    if rng.random() < 0.15:
        return rng.choice(_NO_ERRORS)
    code = rng.choice((-32603, -32602, -32601, -32600, -32700, -32000, -32001, -32002, -32042, 0, 1, 404, 2**31, -1))
    messages = (*WORDS, "Connection closed", "Session terminated", "SSE stream ended", "timeout", "x" * 5_000)
    return {"code": code, "message": rng.choice(messages), **perhaps(rng, 0.5, data=lambda: some(rng))}


_SELDOM = 2_000
_HUGE: Mapping[int, Callable[[], list[Message]]] = {
    500: lambda: [{"type": "text", "text": "x" * (17 * MIB)}],
    1_001: lambda: [{"type": "text", "text": "x"}] * 20_000,
    1_502: lambda: [{"type": "text", "text": "é" * (5 * MIB)}],
}
"""Results of several megabytes, or of many blocks, by what is left of a seed."""


def _called(rng: Random, params: Mapping[str, Any], scheme: str) -> Message:
    if rng.random() < 0.1:
        return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"), sort_keys=True)}]}
    if (huge := _HUGE.get(params["arguments"]["seed"] % _SELDOM)) is not None:
        return {"content": huge()}
    made: Message = {"content": [block(rng, scheme) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]}
    odd = rng.random()
    if odd < 0.05:
        del made["content"]
    elif odd < 0.07:
        made["content"] = rng.choice((None, "text", {}, [None], ["text"], [5], [{}], [{"type": 5}]))
    if rng.random() < 0.35:
        made["structuredContent"] = some_object(rng) if rng.random() < 0.5 else some(rng)
    made |= perhaps(rng, 0.25, isError=lambda: rng.choice((True, False, True, False, "true", 1, None)))
    return made


def block(rng: Random, scheme: str) -> Message:
    """Return a block of content, of a kind that the protocol has or of another."""
    more = perhaps(
        rng,
        0.1,
        annotations=lambda: rng.choice(({"audience": ["user"], "priority": 0.5}, {"own": 1}, {"priority": 7}, None)),
        _meta=lambda: own_meta(rng),
        own=lambda: some(rng),
    )
    kind = rng.randrange(10)
    uri = rng.choice(
        (f"{scheme}://listed/1", f"{scheme}://play/1", f"{scheme}://unlisted/1", "https://example.org/é a")
    )
    if kind == 0:
        return {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", **more}
    if kind == 1:
        return {"type": "audio", "data": rng.choice(("AAAA", "", "no base64!")), "mimeType": "audio/x-odd", **more}
    if kind == 2:
        return {"type": "resource_link", "uri": uri, "name": rng.choice(WORDS), **more}
    if kind == 3:
        return {"type": "resource", "resource": _contents(rng, uri), **more}
    if kind == 4:
        return {"type": rng.choice(("video", "tool_use", "", "x-own")), **some_object(rng), **more}
    if kind == 5 and rng.random() < 0.1:
        return {"type": "text", "text": HALF_A_CHARACTER}
    if kind == 5 and rng.random() < 0.05:
        return {"type": "text", "text": "long " * (MIB // 5)}
    return {"type": "text", "text": rng.choice(WORDS), **more}


def _contents(rng: Random, uri: str) -> Message:
    either = {"blob": rng.choice(("AAEC", "", "AAE"))} if rng.random() < 0.4 else {"text": rng.choice(WORDS)}
    return {"uri": uri, **either, **perhaps(rng, 0.3, mimeType=lambda: "text/x-own", _meta=lambda: own_meta(rng))}


def _prompt(rng: Random, scheme: str) -> Message:
    messages = [
        {"role": rng.choice(("user", "assistant")), "content": block(rng, scheme), **perhaps(rng, 0.05, own=lambda: 1)}
        for _ in range(rng.randrange(3))
    ]
    return {"messages": messages, **perhaps(rng, 0.3, description=lambda: rng.choice(WORDS))}


def _read(rng: Random, uri: str) -> Message:
    return {"contents": [_contents(rng, uri if n == 0 else f"{uri}/{n}") for n in range(rng.choice((0, 1, 1, 2)))]}


NAMES = ("with space {n}", "ü{n}", "{n}" + "x" * 100, "a.b/{n}", "t_{n}_0123456789ab", "")
"""Names of tools that hosts don't take."""

# -- what is listed ----------------------------------------------------------------------------------------------------


def listed(kind: str, seed: int, n_items: int, scheme: str) -> list[Message]:
    """Return what a server lists of a kind: what plays, as many others as are wanted, some illegal, and one again."""
    others = [_LISTED[kind](Random(f"{kind} {seed} {n}"), n, scheme) for n in range(n_items)]
    again = _LISTED[kind](Random(f"{kind} {seed} again"), 0, scheme)
    return [_PLAYING[kind](scheme), *others, again]


def _tool(rng: Random, n: int, scheme: str) -> Message:
    illegal = 0.3 if rng.random() < 0.3 else 0.0
    given = any_schema(rng, 1.0) if rng.random() < illegal else object_schema(rng)
    name = f"t{n}" if rng.random() < 0.97 else rng.choice(NAMES).format(n=n)
    made: Message = {"name": name, "inputSchema": given, **_described(rng)}
    if rng.random() < 0.5:
        made["outputSchema"] = any_schema(rng, illegal)
    made |= perhaps(
        rng,
        0.1,
        annotations=lambda: {"readOnlyHint": rng.choice((True, False)), **perhaps(rng, 0.5, own=lambda: some(rng))},
        execution=lambda: {"taskSupport": rng.choice(("forbidden", "optional"))},
    )
    if rng.random() < 0.1:
        made.setdefault("_meta", {})["ui"] = {"resourceUri": f"{scheme}://listed/1"}
    return _spoilt(rng, made)


def _described(rng: Random) -> Message:
    return perhaps(
        rng,
        0.2,
        title=lambda: rng.choice(WORDS),
        description=lambda: rng.choice((*WORDS, "d" * 5_000)),
        _meta=lambda: own_meta(rng),
        icons=lambda: [{"src": "data:image/png;base64,AA", **perhaps(rng, 0.5, own=lambda: 1)}],
        own=lambda: some(rng),
    )


def _spoilt(rng: Random, made: Message) -> Message:
    """Return an item, now and then with a value that the protocol does not know."""
    if rng.random() < 0.04:
        made[rng.choice(("description", "title", "annotations", "_meta", "icons"))] = rng.choice((5, None, [], "x"))
    return made


def _listed_prompt(rng: Random, n: int, scheme: str) -> Message:
    arguments = [{"name": f"a{i}", **perhaps(rng, 0.4, required=lambda: True, own=lambda: 1)} for i in range(2)]
    return _spoilt(rng, {"name": f"p{n}", **perhaps(rng, 0.5, arguments=lambda: arguments), **_described(rng)})


def _resource(rng: Random, n: int, scheme: str) -> Message:
    more = perhaps(rng, 0.3, mimeType=lambda: rng.choice(("text/plain", "", "odd")), size=lambda: rng.choice(NUMBERS))
    return _spoilt(rng, {"uri": f"{scheme}://listed/{n}", "name": rng.choice(WORDS), **more, **_described(rng)})


def _template(rng: Random, n: int, scheme: str) -> Message:
    form = rng.choice(("{a}", "{+a}", "{?a,b}", "{/a*}", "{a}/{b}", "{#a}"))
    return _spoilt(rng, {"uriTemplate": f"{scheme}://made/{n}/{form}", "name": rng.choice(WORDS), **_described(rng)})


_PLAYING: Mapping[str, Callable[[str], Message]] = {
    "tools": lambda scheme: {"name": "play", "inputSchema": {"type": "object"}},
    "prompts": lambda scheme: {"name": "play", "arguments": [{"name": "seed"}, {"name": "other"}]},
    "resources": lambda scheme: {"uri": f"{scheme}://listed/play", "name": "play"},
    "resourceTemplates": lambda scheme: {"uriTemplate": f"{scheme}://play/{{seed}}", "name": "play"},
}
_LISTED: Mapping[str, Callable[[Random, int, str], Message]] = {
    "tools": _tool,
    "prompts": _listed_prompt,
    "resources": _resource,
    "resourceTemplates": _template,
}
