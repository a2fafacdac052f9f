"""The entry tools: `tool_search` and `call_tool`, listed while anything is deferred, written for each caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import Field

from agent_utilities.catalog.entry_texts import (
    BY_CALL_TOOL,
    CALL_TOOL_DESCRIPTION,
    CALL_TOOL_SCHEMA,
    TOOL_SEARCH_DESCRIPTION,
    TOOL_SEARCH_SCHEMA,
)
from agent_utilities.errors import shortened

TOOL_SEARCH, CALL_TOOL = "tool_search", "call_tool"
ALIASES = frozenset({"mcp_load", "ToolSearch", "search_tools"})
"""Names by which other hosts know `tool_search`: calls of them are answered, and they are never listed."""
_OTHERWISE = "mcp_"
"""What the name begins with where the caller has a tool of that name himself."""
_ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""`_meta` by which Claude Code keeps a tool out of its own tool search: it would hide the way to the others."""

Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class EntryTool(Tool):
    """A tool that is the server's own way to the others."""

    is_entry_tool: ClassVar[bool] = True
    answer: Answer = Field(exclude=True)
    """What it does with its arguments."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call."""
        return await self.answer(arguments)


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The names of the entry tools for one caller: those that he has tools of his own by are left to these.

    Args:
        search: that of `tool_search`.
        call: that of `call_tool`; None where a bound denies it.
        aliases: further names that calls of `tool_search` may have.
    """

    search: str
    call: str | None
    aliases: frozenset[str]

    def is_search(self, name: str) -> bool:
        """Whether a call's name is that of `tool_search`."""
        return name == self.search or name in self.aliases


def entry_names(permitted: frozenset[str], *, can_call: bool, denied: Collection[str] = ()) -> EntryNames:
    """Return the names of the entry tools for a caller.

    Args:
        permitted: the names of the tools that he may use.
        can_call: whether no bound denies him `call_tool`.
        denied: aliases that a bound denies him.
    """
    call = _free(CALL_TOOL, permitted) if can_call else None
    return EntryNames(_free(TOOL_SEARCH, permitted), call, ALIASES.difference(permitted, denied))


def _free(name: str, taken: frozenset[str]) -> str:
    while name in taken:
        name = _OTHERWISE + name
    return name


def search_tool(names: EntryNames, told: str, answer: Answer) -> Tool:
    """Return `tool_search` as one caller is listed it.

    Args:
        names: what he knows it and `call_tool` by.
        told: what is deferred for him.
        answer: what it does.
    """
    by_call = TOOL_SEARCH_DESCRIPTION if names.call is not None else TOOL_SEARCH_DESCRIPTION.replace(BY_CALL_TOOL, "")
    description = by_call.replace(CALL_TOOL, names.call or CALL_TOOL)
    return EntryTool(
        name=names.search,
        description=f"{description} {told}".rstrip(),
        parameters=dict(TOOL_SEARCH_SCHEMA),
        annotations=ToolAnnotations(read_only_hint=True),
        meta=dict(_ALWAYS_LOADED),
        answer=answer,
    )


def call_tool(name: str, search: str = TOOL_SEARCH) -> Tool:
    """Return `call_tool` as it is listed; a call of it that names a tool is that tool's before it gets here."""

    async def refuse(arguments: Mapping[str, Any]) -> ToolResult:
        given = arguments.get("name")
        if given is None:
            what = "'name' is missing"
        elif not isinstance(given, str) or given in ("", name):
            what = f"'name' is {shortened(repr(given))}"
        else:
            what = f"'arguments' is {shortened(repr(arguments.get('arguments')))}"
        raise ToolError(f"wrong arguments for {name}: {what}; give the name of a tool, and its arguments as an object")

    description = CALL_TOOL_DESCRIPTION.replace(TOOL_SEARCH, search)
    return EntryTool(
        name=name,
        description=description,
        parameters=dict(CALL_TOOL_SCHEMA),
        meta=dict(_ALWAYS_LOADED),
        answer=refuse,
    )
