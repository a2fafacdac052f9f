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
    """A tool to be found: what requests call it, what a ranker knows of it, and what it costs in a prompt."""

    id: str
    document: ToolDocument
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request and what answers it.

    Args:
        groups: the tools needed, each satisfied by any member; empty where no tool is.
    """

    id: str
    query: str
    groups: tuple[frozenset[str], ...]


def read_tools(path: Path) -> list[Tool]:
    """Return the tools of a JSON lines file, or those that a server's `--list --json` says may be called."""
    if (listing := _listing(path)) is not None:
        callable_rows = [
            row
            for row in listing["components"]
            if row["kind"] == "tool" and row["verdict"] != "denied" and not row.get("entry_tool")
        ]
        return [_tool(row["name"], row, listing["server"], row["tags"]) for row in callable_rows]
    tools = []
    for where, row in rows(path, ("id", "name")):
        definition = {**row, "inputSchema": row.get("inputSchema", row.get("input_schema"))}
        tags = row.get("tags") or ()
        if not isinstance(tags, (list, tuple)) or not all(isinstance(tag, str) for tag in tags):
            raise InputError("tags are not a list of text", tags, where, 'write "tags": ["a", "b"]')
        tools.append(_tool(row["id"], definition, str(row.get("server") or ""), tags))
    return tools


def _listing(path: Path) -> dict[str, Any] | None:
    """Return what `--list --json` printed; None where the file has something else."""
    try:
        body = json.loads(_text(path))
    except ValueError:
        return None
    return body if isinstance(body, dict) and "components" in body else None


def listed_tools(definitions: Iterable[dict[str, Any]], server: str = "") -> list[Tool]:
    """Return the tools that a server lists; their names are their ids."""
    return [_tool(definition["name"], definition, server, ()) for definition in definitions]


def _tool(tool_id: str, definition: dict[str, Any], server: str, tags: Iterable[str]) -> Tool:
    return Tool(tool_id, document(definition, server=server, tags=tags), n_tokens(definition))


def read_requests(path: Path, tools: Sequence[Tool] | None = None) -> list[Request]:
    """Return the requests of a JSON lines file; each needs one of `tools`, and where these are None any, or none."""
    known = None if tools is None else {tool.id for tool in tools}
    requests = []
    for where, row in rows(path, ("id", "query")):
        groups = row.get("groups") or [[tool_id] for tool_id in row.get("relevant") or ()]
        try:
            needed = tuple(frozenset(group) for group in groups)
            unknown = sorted(set().union(*needed) - known) if known is not None and needed else []
        except TypeError:
            raise InputError("groups are not lists of tool ids", groups, where, "see --help") from None
        if known is not None and not (needed and all(needed)):
            raise InputError(
                "no tool is relevant", row["id"], where, "give requests that no tool answers as --negatives"
            )
        if unknown:
            raise InputError("no tool has this id", unknown[0], where, "give the tools that the requests are for")
        requests.append(Request(row["id"], row["query"], needed))
    return requests


def past_requests(usage: Iterable[Request]) -> dict[str, tuple[str, ...]]:
    """Return the past requests that each tool answered, by its id."""
    answered: dict[str, list[str]] = {}
    for request in usage:
        for tool_id in sorted(set().union(*request.groups)):
            answered.setdefault(tool_id, []).append(request.query)
    return {tool_id: tuple(queries) for tool_id, queries in answered.items()}


def rows(path: Path, required: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each object of a JSON lines file, with where it stands; each has text under the keys required."""
    for number, line in enumerate(_text(path).split("\n"), 1):
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


def write_rows(path: Path, rows: Iterable[dict[str, Any]], option: str) -> None:
    """Write a JSON line for each row."""
    try:
        path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise InputError("the file can't be written", str(path), f"option {option}", str(error)) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("the file can't be read", str(path), "command line", str(error)) from None
