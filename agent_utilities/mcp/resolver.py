"""The server's side of the graph: what it tells the orchestrator, and what it asks of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions

from agent_utilities.catalog.document import ToolDocument, document
from agent_utilities.catalog.model import Catalog
from agent_utilities.graph.backends import graph_backend
from agent_utilities.graph.base import ToolGraph, ToolRecord, record_of
from agent_utilities.mcp.admission import unchecked
from agent_utilities.resolution.answer import Scope
from agent_utilities.resolution.catalog_ranker import CatalogRanker, open_catalog_ranker
from agent_utilities.resolution.orchestrator import DynamicToolOrchestrator
from agent_utilities.runtime.turns import in_turns
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NOTHING
from agent_utilities.selection.resolution import Resolution
from agent_utilities.visibility.curation import most_shown

if TYPE_CHECKING:
    from agent_utilities.mcp.server import AgentServer
    from agent_utilities.mcp.surface import Verdict

logger = logging.getLogger("agent_utilities.graph")

_SETTLE_S = 1.0
_N_JUDGED = 64
_ONCE_S = 20.0
_UNUSED = {"input_schema", "output_schema", "icons"}


@dataclass(frozen=True, eq=False)
class _Live:
    """The server's tools as they were last introspected, whoever may use them.

    Args:
        catalog: all of them.
        versions: of each name, the version whose words are in graph and index.
        guarded: names of those that not everybody may use, since they, or what they come from, check it themselves.
        judged: digests of listings whose names were looked at.
    """

    catalog: Catalog
    versions: Mapping[str, str | None]
    guarded: frozenset[str]
    judged: set[str] = field(default_factory=set)

    def held(self, tools: Sequence[Tool]) -> set[str]:
        """Return the names of listed tools whose words are held; those of another version are not theirs to find."""
        return {each.name for each in tools if each.name in self.versions and self.versions[each.name] == each.version}


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
        self._live: _Live | None = None
        self._ranker: CatalogRanker | None = None
        self.orchestrator: DynamicToolOrchestrator | None = None
        self.serves_http = False

    async def resolve(self, verdict: Verdict) -> Resolution:
        """Return the answer to a verdict's query; never fails, and waits no longer than the deadline."""
        query = verdict.effective.query_text
        if query is None or self.orchestrator is None:
            return Resolution()
        until = self.orchestrator.deadline()
        if self._live is None and self.orchestrator.cause == "being filled":
            await self.orchestrator.filled(until)
        orchestrator, scope = self.orchestrator, await self._scope(verdict)
        if orchestrator is None or scope is None:
            return Resolution("unavailable", cause=(orchestrator and orchestrator.cause) or "being filled")
        return await orchestrator.resolve(query, self._server.name, scope, most_shown(verdict.effective), until)

    async def _scope(self, verdict: Verdict) -> Scope | None:
        """Return the tools that the caller may use, or None before they were introspected."""
        live, surface = self._live, self._server.surface
        if live is None:
            return None
        refused = live.guarded
        if refused:
            with surface.under_verdict(surface.unbounded()):
                refused -= live.held(await self._server.list_tools(run_middleware=False))
        return surface.scope(verdict, live.catalog, refused)

    def check(self) -> None:
        """Make sure that the configured graph and ranker can be meant; nothing is opened.

        Raises:
            InputError: a setting can't be used.
        """
        if self._given is None:
            self._chosen()
        open_catalog_ranker(self._server.surface.settings)

    async def run(self) -> None:
        """Keep graph and ranker while the server runs; where they are not wanted, only make the catalog known."""
        if self._open():
            await self._keep()
        elif self.serves_http:
            await self._tools()

    async def resolve_once(self, verdict: Verdict) -> Resolution:
        """Return the answer to a verdict's query where no server runs, after graph and index were made for it."""
        if verdict.effective.query is None or not self._open():
            return Resolution()
        assert self.orchestrator is not None
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep())
            try:
                async with asyncio.timeout(_ONCE_S):
                    await self.orchestrator.tried.wait()
                    if self._ranker is not None and self.orchestrator.cause is None:
                        await self._ranker.settled.wait()
            except TimeoutError:
                logger.warning("graph or index not ready within %s s; every permitted tool is shown", _ONCE_S)
            try:
                return await self.resolve(verdict)
            finally:
                keeping.cancel()

    def _open(self) -> bool:
        """Make the orchestrator and ranker that the settings ask for, not yet running; False where there are none."""
        graph = self._given or self._chosen()
        if graph is None:
            return False
        surface = self._server.surface
        settings = surface.settings
        self._ranker = open_catalog_ranker(settings)
        self.orchestrator = DynamicToolOrchestrator(
            graph,
            self._introspect,
            ranker=self._ranker,
            deadline_ms=settings.graph_deadline_ms,
            ttl_hours=settings.graph_ttl_hours,
            settle_s=_SETTLE_S if effective(surface.operator).query is None else 0.0,
        )
        return True

    async def _keep(self) -> None:
        assert self.orchestrator is not None
        try:
            async with asyncio.TaskGroup() as group:
                if self._ranker is not None:
                    group.create_task(self._ranker.run())
                group.create_task(self.orchestrator.run(self._server.name))
        finally:
            self.orchestrator = self._ranker = self._live = None

    def _chosen(self) -> ToolGraph | None:
        surface = self._server.surface
        environ = surface.environ
        asked = surface.settings.graph not in ("auto", "off") or environ.get("NEO4J_URI", "").strip()
        if not (self.serves_http or asked or effective(surface.operator).query is not None):
            return None
        return graph_backend(surface.settings.graph, self._server.name, surface.settings.graph_folder, environ)

    def refresh(self) -> None:
        """Bring changed tools into the graph, in the background."""
        if self.orchestrator is not None:
            self.orchestrator.refresh(self._server.name, is_change=True)

    def listed(self, catalog: Catalog) -> None:
        """Take note of what a caller was listed: a provider may have got tools without telling of it."""
        live = self._live
        if live is None or catalog.digest == live.catalog.digest or catalog.digest in live.judged:
            return
        if len(live.judged) >= _N_JUDGED:
            live.judged.clear()
        live.judged.add(catalog.digest)
        if any(each.name not in live.versions for each in catalog.entries):
            self.refresh()

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of graph and ranker."""
        off = {"status": "off"}
        return {
            "graph": off if self.orchestrator is None else self.orchestrator.health(self._server.name),
            "ranker": off if self._ranker is None else self._ranker.health(),
        }

    async def _introspect(self, server_name: str) -> Sequence[ToolRecord]:
        """Return the live tools, whatever the bounds, since those are held where tools are shown.

        Of several versions the one that the operator permits is taken: a denied one's words must find nothing.
        """
        surface = self._server.surface
        tools, catalog = await self._tools()
        verdict = surface.verdict(NOTHING, curated=False)
        versions: dict[str, list[Tool]] = {}
        async for tool in in_turns(tools):
            versions.setdefault(tool.name, []).append(tool)
        records: list[ToolRecord] = []
        documents: list[ToolDocument] = []
        held: dict[str, str | None] = {}
        async for alike in in_turns(versions.values()):
            with surface.under_verdict(verdict):
                permitted = [each for each in alike if each.version is None or surface.permits("tool", each)]
            (tool,) = dedupe_with_versions(permitted or alike, lambda each: each.name)
            held[tool.name] = tool.version
            definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude=_UNUSED)
            records.append(record_of(definition))
            documents.append(document({**definition, "inputSchema": tool.parameters}))
        self._live = await self._made_live(tools, catalog, held)
        if self._ranker is not None:
            self._ranker.offer(catalog.digest, documents)
        return records

    async def _made_live(self, tools: Sequence[Tool], catalog: Catalog, versions: Mapping[str, str | None]) -> _Live:
        """Return the live tools; what a caller without any token is not listed is not everybody's.

        Components that come through another server don't tell that they are guarded there.
        """
        surface, held = self._server.surface, self._live
        judged = held.judged if held is not None and held.catalog.digest == catalog.digest else set()
        live = _Live(catalog, versions, frozenset(tool.name for tool in tools if tool.auth is not None), judged)
        if any(not isinstance(provider, LocalProvider) for provider in self._server.providers):
            with surface.under_verdict(surface.unbounded()):
                everybodys = live.held(await FastMCP.list_tools(self._server, run_middleware=False))
            live = replace(live, guarded=live.guarded | (versions.keys() - everybodys))
        return live

    async def _tools(self) -> tuple[Sequence[Tool], Catalog]:
        """List every tool; the catalog is then known before the first caller asks.

        As FastMCP lists them: what is introspected must not count as listed to a caller, which may start a refresh.
        """
        surface = self._server.surface
        verdict = surface.unbounded()
        with surface.under_verdict(verdict), unchecked():
            tools = await FastMCP.list_tools(self._server, run_middleware=False)
        surface.listed("tool", verdict)
        return tools, verdict.decisions["tool"].catalog
