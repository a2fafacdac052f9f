"""A server that resolves callers' queries on its tools, defers them, and lets them be searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from fastmcp.tools.base import Tool

from agent_utilities.catalog.document import ToolServer
from agent_utilities.graph.base import ToolGraph
from agent_utilities.mcp.introspection import Introspection
from agent_utilities.mcp.launched_server import LaunchedServer
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.surface.foreign_answers import may_answer_lists, reads_lists
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import CollectingDecisions, Verdict, verdict_in_force
from agent_utilities.mcp.tool_origin import ToolOrigin, origin_of
from agent_utilities.mcp.tool_search.entry_tools import EntryTool
from agent_utilities.mcp.tool_search.tool_search import ToolSearch
from agent_utilities.mcp.usage.server_usage import ServerUsage
from agent_utilities.resolution.resolver import Resolver
from agent_utilities.resolution.scope import CallerScope
from agent_utilities.resolution.trail import N_NEAR, NO_TRAIL, Trail
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.selection.model import Selection
from agent_utilities.selection.resolution import UNRESOLVED, Resolution

_SEARCH_S = 10.0
"""Seconds that a search waits at most: a model waits for its result, and the first one makes the index."""


class ResolvingServer(LaunchedServer):
    """Holds a verdict whose query is resolved, and whose deferred tools can be found.

    Args:
        environ: the environment to read the operator's selection and settings from; the process's by default.
        graph: the graph that queries are resolved on; the configured one where None.
        name, instructions, options: as for `LaunchedServer`.
    """

    def __init__(
        self,
        name: str | None,
        instructions: str | None,
        environ: Mapping[str, str] | None,
        graph: ToolGraph | None,
        **options: Any,
    ) -> None:
        surface = Surface(environ)
        self._introspection = Introspection(self, surface, on_news=lambda: self.resolver.refresh())
        self.resolver = Resolver(
            lambda: self.name,
            self._introspection.live_tools,
            lambda: surface.operator.settings,
            lambda: surface.operator.environ,
            graph,
            lambda: self.usage.source(),
        )
        self.usage = ServerUsage(self)
        self.tool_search = ToolSearch(self)
        super().__init__(surface, name, instructions, **options)

    def told_at_start(self) -> Sequence[str]:
        """Return what any server says, and where calls are logged, if they are."""
        return [*super().told_at_start(), *self.usage.notices]

    async def verdict(
        self, caller: Selection, *, lists_tools: bool, view: SessionView | None = None, is_about_tools: bool = True
    ) -> Verdict:
        """Return the verdict for one request of a caller, its query resolved where tools are listed.

        Args:
            caller: his selection.
            lists_tools: whether its preferences choose what is listed.
            view: the session that keeps his active set; None where each request brings its own.
            is_about_tools: whether it matters to the request which tools are deferred.
        """
        verdict = self.surface.verdict(caller, shapes_lists=lists_tools)
        if view is not None and is_about_tools:
            verdict = replace(verdict, trail=view.trail)
        if not is_about_tools:
            return replace(verdict, preferences=verdict.preferences.undeferred)
        if self.tool_search.may_defer(verdict):
            return await self.tool_search.prepared(verdict, view)
        if lists_tools and verdict.preferences.query is not None:
            resolution = await self.resolution_of(verdict, verdict.preferences.most_shown)
            verdict = self.surface.resolved(verdict, resolution)
        return verdict

    async def resolution_of(self, verdict: Verdict, limit: int | None) -> Resolution:
        """Return the answer to a verdict's query; never fails, and waits no longer than the deadline.

        Args:
            verdict: holds the query, and what may answer it.
            limit: the most tools to name; None for all.
        """
        query = verdict.preferences.query
        if query is None:
            return UNRESOLVED
        if self.surface.operator.settings.curation == "off":
            return Resolution(cause="curation is off")
        if (deadline := await self.resolver.wait_for_tools()) is None:
            return UNRESOLVED
        scope = await self._introspection.scope(verdict)
        return await self.resolver.resolve(query, scope, limit, deadline, self._trail(verdict, scope))

    def _trail(self, verdict: Verdict, scope: CallerScope | None) -> Trail:
        """Return what the caller did before, as far as he may use those tools now (law L1)."""
        if self.resolver.teaching is None or scope is None:
            return NO_TRAIL
        called = () if verdict.trail is None else verdict.trail.called
        near = dict.fromkeys((*called, *reversed(verdict.preferences.active.names)))
        permitted = scope.names() if near else frozenset[str]()
        return Trail(self.usage.subject(), tuple(name for name in near if name in permitted)[:N_NEAR])

    async def wait_to_search(self) -> None:
        """Wait for the index where one is being made, some seconds at most."""
        await self.resolver.wait_to_search(Deadline.after(_SEARCH_S))

    async def search_result_of(self, verdict: Verdict, query: str, names: frozenset[str], limit: int) -> Resolution:
        """Return the best of some tools for a query, whether or not they answer it; never fails.

        Args:
            verdict: permits the tools.
            query: the words.
            names: the tools to search; the whole scope of the verdict where it is as many.
            limit: the most to name.
        """
        deadline = Deadline.after(_SEARCH_S)
        await self.resolver.wait_to_search(deadline)
        scope = await self._introspection.scope(verdict)
        if scope is not None and len(names) != len(permitted := scope.names()):
            digest = blake2b("\n".join(sorted(names)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            scope = CallerScope(f"{scope.digest}:{digest}", lambda: permitted & names)
        return await self.resolver.search(query, scope, limit, deadline, self._trail(verdict, scope))

    async def verdict_once(self, caller: Selection) -> Verdict:
        """Return the verdict for a caller's list where no server runs, after graph and index were made for its query.

        Args:
            caller: his selection, which no session stands behind.
        """
        if self.surface.settled(caller).preferences.query is None:
            return await self.verdict(caller, lists_tools=True)
        return await self.resolver.run_once(lambda: self.verdict(caller, lists_tools=True))

    # -- tools that are deferred -------------------------------------------------------------------------------------

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the visible tools, before them the entry tools where any is deferred; see `FastMCP.list_tools`."""
        verdict = verdict_in_force()
        if (
            verdict is None
            or verdict.surface is not self.surface
            or not verdict.shapes_lists
            or not self.tool_search.may_defer(verdict)
        ):
            return await super().list_tools(run_middleware=run_middleware)
        with CollectingDecisions(verdict) as decisions:
            listed = await super().list_tools(run_middleware=run_middleware)
        decision = decisions.get("tool")
        if decision is None or any(isinstance(tool, EntryTool) for tool in listed):
            return listed  # they were listed already, below the author's middleware, which may leave one of them out
        return [*await self.tool_search.entry_tools(decision, verdict), *listed]

    async def entry_tool(self, name: str) -> Tool | None:
        """Return the entry tool of a name for the present caller, or None."""
        return await self.tool_search.entry_tool(name)

    @property
    def cuts_lists(self) -> bool:
        """Whether any of the author's middleware is there to change lists of tools, not only to watch requests."""
        return any(reads_lists(each, "tool") for each in self.middleware)

    async def searchable_tools(self) -> Sequence[Tool] | None:
        """Return the permitted tools as the author's middleware leaves them; None where none of it reads lists."""
        if not any(may_answer_lists(each, "tool") for each in self.middleware):
            return None
        return await super().list_tools()

    def origin_of(self, tool: Any) -> ToolOrigin:
        """Return where a tool comes from; a server without a name for the server's own."""
        origin = origin_of(tool, self)
        return origin if origin.is_upstream or origin.server.name != self.name else ToolOrigin(ToolServer())
