"""Tool annotations, titles and search words from the operations of an OpenAPI description."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastmcp.tools.base import Tool
from mcp_types import ToolAnnotations

from agent_utilities.catalog.document import SEARCH_HINT, split_identifier

_Server = TypeVar("_Server")
_READS = {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True}
_HINTS: Mapping[str, Mapping[str, bool]] = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS", "TRACE"), _READS),
    "PUT": {"idempotent_hint": True},
    "DELETE": {"destructive_hint": True, "idempotent_hint": True},
}
"""The hints for each method, by RFC 9110, 9.2; other methods may destroy, and so may a `PUT`, which overwrites."""


def with_hints(make: Callable[..., _Server], *args: Any, **options: Any) -> _Server:
    """Return the server of FastMCP's `from_openapi` or `from_fastapi`, with tool annotations from the HTTP methods."""
    call = inspect.signature(make).bind(*args, **options)
    authors = call.arguments.get("mcp_component_fn")

    def customise(route: Any, component: Any) -> None:
        try:
            if authors is not None:
                authors(route, component)
        finally:
            if isinstance(component, Tool):
                component.annotations = _hinted(component.annotations, str(route.method).upper())
                _describe(route, component)

    call.arguments["mcp_component_fn"] = customise
    return make(*call.args, **call.kwargs)


def _describe(route: Any, tool: Tool) -> None:
    """Add an operation's summary to its tool, and its id, since the name loses the word breaks of `pulls/list`.

    FastMCP leaves out a summary beside a description. What an author wrote in place of either stays.
    """
    summary, description = (route.summary or "").strip(), tool.description or ""
    if summary:
        tool.title = tool.title or (tool.annotations and tool.annotations.title) or summary
        if description == route.description and summary.rstrip(".").casefold() not in description.casefold():
            tool.description = f"{summary}\n\n{description}"
    said = split_identifier((route.operation_id or "").split("__")[0])
    if said and said.casefold() != split_identifier(tool.name).casefold():
        tool.meta = {SEARCH_HINT: said, **(tool.meta or {})}


def _hinted(annotations: Any, method: str) -> ToolAnnotations | None:
    """Return a tool's annotations with the method's hints, unless its author says whether it reads or destroys."""
    said = ToolAnnotations.model_validate(annotations or {})
    hints = _HINTS.get(method, {}) if said.read_only_hint is None and said.destructive_hint is None else {}
    unsaid = {hint: value for hint, value in hints.items() if getattr(said, hint) is None}
    return said.model_copy(update=unsaid) if annotations or unsaid else None
