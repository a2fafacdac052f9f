"""The server's side of the graph: what it tells the orchestrator, and what it asks of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions

from agent_utilities.graph.base import ToolGraph, ToolRecord, record_of
from agent_utilities.graph.choose import choose_graph
from agent_utilities.graph.orchestrator import DynamicToolOrchestrator
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NOTHING
from agent_utilities.selection.resolution import Resolution

if TYPE_CHECKING:
    from agent_utilities.mcp.server import AgentServer
    from agent_utilities.mcp.surface import Verdict

logger = logging.getLogger("agent_utilities.graph")

_PER_TURN = 20
_UNUSED = {"input_schema", "output_schema", "icons"}


class Resolver:
    """Resolves a server's queries; off where nobody can ask one.

    Over stdio no caller can send a query, so the graph is left alone there unless the operator asks for it: by a
    query of its own, by `MCP_GRAPH`, or by `NEO4J_URI`.

    Args:
        server: the server whose tools are resolved.
        graph: a backend to use instead of the configured one.
    """

    def __init__(self, server: AgentServer, graph: ToolGraph | None = None) -> None:
        self._server = server
        self._given = graph
        self.orchestrator: DynamicToolOrchestrator | None = None
        self.serves_http = False

    async def resolve(self, verdict: Verdict) -> Resolution:
        """Return the answer to a verdict's query; never fails, and waits no longer than the deadline."""
        query = verdict.effective.query_text
        if query is None or self.orchestrator is None:
            return Resolution()
        scope = self._server.surface.scope(verdict)
        if scope is None:
            return Resolution("unavailable", cause="being filled")
        return await self.orchestrator.resolve(query, self._server.name, scope)

    async def run(self) -> None:
        """Keep the graph while the server runs; where it is not wanted, only make the catalog known."""
        graph = self._given or self._chosen()
        if graph is None:
            if self.serves_http:
                await self._tools()
            return
        settings = self._server.surface.settings
        self.orchestrator = DynamicToolOrchestrator(
            graph, self._introspect, deadline_ms=settings.graph_deadline_ms, ttl_hours=settings.graph_ttl_hours
        )
        try:
            await self.orchestrator.run(self._server.name)
        finally:
            self.orchestrator = None

    def _chosen(self) -> ToolGraph | None:
        surface = self._server.surface
        environ = surface.environ
        asked = surface.settings.graph not in ("auto", "off") or environ.get("NEO4J_URI", "").strip()
        if not (self.serves_http or asked or effective(surface.operator).query is not None):
            return None
        return choose_graph(surface.settings.graph, self._server.name, surface.settings.graph_folder, environ)

    def refresh(self) -> None:
        """Bring changed tools into the graph, in the background."""
        if self.orchestrator is not None:
            self.orchestrator.refresh(self._server.name, is_change=True)

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of the graph."""
        return {"status": "off"} if self.orchestrator is None else self.orchestrator.health(self._server.name)

    async def _introspect(self, server_name: str) -> Sequence[ToolRecord]:
        """Return the live tools, whatever the bounds, since those are held where tools are shown.

        Of several versions the one that the operator permits is taken: a denied one's words must find nothing.
        """
        surface = self._server.surface
        tools = await self._tools()
        with surface.under_verdict(surface.verdict(NOTHING, curated=False)):
            permitted = [tool for tool in tools if tool.version is None or surface.permits("tool", tool)]
        names = {tool.name for tool in permitted}
        kept = [*permitted, *(tool for tool in tools if tool.name not in names)]
        records = []
        for i, tool in enumerate(dedupe_with_versions(kept, lambda tool: tool.name)):
            if i % _PER_TURN == _PER_TURN - 1:
                await asyncio.sleep(0)
            definition = tool.to_mcp_tool(name=tool.name)
            records.append(record_of(definition.model_dump(mode="json", by_alias=True, exclude=_UNUSED)))
        return records

    async def _tools(self) -> Sequence[Tool]:
        """List every tool; the catalog is then known before the first caller asks."""
        with self._server.surface.under_verdict(self._server.surface.unbounded()):
            return await self._server.list_tools(run_middleware=False)
