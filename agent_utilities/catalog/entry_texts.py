"""What the entry tools say of themselves to models."""

from __future__ import annotations

from typing import Any

TOOL_SEARCH_DESCRIPTION = "Find tools that are not in your list and load them."
CALL_TOOL_DESCRIPTION = "Call a tool that tool_search found, by its name."
TOOL_SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do, or select:a,b to load tools by name."},
        "max_results": {"type": "integer", "minimum": 1, "maximum": 25, "description": "Load this many."},
        "server": {"type": "string", "description": "Search this server only."},
    },
    "required": ["query"],
}
CALL_TOOL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["name"],
}
