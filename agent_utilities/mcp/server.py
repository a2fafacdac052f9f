"""`AgentServer`: a FastMCP server that holds one verdict on every wire."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.http import StarletteWithLifespan
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from mcp.server.streamable_http import EventStore
from starlette.middleware import Middleware as ASGIMiddleware

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.graph.base import ToolGraph
from agent_utilities.mcp.changes import Changes
from agent_utilities.mcp.headed import headed_schema
from agent_utilities.mcp.http import selection_middleware, sse_routes
from agent_utilities.mcp.lifespan import with_background
from agent_utilities.mcp.resolver import Resolver
from agent_utilities.mcp.routes import routes
from agent_utilities.mcp.surface import Surface, Verdict
from agent_utilities.mcp.visibility_transform import DynamicVisibilityTransform
from agent_utilities.mcp.wire import WireMiddleware
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.decision import revision

_PREFAB = "ui://prefab/tool/"


class AgentServer(FastMCP[Any]):
    """A `FastMCP` server whose surface every launch and every request can cut down.

    Made by `create_mcp_server`. Everything FastMCP offers keeps working: mounting, auth, middleware, tasks, apps and
    `fastmcp run`.
    """

    surface: Surface
    changes: Changes

    resolver: Resolver

    def __init__(
        self,
        name: str,
        instructions: str | None = None,
        *,
        surface: Surface,
        graph: ToolGraph | None = None,
        **options: Any,
    ) -> None:
        self.surface = surface
        self.resolver = Resolver(self, graph)
        self.changes = Changes(surface, on_tools=self.resolver.refresh)
        self._visibility = DynamicVisibilityTransform(surface, super()._injected_tools)
        lifespan = options.pop("lifespan", None)
        super().__init__(
            name, instructions, lifespan=with_background([self.changes.run, self.resolver.run], lifespan), **options
        )
        self._mcp_server.middleware.append(WireMiddleware(self))
        self._mcp_server.get_tool_input_schema = partial(headed_schema, surface)
        self._mcp_server.add_request_handler(
            "subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self.changes.listen
        )

    @property
    def middleware(self) -> list[Middleware]:
        """The author's FastMCP middleware; without a response cache for callers that select.

        A cache answers before any bound is held, and its keys know nothing of selections.
        """
        verdict = self.surface.in_force()
        if verdict is None or not verdict.by_caller:
            return self._author_middleware
        return [each for each in self._author_middleware if type(each).__name__ != "ResponseCachingMiddleware"]

    @middleware.setter
    def middleware(self, value: list[Middleware]) -> None:
        self._author_middleware = value

    @property
    def transforms(self) -> list[Transform]:
        """All transforms, the visibility transform outermost: it judges the names that callers see."""
        return [*super().transforms, self._visibility]

    def cli(self, argv: Sequence[str] | None = None) -> None:
        """Run the server's command line; the entry point of its package.

        Args:
            argv: arguments without the program's name; the process's by default.
        """
        from agent_utilities.mcp.server_cli import run

        run(self, argv)

    # -- what a request is told ------------------------------------------------------------------------------------

    async def verdict(self, caller: Selection, *, lists_tools: bool) -> Verdict:
        """Return the verdict for one request of a caller, its query resolved where tools are listed."""
        verdict = self.surface.verdict(caller, curated=lists_tools)
        if lists_tools and verdict.effective.query is not None:
            verdict.resolution = await self.resolver.resolve(verdict)
        return verdict

    async def revision(self, verdict: Verdict, kind: ComponentKind = "tool") -> str:
        """Return the revision of the surface that a verdict holds on."""
        if kind not in verdict.decisions and kind not in self.surface.catalogs:
            await self.components(kind)
        made = verdict.decisions.get(kind)
        catalog = made.catalog if made is not None else self.surface.catalogs.get(kind, Catalog())
        return revision(catalog.digest, verdict.effective.digest)

    async def components(self, kind: ComponentKind) -> Sequence[FastMCPComponent]:
        """Return the components of a kind under the verdict in force, without middleware."""
        match kind:
            case "tool":
                return await self.list_tools(run_middleware=False)
            case "prompt":
                return await self.list_prompts(run_middleware=False)
            case "resource":
                return await self.list_resources(run_middleware=False)
            case "template":
                return await self.list_resource_templates(run_middleware=False)

    # -- every listing is under one verdict: the request's, or with no request the operator's alone ----------------

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the visible tools; see `FastMCP.list_tools`."""
        with self.surface.under_verdict() as verdict:
            listed = await super().list_tools(run_middleware=run_middleware)
            if (catalog := self.surface.listed("tool", verdict)) is not None:
                self.resolver.listed(catalog)
            return listed

    async def list_prompts(self, *, run_middleware: bool = True) -> Sequence[Prompt]:
        """Return the permitted prompts; see `FastMCP.list_prompts`."""
        with self.surface.under_verdict() as verdict:
            listed = await super().list_prompts(run_middleware=run_middleware)
            self.surface.listed("prompt", verdict)
            return listed

    async def list_resources(self, *, run_middleware: bool = True) -> Sequence[Resource]:
        """Return the permitted resources; see `FastMCP.list_resources`."""
        with self.surface.under_verdict() as verdict:
            listed = await super().list_resources(run_middleware=run_middleware)
            self.surface.listed("resource", verdict)
            if not any(str(each.uri).startswith(_PREFAB) for each in listed):
                return listed
            shown = await self._prefab_uris()
            return [each for each in listed if not str(each.uri).startswith(_PREFAB) or str(each.uri) in shown]

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Sequence[ResourceTemplate]:
        """Return the permitted resource templates; see `FastMCP.list_resource_templates`."""
        with self.surface.under_verdict() as verdict:
            listed = await super().list_resource_templates(run_middleware=run_middleware)
            self.surface.listed("template", verdict)
            return listed

    async def read_resource(
        self, uri: str, *, version: VersionSpec | None = None, run_middleware: bool = True
    ) -> ResourceResult:
        """Read a permitted resource; see `FastMCP.read_resource`."""
        with self.surface.under_verdict():
            if uri.startswith(_PREFAB) and uri not in await self._prefab_uris():
                raise NotFoundError(f"Unknown resource: {uri!r}")
            return await super().read_resource(uri, version=version, run_middleware=run_middleware)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return the task-enabled components that the operator permits; see `FastMCP.get_tasks`."""
        with self.surface.under_verdict():
            return await super().get_tasks()

    async def _prefab_uris(self) -> frozenset[str]:
        """The pages that FastMCP makes for permitted tools' apps; it makes them beside the transforms."""
        tools = await super().list_tools(run_middleware=False)
        return frozenset(str(((tool.meta or {}).get("ui") or {}).get("resourceUri")) for tool in tools)

    def _injected_tools(self) -> list[Tool]:
        return []  # The visibility transform has put them into the catalog already.

    def _get_injected_tool(self, name: str) -> Tool | None:
        tool = super()._get_injected_tool(name)
        return tool if tool is None or self.surface.permits("tool", tool) else None

    # -- changes of the catalog while the server runs --------------------------------------------------------------

    def add_provider(self, provider: Provider, *, namespace: str = "") -> None:
        """Add a provider, under the same verdict as the server's own components; see `FastMCP.add_provider`."""
        super().add_provider(provider, namespace=namespace)
        self.changes.watch(provider)
        self.changes.note()

    def add_transform(self, transform: Transform) -> None:
        """Add a transform inside the visibility transform; see `FastMCP.add_transform`."""
        super().add_transform(transform)
        self.changes.note()

    def enable(self, **criteria: Any) -> Self:
        """Enable components; the bounds still hold. See `FastMCP.enable`."""
        super().enable(**criteria)
        self.changes.note()
        return self

    def disable(self, **criteria: Any) -> Self:
        """Disable components; see `FastMCP.disable`."""
        super().disable(**criteria)
        self.changes.note()
        return self

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def http_app(
        self,
        path: str | None = None,
        middleware: list[ASGIMiddleware] | None = None,
        json_response: bool | None = None,
        stateless_http: bool | None = None,
        transport: Literal["http", "streamable-http", "sse"] = "http",
        event_store: EventStore | None = None,
        retry_interval: int | None = None,
        host_origin_protection: bool | Literal["auto"] | None = None,
        allowed_hosts: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        session_idle_timeout: float | Literal["auto"] | None = None,
    ) -> StarletteWithLifespan:
        """Return the ASGI application: MCP, `/sse` beside it, and the routes; see `FastMCP.http_app`."""
        from agent_utilities.mcp.metrics import Metrics

        guards: dict[str, Any] = {
            "host_origin_protection": host_origin_protection,
            "allowed_hosts": allowed_hosts,
            "allowed_origins": allowed_origins,
        }
        app = super().http_app(
            path,
            [*(middleware or []), selection_middleware(path, transport)],
            json_response,
            stateless_http,
            transport,
            event_store,
            retry_interval,
            session_idle_timeout=session_idle_timeout,
            **guards,
        )
        if transport != "sse":
            app.router.routes.extend(sse_routes(super().http_app(transport="sse", **guards)))
        self.surface.metrics = self.surface.metrics or Metrics()
        self.resolver.serves_http = True
        app.router.routes.extend(routes(self, self.surface.metrics))
        return app
