"""The two tools by which deferred ones are reached: their names, texts, and the arguments that models give."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from agent_utilities.errors import InputError

TOOL_SEARCH, CALL_TOOL = "tool_search", "call_tool"
ALIASES = ("mcp_load", "ToolSearch", "search_tools")
"""Names by which other hosts know `tool_search`: calls of them are answered, and they are never listed."""
EVERY_NAME = (TOOL_SEARCH, CALL_TOOL, *ALIASES)
"""What a deny may name without a tool of that name."""
MAX_RESULTS = 25
"""The most tools that one search gives or names."""
DEFAULT_RESULTS = 10
"""How many of them where nobody says."""
_OTHERWISE = "mcp_"
"""What the name begins with where another tool has it."""


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The names of the entry tools, none of which another tool has.

    Args:
        search: that of `tool_search`.
        call: that of `call_tool`; None where a bound denies it.
        aliases: further names that calls of `tool_search` may have.
    """

    search: str = TOOL_SEARCH
    call: str | None = CALL_TOOL
    aliases: frozenset[str] = frozenset(ALIASES)

    def role(self, name: str) -> Literal["search", "call"] | None:
        """Return which entry tool a name means, or None."""
        if name == self.search or name in self.aliases:
            return "search"
        return "call" if name == self.call else None


def entry_names(taken: Collection[str], *, can_call: bool = True, denied: Collection[str] = ()) -> EntryNames:
    """Return the names of the entry tools: `mcp_tool_search` where `tool_search` is another tool's."""
    call = _free(CALL_TOOL, taken) if can_call else None
    aliases = frozenset(name for name in ALIASES if name not in taken and name not in denied)
    return EntryNames(_free(TOOL_SEARCH, taken), call, aliases)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = _OTHERWISE + name
    return name


_BY_CALL_TOOL = ", or through call_tool if your tool list doesn't show it"
"""Left out where a caller is denied `call_tool`."""

TOOL_SEARCH_DESCRIPTION = (
    "Find deferred tools: they are not in your tool list, yet can be called. Search before you say that something"
    " can't be done. Give words for what you want to do, or `select:NAME,NAME` to load tools by name. What is found"
    f" comes with input schemas: call it directly by its name{_BY_CALL_TOOL}."
)
"""What every caller is told; its own `deferred_text` follows, after a space."""

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
"""What would do where `call_tool` was called otherwise."""


def unknown_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a schema does not know, in alphabetical order."""
    return sorted(arguments.keys() - schema["properties"].keys())


def search_definition(names: EntryNames, told: str) -> dict[str, Any]:
    """Return `tool_search` as `tools/list` sends it.

    It is listed first, where a changed word costs a host its whole prompt cache: `told` must stay the same while the
    tools do.
    """
    text = TOOL_SEARCH_DESCRIPTION if names.call is not None else TOOL_SEARCH_DESCRIPTION.replace(_BY_CALL_TOOL, "")
    return {
        "name": names.search,
        "description": f"{_named(text, names)} {told}".rstrip(),
        "inputSchema": deepcopy(dict(TOOL_SEARCH_SCHEMA)),
    }


def call_definition(names: EntryNames) -> dict[str, Any]:
    """Return `call_tool` as `tools/list` sends it."""
    return {
        "name": names.call or CALL_TOOL,
        "description": _named(CALL_TOOL_DESCRIPTION, names),
        "inputSchema": deepcopy(dict(CALL_TOOL_SCHEMA)),
    }


def _named(text: str, names: EntryNames) -> str:
    return text.replace(TOOL_SEARCH, names.search).replace(CALL_TOOL, names.call or CALL_TOOL)


_NAME_LISTS = ("names", "tools", "tool_names")
"""How other hosts' load tools take names."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What `tool_search` is called with."""

    query: str
    max_results: int | None = None
    server: str | None = None


def search_arguments(arguments: Mapping[str, Any]) -> SearchArguments:
    """Return the arguments of a search; a number may come as text, and names as a list.

    Raises:
        InputError: one is missing, unknown, of the wrong type or out of bounds.
    """
    given = {key: value for key, value in arguments.items() if value is not None}
    for key in _NAME_LISTS:
        names = given.pop(key, None)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            given.setdefault("query", f"select:{','.join(names)}")
        elif names is not None:
            raise InputError("not a list of names", names, f"tool_search: {key}", "give query instead")
    if unknown := unknown_arguments(given, TOOL_SEARCH_SCHEMA):
        raise InputError("no such argument", unknown[0], "tool_search", "it takes query, max_results and server")
    query, server = given.get("query"), given.get("server")
    if not isinstance(query, str):
        raise InputError("no words to search for", query, "tool_search: query", "give words, or select:a,b")
    if server is not None and not isinstance(server, str):
        raise InputError("not a server's name", server, "tool_search: server", "give one, or leave it out")
    for key, text in (("query", query), ("server", server or "")):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError("not Unicode text", text, f"tool_search: {key}", "leave lone surrogates out")
    max_results = n_results(given["max_results"]) if "max_results" in given else None
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


def call_arguments(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool that `call_tool` is called for, and with what; that may come as JSON text, or not at all.

    Raises:
        InputError: there is no name, the tool's arguments are no object, or something else is given beside the two: a
            tool that is called without what it was to be called with may do something else.
    """
    if unknown := unknown_arguments(arguments, CALL_TOOL_SCHEMA):
        raise InputError("no such argument", unknown[0], CALL_TOOL, AS_MEANT)
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("no tool's name", name, "call_tool: name", "give it, and the tool's arguments as an object")
    given = arguments.get("arguments")
    read = given
    if isinstance(read, str):
        try:
            read = json.loads(read.strip() or "{}")
        except (ValueError, RecursionError):
            read = given
    if read is None:
        return name, {}
    if not isinstance(read, Mapping):
        raise InputError("not an object", given, "call_tool: arguments", "give each of the tool's by its name")
    return name, dict(read)
