"""The arguments that a model calls entry tools with, and whether those of a tool fit its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_utilities.errors import AgentUtilitiesError, InputError

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}
_TELLING_OF_ARGUMENTS = ("validation error", "wrong arguments for", "invalid arguments")


class ToolArgumentsError(AgentUtilitiesError, ValueError):
    """A tool was called through `call_tool` with arguments that do not fit; tells what it takes.

    Args:
        name: the tool's.
        error: what it said.
        schema: what it takes.
    """

    def __init__(self, name: str, error: Exception, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        told = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        super().__init__(f"{error}\n{name} takes: {told}")


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What `tool_search` is called with."""

    query: str
    max_results: int | None = None
    server: str | None = None


def search_arguments(given: Mapping[str, Any]) -> SearchArguments:
    """Return what a model calls `tool_search` with; a number may come as text, as some models send it.

    Raises:
        InputError: there is no query, or something is of another type.
    """
    query = _text(given, "tool_search", "query")
    if query is None:
        raise InputError("no query", dict(given), "tool_search", "say in a few words what the tool should do")
    max_results = given.get("max_results")
    if isinstance(max_results, str) and max_results.strip().isdecimal():
        max_results = int(max_results)
    if max_results is not None and (isinstance(max_results, bool) or not isinstance(max_results, int)):
        raise InputError("not a whole number", max_results, "tool_search: max_results", "use one from 1 to 25")
    return SearchArguments(query, max_results, _text(given, "tool_search", "server") or None)


def call_arguments(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments that a model calls `call_tool` with; they may come as JSON text.

    Raises:
        InputError: there is no name, or the arguments are no object.
    """
    name = _text(given, "call_tool", "name")
    if not name:
        raise InputError("no tool's name", dict(given), "call_tool", "give name, and arguments as an object")
    arguments = given.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else None
        except ValueError:
            arguments = [arguments]
    if arguments is None:
        return name, {}
    if not isinstance(arguments, Mapping):
        raise InputError("not an object", given["arguments"], "call_tool: arguments", "give name and value of each")
    return name, dict(arguments)


def tells_of_arguments(error: Exception, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether a call failed for its arguments: they do not fit the schema, or the error says so."""
    said = str(error).lower()
    return any(words in said for words in _TELLING_OF_ARGUMENTS) or not fits(arguments, schema)


def fits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether arguments have the names and types that a schema asks for, as far as its first level says."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    if any(name not in arguments for name in (required if isinstance(required, list) else ())):
        return False
    if schema.get("additionalProperties") is False and any(name not in properties for name in arguments):
        return False
    return all(_is_of(value, properties.get(name)) for name, value in arguments.items())


def _is_of(value: Any, schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return False
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    known = [_TYPES[name] for name in names if name in _TYPES]
    if not known:
        return True
    if isinstance(value, bool) and "boolean" not in names:
        return False
    return any(isinstance(value, of) for of in known)


def _text(given: Mapping[str, Any], tool: str, name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InputError("not text", value, f"{tool}: {name}", "give a string")
    return value
