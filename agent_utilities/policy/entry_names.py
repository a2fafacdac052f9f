"""The names of the entry tools, chosen so that no other tool has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from agent_utilities.catalog.model import entry

TOOL_SEARCH, CALL_TOOL, READ_RESULT, RUN_PROGRAM = "tool_search", "call_tool", "read_result", "run_program"
ALIASES = ("mcp_load", "ToolSearch", "search_tools")
"""Names by which other hosts know `tool_search`: calls of them are answered, and they are never listed."""
EVERY_NAME = (TOOL_SEARCH, CALL_TOOL, READ_RESULT, RUN_PROGRAM, *ALIASES)
"""What a deny may name without a tool of that name."""
_OTHERWISE = "mcp_"
"""What the name begins with where another tool has it."""


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The names of the entry tools, and further ones of `tool_search`; `call` is None where a bound denies it."""

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
    call = free_name(CALL_TOOL, taken) if can_call else None
    aliases = frozenset(name for name in ALIASES if name not in taken and name not in denied)
    return EntryNames(free_name(TOOL_SEARCH, taken), call, aliases)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name of an entry tool that no other tool has."""
    while name in taken:
        name = _OTHERWISE + name
    return name


SEARCH_ENTRY = entry("tool", TOOL_SEARCH, read_only=True)
"""The entry tool without which nothing is deferred, as bounds judge it."""
CALL_ENTRY = entry("tool", CALL_TOOL)
"""The other one."""
