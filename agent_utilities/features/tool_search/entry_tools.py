"""The entry tools, `tool_search` and `call_tool`, listed while anything is deferred, and calls by way of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import mcp_types
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool
from fastmcp.tools.function_tool import FunctionTool
from mcp_types import ToolAnnotations

from agent_utilities.catalog.argument_fit import explained
from agent_utilities.catalog.entry_tools import AS_MEANT, EntryNames, call_arguments, call_definition, search_definition
from agent_utilities.errors import InputError, shortened
from agent_utilities.mcp.feature import ALWAYS_LOADED, Answer, OwnTool
from agent_utilities.mcp.request import Call


def search_tool(names: EntryNames, told: str, answer: Answer) -> Tool:
    """Return `tool_search` as one caller is listed it."""
    return _entry_tool(search_definition(names, told), answer, ToolAnnotations(read_only_hint=True))


def call_tool(names: EntryNames) -> Tool:
    """Return `call_tool` as it is listed; a call of it that names a tool is that tool's before it gets here."""
    definition = call_definition(names)
    name = definition["name"]

    async def refuse(arguments: Mapping[str, Any]) -> NoReturn:
        try:
            what = f"'name' is {shortened(repr(call_arguments(arguments)[0]))}"  # its own, once too often
        except InputError as error:
            key = error.source.partition(": ")[2]
            what = f"{key!r} is {error.value!r}" if key else f"there is no {error.value!r}"
        raise ToolError(f"wrong arguments for {name}: {what}; {AS_MEANT}")

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


_MOST_WRAPPED = 4


def unwrapped(call: Call, names: EntryNames) -> Call:
    """Return the call of the tool that a call of `call_tool` names; any other as it is.

    All else of the request stays: its `_meta`, with progress token and trace, and what a call as a task brings.
    """
    for _ in range(_MOST_WRAPPED):
        if names.role(call.name) != "call":
            break
        given = call.params.get("arguments")
        try:
            name, arguments = call_arguments(given if isinstance(given, Mapping) else {})
        except InputError:
            break  # `call_tool` itself says what is wrong
        call = replace(call, params={**call.params, "name": name, "arguments": arguments}, is_wrapped=True)
    return call


def with_schema(result: dict[str, Any], tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a failed call's result with the tool's schema, where the arguments are what is wrong.

    A function says itself what is wrong with its arguments, and takes more than its schema does, such as `"5"` for a
    number; of other tools the schema is all there is to go by.
    """
    content = result.get("content") or []
    said = " ".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
    is_checked = not isinstance(tool, FunctionTool)
    if (text := explained(tool.name, said, arguments, tool.parameters, is_checked=is_checked)) is None:
        return result
    added = mcp_types.TextContent(type="text", text=text).model_dump(by_alias=True, exclude_none=True)
    return {**result, "content": [*content, added]}
