"""The two tools by which a model reaches those that are not listed: `tool_search` and `call_tool`."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from agent_utilities.catalog.search_result import DEFAULT_RESULTS, MAX_RESULTS

SEARCH, CALL = "tool_search", "call_tool"
ALIASES = ("mcp_load", "ToolSearch", "search_tools")
"""What models trained with other hosts call `tool_search`: answered, and never listed."""


@dataclass(frozen=True, slots=True)
class EntryTools:
    """The entry tools under names that no other tool has.

    Args:
        search: the name that `tool_search` is listed under.
        call: the name that `call_tool` is listed under.
        aliases: further names that `search` answers to.
    """

    search: str
    call: str
    aliases: frozenset[str]

    @classmethod
    def beside(cls, taken: Container[str]) -> EntryTools:
        """Return entry tools that stand beside tools of some names: `tool_search_2` where `tool_search` is taken."""
        return cls(_free(SEARCH, taken), _free(CALL, taken), frozenset(name for name in ALIASES if name not in taken))

    def role(self, name: str) -> Literal["search", "call"] | None:
        """Return which entry tool a name means, or None."""
        if name == self.search or name in self.aliases:
            return "search"
        return "call" if name == self.call else None

    def definitions(self, told: str) -> list[dict[str, Any]]:
        """Return both as `tools/list` would send them.

        They are listed first, where a changed word costs a host its whole prompt cache: `told` must stay the same
        while the tools do.

        Args:
            told: how many tools are deferred, and about what.
        """
        return [
            {
                "name": self.search,
                "description": f"{told} Finds tools by what they do, and loads them: the best come with their "
                "schemas and are listed from then on.",
                "inputSchema": _schema(_SEARCH_PROPERTIES, "query"),
            },
            {
                "name": self.call,
                "description": f"Calls any tool by its name, listed or not; {self.search} tells its schema.",
                "inputSchema": _schema(_CALL_PROPERTIES, "name"),
            },
        ]


_SEARCH_PROPERTIES: dict[str, Any] = {
    "query": {
        "type": "string",
        "description": "What the tool should do, in a few words; or select:a,b to load tools by name.",
    },
    "max_results": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_RESULTS,
        "description": f"How many tools to load. Without it {DEFAULT_RESULTS} are named and the best of them loaded.",
    },
    "server": {"type": "string", "description": "Search this server's tools only."},
}
_CALL_PROPERTIES: dict[str, Any] = {
    "name": {"type": "string", "description": "The tool's name."},
    "arguments": {"type": "object", "description": "The tool's arguments."},
}


def _schema(properties: dict[str, Any], required: str) -> dict[str, Any]:
    copies = {name: dict(schema) for name, schema in properties.items()}
    return {"type": "object", "properties": copies, "required": [required], "additionalProperties": False}


def _free(name: str, taken: Container[str]) -> str:
    if name not in taken:
        return name
    return next(free for n in count(2) if (free := f"{name}_{n}") not in taken)
