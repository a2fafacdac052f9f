"""The arguments that a model calls `tool_search` and `call_tool` with, read as models write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_utilities.catalog.search_result import MAX_RESULTS, n_results, nearest_names
from agent_utilities.errors import InputError

_KEYS = frozenset({"query", "max_results", "server"})
_NAME_LISTS = ("names", "tools", "tool_names")
"""How other hosts' load tools take names."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What `tool_search` is called with.

    Args:
        query: words, or `select:` and names.
        max_results: the most tools to give; None where the caller leaves it open.
        server: the server or toolset to search; None for all.
    """

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
    if unknown := sorted(given.keys() - _KEYS):
        raise InputError("no such argument", unknown[0], "tool_search", "it takes query, max_results and server")
    query, server = given.get("query"), given.get("server")
    if not isinstance(query, str):
        raise InputError("no words to search for", query, "tool_search: query", "give words, or select:a,b")
    if server is not None and not isinstance(server, str):
        raise InputError("not a server's name", server, "tool_search: server", "give one, or leave it out")
    for key, text in (("query", query), ("server", server or "")):
        _check_unicode(key, text)
    return SearchArguments(query, _read_max_results(given.get("max_results")), server or None)


def _read_max_results(most: object) -> int | None:
    if isinstance(most, str) and most.isascii() and most.isdecimal():
        most = int(most[:4])
    if most is not None and (not isinstance(most, int) or isinstance(most, bool)):
        raise InputError("not a whole number", most, "tool_search: max_results", f"use one from 1 to {MAX_RESULTS}")
    n_results(most)
    return most


def _check_unicode(key: str, text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError("not Unicode text", text, f"tool_search: {key}", "leave lone surrogates out")


def no_such_server(server: str, servers: Iterable[str]) -> InputError:
    """Return the error for a server that is not there.

    Args:
        server: what was asked for.
        servers: the servers and tags of the tools that the caller may use, and of no others.
    """
    near = " or ".join(nearest_names(server, servers))
    hint = f"did you mean {near}?" if near else "leave it out to search all"
    return InputError("no such server", server, "tool_search: server", hint)


def call_arguments(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool that `call_tool` is called for, and with what; that may come as JSON text, or not at all.

    Raises:
        InputError: there is no name, or the tool's arguments are no object.
    """
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("no tool's name", name, "call_tool: name", "give it, and the tool's arguments as an object")
    given = arguments.get("arguments")
    read = given
    if isinstance(read, str):
        try:
            read = json.loads(read or "{}")
        except (ValueError, RecursionError):
            read = given
    if read is None:
        return name, {}
    if not isinstance(read, Mapping):
        raise InputError("not an object", given, "call_tool: arguments", "give each of the tool's by its name")
    return name, dict(read)
