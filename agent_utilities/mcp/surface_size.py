"""How large the surface is that a caller who asks for nothing is listed, and whether to warn of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fastmcp.server.transforms.visibility import is_enabled
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog
from agent_utilities.catalog.tokens import ListedTool, is_large, n_tokens, open_warning, surface_warning
from agent_utilities.mcp.surface.surface import TOOL_SEARCH, Surface
from agent_utilities.mcp.surface.verdict import Verdict
from agent_utilities.selection.model import NOTHING
from agent_utilities.visibility.decision import Decision, decide


class SurfaceSize:
    """Judges a server's tools when it starts; nothing is judged while a request is served.

    Args:
        surface: returns the server's.
    """

    def __init__(self, surface: Callable[[], Surface]) -> None:
        self._surface = surface
        self._at_start: str | None = None
        self._since: dict[str, str | None] = {}

    def judge(self, decision: Decision, tools: Sequence[Tool]) -> str | None:
        """Return the warning of what a server lists when it starts, in one line; None where that is little.

        Args:
            decision: what a caller who asks for nothing is listed.
            tools: the tools that it is on.
        """
        verdict = self._verdict()
        if not _is_known(verdict):
            return None
        listed = listed_tools(tools[i] for i in decision.visible if is_enabled(tools[i]))
        warning = surface_warning(listed, can_defer=can_defer(verdict), defers=decision.defers)
        self._at_start = open_warning(defers=decision.defers) if warning is not None else None
        return warning

    def warnings(self) -> list[str]:
        """Return what `/ready` warns of, which everybody may read.

        Tools that have come since the start count by their number, as callers were listed them.
        """
        verdict = self._verdict()
        if not _is_known(verdict):
            return []
        catalogs = {each.digest: each for each in self._surface().catalogs.all() if _is_of_tools(each)}
        self._since = {
            digest: self._since[digest] if digest in self._since else _warning_of(catalog, verdict)
            for digest, catalog in catalogs.items()
        }
        return [warning for warning in (self._at_start, *self._since.values()) if warning is not None][:1]

    def _verdict(self) -> Verdict:
        return self._surface().verdict(NOTHING, shapes_lists=True)


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


def _is_known(verdict: Verdict) -> bool:
    """Whether it is known what is listed: not where the operator's query cuts it."""
    return verdict.preferences.query is None


def _is_of_tools(catalog: Catalog) -> bool:
    return bool(catalog.entries) and catalog.entries[0].kind == "tool"


def _warning_of(catalog: Catalog, verdict: Verdict) -> str | None:
    decision = decide(catalog, verdict.effective.bounds_only, verdict.preferences)
    return open_warning(defers=decision.defers) if is_large(len(decision.visible_names)) else None
