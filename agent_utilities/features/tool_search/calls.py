"""Calls of tools by way of tool search: `call_tool` becomes the call of the tool it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import mcp_types
from fastmcp.tools.base import Tool
from fastmcp.tools.function_tool import FunctionTool

from agent_utilities.catalog.argument_fit import explained
from agent_utilities.catalog.entry_tools import EntryNames, call_arguments
from agent_utilities.errors import InputError
from agent_utilities.mcp.request import Call

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

    Args:
        result: as it goes to the caller.
        tool: the tool that was called.
        arguments: what it was called with.
    """
    content = result.get("content") or []
    said = " ".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
    is_checked = not isinstance(tool, FunctionTool)
    if (text := explained(tool.name, said, arguments, tool.parameters, is_checked=is_checked)) is None:
        return result
    added = mcp_types.TextContent(type="text", text=text).model_dump(by_alias=True, exclude_none=True)
    return {**result, "content": [*content, added]}
