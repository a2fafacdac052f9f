"""What models are told of the two tools that reach deferred ones: descriptions and input schemas."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from agent_utilities.catalog.entry_names import CALL_TOOL, TOOL_SEARCH, EntryNames
from agent_utilities.catalog.search_result import MAX_RESULTS

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
        "query": {
            "type": "string",
            "description": "Such as `merge a pull request`, or `select:git_log,git_diff`",
        },
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_RESULTS,
            "description": "Load this many; by default the best few, and more are named",
        },
        "server": {"type": "string", "description": "Search only this server's tools"},
    },
    "required": ["query"],
}

CALL_TOOL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name"},
        "arguments": {"type": "object", "description": "What the tool's input schema asks for"},
    },
    "required": ["name"],
}


def search_definition(names: EntryNames, told: str) -> dict[str, Any]:
    """Return `tool_search` as `tools/list` sends it.

    It is listed first, where a changed word costs a host its whole prompt cache: `told` must stay the same while the
    tools do.

    Args:
        names: what it and `call_tool` are known by.
        told: how many tools may be deferred, and about what.
    """
    text = TOOL_SEARCH_DESCRIPTION if names.call is not None else TOOL_SEARCH_DESCRIPTION.replace(_BY_CALL_TOOL, "")
    return {
        "name": names.search,
        "description": f"{_named(text, names)} {told}".rstrip(),
        "inputSchema": deepcopy(dict(TOOL_SEARCH_SCHEMA)),
    }


def call_definition(names: EntryNames) -> dict[str, Any]:
    """Return `call_tool` as `tools/list` sends it.

    Args:
        names: what it and `tool_search` are known by.
    """
    return {
        "name": names.call or CALL_TOOL,
        "description": _named(CALL_TOOL_DESCRIPTION, names),
        "inputSchema": deepcopy(dict(CALL_TOOL_SCHEMA)),
    }


def _named(text: str, names: EntryNames) -> str:
    return text.replace(TOOL_SEARCH, names.search).replace(CALL_TOOL, names.call or CALL_TOOL)
