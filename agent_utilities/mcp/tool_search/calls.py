"""Calls of tools by way of tool search: `call_tool` becomes the call of the tool it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mcp_types
from fastmcp.tools.base import Tool
from fastmcp.tools.function_tool import FunctionTool

from agent_utilities.catalog.entry_names import EntryNames
from agent_utilities.mcp.tool_search.wrong_arguments import wrong_arguments

_MOST_WRAPPED = 4


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    Args:
        params: of the request, as the named tool is to be called with.
        is_wrapped: whether it came by `call_tool`.
    """

    params: Mapping[str, Any]
    is_wrapped: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return str(self.params.get("name"))


def unwrapped(params: Mapping[str, Any], names: EntryNames) -> Call:
    """Return the call of the tool that a call of `call_tool` names; any other as it is.

    All else of the request stays: its `_meta`, with progress token and trace, and what a call as a task brings.
    """
    call = Call(params)
    for _ in range(_MOST_WRAPPED):
        if names.role(call.name) != "call":
            break
        given = call.params.get("arguments")
        name = given.get("name") if isinstance(given, Mapping) else None
        arguments = _object(given.get("arguments")) if isinstance(given, Mapping) else None
        if not isinstance(name, str) or not name or arguments is None:
            break
        call = replace(call, params={**call.params, "name": name, "arguments": arguments}, is_wrapped=True)
    return call


def _object(arguments: Any) -> Mapping[str, Any] | None:
    """Return arguments as an object; models write them as JSON text at times, or leave them out."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return None
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, Mapping) else None


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
    is_said = said.startswith("wrong arguments for ")
    wrong = "" if is_said or isinstance(tool, FunctionTool) else wrong_arguments(tool.parameters, arguments)
    if not (is_said or wrong):
        return result
    schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
    text = f"{tool.name} takes: {schema}" if is_said else f"{wrong}. {tool.name} takes: {schema}"
    added = mcp_types.TextContent(type="text", text=text).model_dump(by_alias=True, exclude_none=True)
    return {**result, "content": [*content, added]}
