"""What models are told of the two tools that reach deferred ones: descriptions and input schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_RESULTS = 25
"""How many tools a search may be asked for."""

BY_CALL_TOOL = ", or through call_tool if your tool list doesn't show it"
"""Left out where a caller is denied `call_tool`."""

TOOL_SEARCH_DESCRIPTION = (
    "Find deferred tools: they are not in your tool list, yet can be called. Search before you say that something"
    " can't be done. Give words for what you want to do, or `select:NAME,NAME` to load tools by name. What is found"
    f" comes with input schemas: call it directly by its name{BY_CALL_TOOL}."
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
