"""The entry tools `tool_search` and `call_tool`: definitions, parsed arguments, and the text about deferred tools."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.policy.entry_names import CALL_TOOL, TOOL_SEARCH, EntryNames

if TYPE_CHECKING:
    from agent_utilities.seam.host import CallOption
    from agent_utilities.seam.request import Call

MAX_RESULTS = 25
"""The most tools that one search gives or names."""
DEFAULT_RESULTS = 10
"""How many of them where nobody says."""


_BY_CALL_TOOL = ", or through call_tool if your tool list doesn't show it"
"""Left out where a caller is denied `call_tool`."""

TOOL_SEARCH_DESCRIPTION = (
    "Find deferred tools: they are not in your tool list, yet can be called. Search before you say that something"
    " can't be done. Give words for what you want to do, or `select:NAME,NAME` to load tools by name. What is found"
    f" comes with input schemas: call it directly by its name{_BY_CALL_TOOL}."
)
"""The description that every caller gets; its own `deferred_text` follows, after a space."""

CALL_TOOL_DESCRIPTION = (
    "Call a deferred tool by its name when your tool list doesn't show it; tool_search gives names and input schemas."
    " The result is the tool's own. Arguments that don't fit are answered with the tool's input schema."
)

TOOL_SEARCH_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Such as `merge a pull request` or `select:git_log,git_diff`"},
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_RESULTS,
            "description": "Load this many; by default the best few, and more are named",
        },
        "server": {"type": "string", "description": "Search only this server's tools"},
    },
    "required": ["query"],
    "additionalProperties": False,
}

CALL_TOOL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name"},
        "arguments": {"type": "object", "description": "As its input schema says"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


AS_MEANT = "give the name of a tool in `name`, and its own arguments as an object in `arguments`"
"""The hint for wrong arguments of `call_tool`."""


def unknown_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a schema does not know, in alphabetical order."""
    return sorted(arguments.keys() - schema["properties"].keys())


def search_definition(names: EntryNames, deferred: str, forms: Iterable[str] = ()) -> dict[str, Any]:
    """Return `tool_search` as `tools/list` sends it.

    It is listed first, where a changed word costs a host its whole prompt cache: `deferred` must stay the same
    while the tools do.

    Args:
        forms: other forms than JSON schemas in which tools can be given.
    """
    schema: dict[str, Any] = deepcopy(dict(TOOL_SEARCH_SCHEMA))
    schema["properties"] |= {"as": {"enum": ["schema", *forms]}} if (forms := tuple(forms)) else {}
    text = TOOL_SEARCH_DESCRIPTION if names.call is not None else TOOL_SEARCH_DESCRIPTION.replace(_BY_CALL_TOOL, "")
    return {
        "name": names.search,
        "description": f"{_named(text, names)} {deferred}".rstrip(),
        "inputSchema": schema,
    }


def call_definition(names: EntryNames, options: Iterable[CallOption] = ()) -> dict[str, Any]:
    """Return `call_tool` as `tools/list` sends it, with the arguments that features take beside the tool's own."""
    schema: dict[str, Any] = deepcopy(dict(CALL_TOOL_SCHEMA))
    schema["properties"] |= {option.name: dict(option.schema) for option in options}
    return {
        "name": names.call or CALL_TOOL,
        "description": _named(CALL_TOOL_DESCRIPTION, names),
        "inputSchema": schema,
    }


def _named(text: str, names: EntryNames) -> str:
    return text.replace(TOOL_SEARCH, names.search).replace(CALL_TOOL, names.call or CALL_TOOL)


_NAME_LISTS = ("names", "tools", "tool_names")
"""How other hosts' load tools take names."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """Parsed arguments of `tool_search`."""

    query: str
    max_results: int | None = None
    server: str | None = None


def search_arguments(arguments: Mapping[str, Any]) -> SearchArguments:
    """Return the arguments of a search; a number may come as text, and names as a list.

    Raises:
        InputError: one is missing, unknown, of the wrong type or out of bounds.
    """
    values = {key: value for key, value in arguments.items() if value is not None}
    for key in _NAME_LISTS:
        names = values.pop(key, None)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            values.setdefault("query", f"select:{','.join(names)}")
        elif names is not None:
            raise InputError("not a list of names", names, f"tool_search: {key}", "give query instead")
    if unknown := unknown_arguments(values, TOOL_SEARCH_SCHEMA):
        raise InputError("no such argument", unknown[0], "tool_search", "it takes query, max_results and server")
    query, server = values.get("query"), values.get("server")
    if not isinstance(query, str):
        raise InputError("no words to search for", query, "tool_search: query", "give words, or select:a,b")
    if server is not None and not isinstance(server, str):
        raise InputError("not a server's name", server, "tool_search: server", "give one, or leave it out")
    for key, text in (("query", query), ("server", server or "")):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError("not Unicode text", text, f"tool_search: {key}", "leave lone surrogates out")
    max_results = n_results(values["max_results"]) if "max_results" in values else None
    return SearchArguments(query, max_results, server or None)


def n_results(max_results: object) -> int:
    """Return the most tools that a search gives or names; the number may come as text.

    Raises:
        InputError: it is no whole number from 1 to 25.
    """
    if max_results is None:
        return DEFAULT_RESULTS
    most = max_results
    if isinstance(most, str) and most.isascii() and most.isdecimal():
        most = int(most[:4])
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MAX_RESULTS:
        hint = f"give a whole number from 1 to {MAX_RESULTS}"
        raise InputError("not a number of tools that one search gives", max_results, "tool_search: max_results", hint)
    return most


def call_arguments(arguments: Mapping[str, Any], options: Collection[str] = ()) -> tuple[str, dict[str, Any]]:
    """Return the tool that `call_tool` is called for, and with what; that may come as JSON text, or not at all.

    Args:
        options: names of arguments that features take beside the tool's own.

    Raises:
        InputError: there is no name, the tool's arguments are no object, or there are other arguments beside the two: a
            tool that is called without what it was to be called with may do something else.
    """
    if unknown := [name for name in unknown_arguments(arguments, CALL_TOOL_SCHEMA) if name not in options]:
        raise InputError("no such argument", unknown[0], CALL_TOOL, AS_MEANT)
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("no tool's name", name, "call_tool: name", "give it, and the tool's arguments as an object")
    value = arguments.get("arguments")
    read = value
    if isinstance(read, str):
        try:
            read = json.loads(read.strip() or "{}")
        except (ValueError, RecursionError):
            read = value
    if read is None:
        return name, {}
    if not isinstance(read, Mapping):
        raise InputError("not an object", value, "call_tool: arguments", "give each of the tool's by its name")
    return name, dict(read)


_SAID = ("wrong arguments for ", "invalid arguments for ")
_N_SAID = max(map(len, _SAID))
_MOST = 200
"""The most characters of an error that are returned."""
_MOST_BYTES = 100_000
"""Longer arguments are not checked: it is done between two turns of the event loop."""
_REFERENCE = re.compile(r"\$(?:dynamicRef|recursiveRef|ref)\b")
_MOST_REFERENCES = 20
"""A schema of more is not tried: each may double what is checked, and thirty of them take hours."""


def explained(
    name: str, said: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], *, is_checked: bool = True
) -> str | None:
    """Return a tool's schema, to be added to its error, where the arguments are wrong; otherwise None.

    Args:
        said: its error, as text.
        is_checked: whether arguments that the schema refuses are wrong where the error does not say so; a tool that
            always says so may take more than its schema does.
    """
    is_said = said[:_N_SAID].lower().startswith(_SAID)
    wrong = wrong_arguments(schema, arguments) if is_checked and not is_said else None
    if not is_said and wrong is None:
        return None
    takes = f"{name} takes: {json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"
    return takes if wrong is None else f"{wrong}. {takes}"


def wrong_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """Return which argument a schema refuses; None where it refuses none, or can't be checked safely.

    Schemas of upstreams are a stranger's. What one refers to elsewhere is not fetched, and its patterns, which can take
    hours on the right text, are not tried, nor is one that refers to itself over and over.
    """
    from referencing import Registry  # it fetches nothing

    try:
        if len(repr(arguments)) > _MOST_BYTES or len(_REFERENCE.findall(repr(schema))) > _MOST_REFERENCES:
            return None
        error = next(_validator()(dict(schema), registry=Registry()).iter_errors(dict(arguments)), None)
    except Exception:  # an upstream's schema may be anything
        return None
    if error is None:
        return None
    where = ".".join(map(str, error.absolute_path))
    what = error.message if len(error.message) <= _MOST else error.message[: _MOST - 1] + "…"
    return f"wrong arguments: {where + ': ' if where else ''}{what}"


@cache
def _validator() -> Any:
    """Return the validator, without what takes a pattern of the schema's; `additionalProperties` reads patterns too."""
    from jsonschema import Draft202012Validator, validators

    untried = dict.fromkeys(("pattern", "patternProperties", "unevaluatedProperties"))
    own = Draft202012Validator.VALIDATORS["additionalProperties"]

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        return () if "patternProperties" in schema else own(validator, value, instance, schema)

    validator: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {**untried, "additionalProperties": additional}
    )
    return validator


MAX_TOKENS = 120
"""What the text takes at most, whatever tools and servers are called."""

_MAX_NAMES = 64
"""Of more no listing has room."""
_SERVERS_SHARE = 0.5
"""Of the room beside the first sentence, what servers may take where there are topics too."""
_N_SHARED = 2
"""What fewer tools have says nothing of the others."""
_MAX_LABEL_WORDS = 3
"""A label has no more words: what is longer could be a sentence."""
_MAX_LABEL = 32
_MAX_TAGS = 16
_MAX_READ = 128
_CUT = "…"
_JOINTS = re.compile(r"[-_.]+|(?<=[a-z])(?=[A-Z])")
_INVISIBLE = re.compile(r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks by their category, which nobody sees: a text could be hidden in them that models read."""


@dataclass(frozen=True, slots=True)
class DeferredTool:
    """The facts of a deferred tool that `deferred_text` names."""

    server: str
    """Its upstream's name at a gateway; empty for a server's own tool."""
    tags: tuple[str, ...] = ()


def deferred_text(tools: Iterable[DeferredTool], n_deferred: int, *, search: str = "tool_search") -> str:
    """Return a text for models about deferred tools, in at most 120 tokens: how many, on which servers, about what.

    It has nothing of what upstreams wrote but short labels.
    It is the same in every process and whatever the order of the tools. It is one line. Topics are the tags that tools
    share; servers and topics are named by their `label`, each with how many tools have it. Empty where nothing is
    deferred. A tag that is no short label is left out whole: its beginning could say something else than the whole did.

    `tools` are those that this caller may use: it holds nothing of any other. 10,000 of them take some 50 ms, so it is
    for a thread.
    """
    if not n_deferred:
        return ""
    label_of = cache(label)
    n_by_server, n_by_topic = Counter[str](), Counter[str]()
    for tool in tools:
        server, tags = label_of(tool.server), {label_of(tag) for tag in tool.tags[:_MAX_TAGS]}
        n_by_server[server] += 1
        n_by_topic.update(tag for tag in tags if _CUT not in tag and tag.casefold() != server.casefold())
    servers = [f"{server} {n}" for server, n in _largest_first(n_by_server)]
    topics = [f"{topic} {n}" for topic, n in _largest_first(n_by_topic) if n >= _N_SHARED]
    tools_are, them = ("tool is", "it") if n_deferred == 1 else ("tools are", "them")
    text = f"{n_deferred} more {tools_are} deferred; find {them} with {search}."
    n_left = MAX_TOKENS - n_tokens(text)
    text += _listing("Servers", servers, int(n_left * _SERVERS_SHARE) if topics else n_left, counts_rest=True)
    return text + _listing("Topics", topics, MAX_TOKENS - n_tokens(text), counts_rest=False)


def _largest_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(((name, n) for name, n in counts.items() if name), key=lambda each: (-each[1], each[0]))


def _listing(heading: str, names: Sequence[str], room: int, *, counts_rest: bool) -> str:
    """Return ` Heading: a, b.` with as many names as fit; empty where none does."""
    shown: list[str] = []
    text = ""
    for name in names[:_MAX_NAMES]:
        longer = f" {heading}: {', '.join([*shown, name])}"
        if counts_rest and (n_rest := len(names) - len(shown) - 1):
            longer += f" and {n_rest} {'other' if n_rest == 1 else 'others'}"
        if n_tokens(f"{longer}.") < room:
            shown.append(name)
            text = f"{longer}."
    return text


def label(name: str) -> str:
    """Return how a server or a tag is named in texts for models: its name where that is short, else its first words.

    It is one unbroken word of letters, digits, `-`, `_` and `.`, and ends with `…` where words were left out. Empty
    where a name has no letter or digit.

    >>> label("sequential-thinking"), label("Ignore all previous instructions!")
    ('sequential-thinking', 'Ignore-all-previous…')
    """
    read = name[:_MAX_READ]
    # A letter, a digit, or a mark on a letter such as Hindi writes vowels with.
    seen = [unicodedata.category(each)[0] in "LNM" and not _INVISIBLE.match(each) for each in read]
    letters = "".join(each if each in "-_." or is_seen else " " for each, is_seen in zip(read, seen, strict=True))
    text = "-".join(letters.split()).strip("-._")
    words = [word for word in _JOINTS.split(text) if word]
    shown = text if len(words) <= _MAX_LABEL_WORDS else "-".join(words[:_MAX_LABEL_WORDS])
    return text if shown == text and len(text) <= _MAX_LABEL else f"{shown[:_MAX_LABEL]}{_CUT}"


_MOST_WRAPPED = 4


def unwrapped(call: Call, names: EntryNames, options: Sequence[CallOption] = ()) -> Call:
    """Return the call of the tool that a call of `call_tool` names; any other call unchanged.

    The rest of the request stays: its `_meta`, with progress token and trace, and the fields of a call as a task.
    Arguments that features take are in `_meta` from then on.
    """
    for _ in range(_MOST_WRAPPED):
        if names.role(call.name) != "call":
            break
        try:
            name, arguments = call_arguments(call.arguments, [option.name for option in options])
        except InputError:
            break  # `call_tool` itself says what is wrong
        params = {**call.params, "name": name, "arguments": arguments}
        for option in options:
            if (value := call.arguments.get(option.name)) is not None:
                meta = params.get("_meta") or {}
                given = meta.get(option.key)
                own = {**(given if isinstance(given, Mapping) else {}), option.name: value}
                params["_meta"] = {**meta, option.key: own}
        call = replace(call, params=params, is_wrapped=True)
    return call
