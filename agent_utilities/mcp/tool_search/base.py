"""What tool search asks of the server it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import Verdict
from agent_utilities.mcp.tool_origin import ToolOrigin
from agent_utilities.selection.resolution import Resolution


class SearchHost(Protocol):
    """A server whose tools are searched."""

    surface: Surface

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return what the present caller was last listed of a kind; he is listed it where that is not known."""
        ...

    async def resolution_of(self, verdict: Verdict, limit: int | None) -> Resolution:
        """Return the answer to a verdict's query, of so many tools at most; never fails."""
        ...

    async def wait_to_search(self) -> None:
        """Wait for what ranks tools where it is being made, some seconds at most."""
        ...

    async def search_result_of(self, verdict: Verdict, query: str, names: frozenset[str], limit: int) -> Resolution:
        """Return the best of some permitted tools for a query, whether or not they answer it; never fails."""
        ...

    async def get_tool(self, name: str) -> Tool | None:
        """Return a tool that the present caller may call, or None."""
        ...

    @property
    def cuts_lists(self) -> bool:
        """Whether any of the author's middleware is there to change lists of tools."""
        ...

    async def searchable_tools(self) -> Sequence[Tool] | None:
        """Return the permitted tools as the author's middleware leaves them; None where none of it reads lists."""
        ...

    def origin_of(self, tool: Any) -> ToolOrigin:
        """Return where a tool comes from; a server without a name for the server's own."""
        ...
