"""How large the surface is that a caller who asks for nothing is listed, and whether to warn of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastmcp.server.transforms.visibility import is_enabled
from fastmcp.tools.base import Tool

from agent_utilities.catalog.tokens import ListedTool, is_large, n_tokens, open_warning, surface_warning
from agent_utilities.mcp.surface.surface import TOOL_SEARCH, Surface, Verdict
from agent_utilities.selection.model import NOTHING
from agent_utilities.visibility.decision import Decision


def size_warning(surface: Surface, decision: Decision, tools: Sequence[Tool]) -> str | None:
    """Return the warning of what a server lists when it starts, in one line; None where that is little.

    Args:
        surface: the server's.
        decision: what a caller who asks for nothing is listed.
        tools: the tools that it is on.
    """
    verdict = surface.verdict(NOTHING, shapes_lists=True)
    if verdict.preferences.query is not None:  # the operator's query cuts what is listed
        return None
    listed = listed_tools(tools[i] for i in decision.visible if is_enabled(tools[i]))
    return surface_warning(listed, can_defer=can_defer(verdict), defers=decision.defers)


def open_warnings(surface: Surface) -> list[str]:
    """Return what everybody may read of how much is listed since the start: by number, as callers were listed it."""
    verdict = surface.verdict(NOTHING, shapes_lists=True)
    if verdict.preferences.query is not None:
        return []
    catalogs = [each for each in surface.catalogs.all() if each.entries and each.entries[0].kind == "tool"]
    decisions = [surface.decision("tool", catalog, verdict) for catalog in catalogs]
    large = [decision for decision in decisions if is_large(len(decision.visible_names))]
    return [open_warning(defers=decision.defers) for decision in large[:1]]


def can_defer(verdict: Verdict) -> bool:
    """Whether tool search could be turned on under a verdict."""
    return verdict.bounds.permits_entry_tool(TOOL_SEARCH, by_caller=False)


def listed_tools(tools: Iterable[Tool]) -> list[ListedTool]:
    """Return what counts of listed tools; of several versions of one the last.

    Read from the tools themselves: no definition is made of them while a server starts.
    """
    return [
        ListedTool(
            frozenset(tool.tags),
            bool(tool.annotations and tool.annotations.read_only_hint),
            n_tokens({"name": tool.name, **_described(tool), "inputSchema": tool.parameters}),
        )
        for tool in {tool.name: tool for tool in tools}.values()
    ]


def _described(tool: Tool) -> dict[str, str]:
    return {"description": tool.description} if tool.description is not None else {}
