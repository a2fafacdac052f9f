"""The entry tools: `tool_search` and `call_tool`, listed while anything is deferred, written for each caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool
from mcp_types import ToolAnnotations

from agent_utilities.catalog.entry_tools import EntryNames, call_definition, search_definition
from agent_utilities.errors import shortened
from agent_utilities.mcp.own_tool import ALWAYS_LOADED, Answer, OwnTool


def search_tool(names: EntryNames, told: str, answer: Answer) -> Tool:
    """Return `tool_search` as one caller is listed it.

    Args:
        names: what they know it and `call_tool` by.
        told: what is deferred for them.
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

    async def refuse(arguments: Mapping[str, Any]) -> NoReturn:
        given = arguments.get("name")
        if given is None:
            what = "'name' is missing"
        elif not isinstance(given, str) or given in ("", name):
            what = f"'name' is {shortened(repr(given))}"
        else:
            what = f"'arguments' is {shortened(repr(arguments.get('arguments')))}"
        raise ToolError(f"wrong arguments for {name}: {what}; give the name of a tool, and its arguments as an object")

    return _entry_tool(definition, refuse)


def _entry_tool(definition: Mapping[str, Any], answer: Answer, annotations: ToolAnnotations | None = None) -> OwnTool:
    return OwnTool(
        name=definition["name"],
        description=definition["description"],
        parameters=definition["inputSchema"],
        annotations=annotations,
        meta=dict(ALWAYS_LOADED),
        answer=answer,
        purpose=f"by which deferred tools are {'called' if annotations is None else 'found'}",
    )
