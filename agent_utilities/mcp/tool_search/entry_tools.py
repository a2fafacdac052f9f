"""The entry tools: `tool_search` and `call_tool`, listed while anything is deferred, written for each caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import Field

from agent_utilities.catalog.entry_names import EntryNames
from agent_utilities.catalog.entry_texts import call_definition, search_definition
from agent_utilities.errors import shortened

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


def search_tool(names: EntryNames, told: str, answer: Answer) -> Tool:
    """Return `tool_search` as one caller is listed it.

    Args:
        names: what he knows it and `call_tool` by.
        told: what is deferred for him.
        answer: what it does.
    """
    annotations = ToolAnnotations(read_only_hint=True)
    return _entry_tool(search_definition(names, told), answer, annotations)


def call_tool(names: EntryNames) -> Tool:
    """Return `call_tool` as it is listed; a call of it that names a tool is that tool's before it gets here.

    Args:
        names: what the caller knows it and `tool_search` by.
    """
    definition = call_definition(names)
    name = definition["name"]

    async def refuse(arguments: Mapping[str, Any]) -> ToolResult:
        given = arguments.get("name")
        if given is None:
            what = "'name' is missing"
        elif not isinstance(given, str) or given in ("", name):
            what = f"'name' is {shortened(repr(given))}"
        else:
            what = f"'arguments' is {shortened(repr(arguments.get('arguments')))}"
        raise ToolError(f"wrong arguments for {name}: {what}; give the name of a tool, and its arguments as an object")

    return _entry_tool(definition, refuse)


def _entry_tool(definition: Mapping[str, Any], answer: Answer, annotations: ToolAnnotations | None = None) -> Tool:
    return EntryTool(
        name=definition["name"],
        description=definition["description"],
        parameters=definition["inputSchema"],
        annotations=annotations,
        meta=dict(_ALWAYS_LOADED),
        answer=answer,
    )
