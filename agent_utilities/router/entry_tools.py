"""The two tools by which a model reaches those that are not listed: `tool_search` and `call_tool`."""

from __future__ import annotations

from collections.abc import Container
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from agent_utilities.catalog.entry_texts import (
    CALL_TOOL_DESCRIPTION,
    CALL_TOOL_SCHEMA,
    TOOL_SEARCH_DESCRIPTION,
    TOOL_SEARCH_SCHEMA,
)

SEARCH, CALL = "tool_search", "call_tool"
ALIASES = ("mcp_load", "ToolSearch", "search_tools")
"""What other hosts call `tool_search`: answered, and never listed."""
_OTHERWISE = "mcp_"
"""What the name begins with where another tool has it."""


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
        """Return entry tools that stand beside tools of some names: `mcp_tool_search` where `tool_search` is taken."""
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
            told: how many tools may be deferred, and about what.
        """
        return [
            {
                "name": self.search,
                "description": f"{self._named(TOOL_SEARCH_DESCRIPTION)} {told}".rstrip(),
                "inputSchema": deepcopy(dict(TOOL_SEARCH_SCHEMA)),
            },
            {
                "name": self.call,
                "description": self._named(CALL_TOOL_DESCRIPTION),
                "inputSchema": deepcopy(dict(CALL_TOOL_SCHEMA)),
            },
        ]

    def _named(self, text: str) -> str:
        return text.replace(SEARCH, self.search).replace(CALL, self.call)


def _free(name: str, taken: Container[str]) -> str:
    while name in taken:
        name = _OTHERWISE + name
    return name
