"""What an evaluation reads: tools, requests with the tools that answer them, and past requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_utilities.catalog.document import ToolDocument, document
from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.errors import InputError


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool to be found.

    Args:
        id: what requests call it.
        document: what a ranker knows of it.
        n_tokens: what it costs in a prompt.
    """

    id: str
    document: ToolDocument
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request and what answers it.

    Args:
        id: its own.
        query: in the user's words.
        groups: the tools needed, each satisfied by any member; empty where no tool is.
    """

    id: str
    query: str
    groups: tuple[frozenset[str], ...]


def read_tools(path: Path) -> list[Tool]:
    """Return the tools of a JSON lines file.

    Raises:
        InputError: it can't be read.
    """
    found = []
    for where, row in _rows(path, ("id", "name")):
        definition = {**row, "inputSchema": row.get("inputSchema", row.get("input_schema"))}
        tags = row.get("tags") or ()
        if not isinstance(tags, (list, tuple)) or not all(isinstance(tag, str) for tag in tags):
            raise InputError("tags are not a list of text", tags, where, 'write "tags": ["a", "b"]')
        found.append(_tool(row["id"], definition, str(row.get("server") or ""), tags))
    return found


def tools_of(definitions: Iterable[dict[str, Any]]) -> list[Tool]:
    """Return tools as a server lists them; their names are their ids."""
    return [_tool(each["name"], each, "", ()) for each in definitions]


def _tool(name: str, definition: dict[str, Any], server: str, tags: Iterable[str]) -> Tool:
    return Tool(name, document(definition, server=server, tags=tags), n_tokens(definition))


def read_requests(path: Path, tools: Sequence[Tool] | None = None) -> list[Request]:
    """Return the requests of a JSON lines file.

    Args:
        path: the file.
        tools: the tools that may be relevant; None takes any.

    Raises:
        InputError: it can't be read, or names a tool that is not there.
    """
    known = None if tools is None else {tool.id for tool in tools}
    found = []
    for where, row in _rows(path, ("id", "query")):
        groups = row.get("groups") or [[name] for name in row.get("relevant") or ()]
        try:
            wanted = tuple(frozenset(group) for group in groups)
            unknown = sorted(set().union(*wanted) - known) if known is not None and wanted else []
        except TypeError:
            raise InputError("groups are not lists of tool ids", groups, where, "see --help") from None
        if unknown:
            raise InputError("no tool has this id", unknown[0], where, "give the tools that the requests are for")
        found.append(Request(row["id"], row["query"], wanted))
    return found


def remember(tools: Sequence[Tool], usage: Iterable[Request]) -> list[Tool]:
    """Return tools whose documents have the past requests that they answered."""
    answered: dict[str, list[str]] = {}
    for request in usage:
        for name in sorted(set().union(*request.groups)):
            answered.setdefault(name, []).append(request.query)
    return [Tool(tool.id, tool.document.with_triggers(answered.get(tool.id, ())), tool.n_tokens) for tool in tools]


def _rows(path: Path, required: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("the file can't be read", str(path), "command line", str(error)) from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path.name} line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError("not JSON", line, where, str(error)) from None
        if not isinstance(row, dict):
            raise InputError("not a JSON object", line, where, f"give {', '.join(required)}")
        for key in required:
            if not isinstance(row.get(key), str) or not row[key]:
                raise InputError(f"{key} is not text", row.get(key), where, f"give {', '.join(required)}")
        yield where, row
