"""`AgentServer`: a FastMCP server that holds one verdict on every wire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import mcp_types
from fastmcp.server import create_proxy
from fastmcp.server.http import StarletteWithLifespan
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Transform
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.streamable_http import EventStore
from starlette.middleware import Middleware as ASGIMiddleware

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.graph.base import ToolGraph
from agent_utilities.mcp.command_line.version import NO_VERSION
from agent_utilities.mcp.fastmcp_internals import is_started, low_level_server
from agent_utilities.mcp.launched_server import HostOriginProtection
from agent_utilities.mcp.lifespan import with_background
from agent_utilities.mcp.live_sessions import LiveSessions
from agent_utilities.mcp.resolving_server import ResolvingServer
from agent_utilities.mcp.routes.context_route import context_route
from agent_utilities.mcp.routes.http import WholeResponses, selection_middleware, sse_routes
from agent_utilities.mcp.routes.json_routes import json_routes
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.mcp.stopping import Stopping
from agent_utilities.mcp.surface.verdict import Verdict, verdict_in_force
from agent_utilities.mcp.tool_origin import origin_of
from agent_utilities.mcp.wire.changes import Changes
from agent_utilities.mcp.wire.middleware import WireMiddleware
from agent_utilities.mcp.wire.parameter_headers import header_schema
from agent_utilities.mcp.wire.request import RequestReader
from agent_utilities.mcp.wire.watching import Watch
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.selection import nearest
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.bounds import Bounds

if TYPE_CHECKING:
    from agent_utilities.mcp.observers.metrics import Metrics

_SETTLE_S = 1.0


class AgentServer(ResolvingServer):
    """A `FastMCP` server whose surface every launch and every request can cut down.

    Made by `create_mcp_server`, or as FastMCP's own by `from_openapi` and `from_fastapi`. Everything FastMCP offers
    keeps working: mounting, auth, middleware, tasks, apps and `fastmcp run`.

    Args:
        name, instructions, options: as for `FastMCP`.
        environ, graph: as for `create_mcp_server`.
    """

    changes: Changes

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        graph: ToolGraph | None = None,
        **options: Any,
    ) -> None:
        self.serves_http = False
        self.live_sessions = LiveSessions()
        self.toolsets_to_come: Callable[[], Collection[str]] = tuple
        """Returns toolsets that no component bears yet and that a path may name all the same."""
        self._has_own_graph = graph is not None
        self._observing_metrics: Metrics | None = None
        self.changes = Changes(self, on_tools=lambda: self.resolver.refresh(), knows_lists=self._knows_lists)
        self._watch = Watch(self.changes.note_component, self.changes.note, self.changes.note)
        lifespan = options.pop("lifespan", None)
        jobs = [self.changes.run, self._keep_tools_known, lambda: self.usage.run(self.resolver.learn_news)]
        lifespan = with_background(jobs, lifespan)
        super().__init__(name, instructions, environ, graph, lifespan=lifespan, **options)
        sdk = low_level_server(self)
        if options.get("version") is None:
            sdk.version = NO_VERSION  # FastMCP would give its own.
        self.stopping = Stopping(self.changes.listen.close)
        sdk.middleware += [self.stopping, WireMiddleware(self)]
        sdk.get_tool_input_schema = partial(header_schema, self.surface)
        sdk.add_request_handler("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self.changes.listen)

    @classmethod
    def as_proxy(cls, target: Any, name: str | None = None, *, mode: str | None = None, **options: Any) -> Self:
        """Return a server that bounds another's surface, wherever that runs.

        Args:
            target, mode: as for `fastmcp.server.create_proxy`: a URL, a script, a client, a server, a configuration.
            name: the server's own name.
            options: as for `AgentServer`.
        """
        server = cls(name, **options)
        server.mount(create_proxy(target, mode=mode))
        return server

    def cli(self, argv: Sequence[str] | None = None) -> None:
        """Run the server's command line; the entry point of its package.

        Args:
            argv: arguments without the program's name; the process's by default.
        """
        from agent_utilities.mcp.server_cli import run

        run(self, argv)

    async def after(self, method: str, params: Mapping[str, Any], result: Any, verdict: Verdict) -> Any:
        """Return the result of a request that lists nothing, once what follows from it is done: nothing, here."""
        return result

    def session_began(self, connection: Connection, capabilities: SessionCapabilities) -> None:
        """Take note of a session that begins: a gateway's may have capabilities on until it ends."""

    # -- what a request is told ------------------------------------------------------------------------------------

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return what a caller may learn of that should be listed, and is not known yet; a server's own all is."""
        return ()

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None = None) -> None:
        """Wait for what was never seen; see `Host`. A server's own components are all there."""

    async def know_everything(self) -> None:
        """Bring in what is not known yet; see `Host`."""

    async def caller_instructions(self) -> str | None:
        """Return what the present caller is told of the server for models; None where it is what everybody is."""
        return await self.with_deferred(self.instructions)

    async def with_deferred(self, instructions: str | None) -> str | None:
        """Return instructions, and after them what is deferred for the present caller, if anything is."""
        verdict = verdict_in_force()
        if verdict is None or not self.tool_search.may_defer(verdict):
            return instructions
        return "\n\n".join(filter(None, (instructions, await self.tool_search.text(verdict)))) or None

    def cache_hint(self, method: str) -> CacheHint | None:
        """Return what the author says of how long a list may be kept."""
        return low_level_server(self).cache_hints.get(method)

    def health(self) -> dict[str, Any]:
        """Return whether every lifespan has been entered, under `status`, the state of graph and ranker, warnings."""
        warnings = self.operator_bounds.warnings()
        health = {
            "status": "ready" if is_started(self) else "starting",
            **self.resolver.health(),
            **self._usage_health(),
        }
        return {**health, "warnings": warnings} if warnings else health

    def _usage_health(self) -> dict[str, Any]:
        if self.usage.mode == "off":
            return {}
        teaching = self.resolver.teaching
        learned = {} if teaching is None else {"learned": teaching.health()}
        return {"usage": {**self.usage.health(), **learned}}

    # -- changes of the catalog while the server runs --------------------------------------------------------------

    def add_provider(self, provider: Provider, *, namespace: str = "") -> None:
        """Add a provider, under the same verdict as the server's own components; see `FastMCP.add_provider`."""
        super().add_provider(provider, namespace=namespace)
        self._watch.watch(provider)
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

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Bring in tools that a provider got without telling of it: a list of them is the first to show them."""
        self.changes.note_listed(kind, catalog)
        if kind == "tool":
            self._introspection.listed(catalog)

    async def _keep_tools_known(self) -> None:
        """Keep graph and ranker while the server runs."""
        self.resolver.settle_s = self.settle_s()
        try:
            await self.resolver.run(in_daemon_thread(nearest.load) if self.serves_http else None)
        finally:
            self._introspection.forget()

    def _knows_lists(self) -> bool:
        """Whether to list everything at the start: not where nobody is served without a token.

        Nor over stdio where it would start or ask other servers.
        """
        return self.auth is None and (self.serves_http or self._watch.is_in_process)

    def settle_s(self) -> float | None:
        """Return how many seconds after the start graph and index are made where no query comes; None for never.

        Over stdio few clients ever send a query, so nothing is loaded there before one does.
        """
        operator = self.surface.operator
        if effective(operator.selection).query is not None:
            return 0.0
        is_asked_for = operator.settings.graph not in ("auto", "off") or operator.environ.get("NEO4J_URI", "").strip()
        return _SETTLE_S if self.settles or self._has_own_graph or is_asked_for else None

    @property
    def settles(self) -> bool:
        """Whether graph and index are made though no query has come and nobody has asked for them."""
        return self.serves_http

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
        host_origin_protection: HostOriginProtection = None,
        allowed_hosts: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        session_idle_timeout: float | Literal["auto"] | None = None,
    ) -> StarletteWithLifespan:
        """Return the ASGI application: MCP, `/sse` beside it, and the routes; see `FastMCP.http_app`.

        Args:
            host_origin_protection: False lets every host and origin in; anything else leaves our guard on. See
                `HostGuard`.
            allowed_hosts, allowed_origins: let in beside those that the operator names.
            path, middleware, json_response, stateless_http, transport, event_store, retry_interval,
                session_idle_timeout: as FastMCP takes them.
        """
        reader = RequestReader(lambda: self.surface.cache_bytes("requests"), self.surface.operator.check)
        app = super().http_app(
            path,
            [*(middleware or []), selection_middleware(path, transport, reader, self)],
            json_response,
            stateless_http,
            transport,
            event_store,
            retry_interval,
            session_idle_timeout=session_idle_timeout,
            host_origin_protection=False,
        )
        if transport != "sse":
            app.router.routes.extend(sse_routes(super().http_app(transport="sse", host_origin_protection=False)))
        app.add_middleware(WholeResponses)
        self.guard(app, host_origin_protection, allowed_hosts or (), allowed_origins or ())
        self.serves_http = True
        app.router.routes.extend(json_routes(self, self._metrics()))
        app.router.routes.append(context_route(self, lambda tool: origin_of(tool, self).server.name))
        self.tell_when_started(app)
        return app

    def made_metrics(self) -> Metrics:
        """Return the metrics that observe this server."""
        from agent_utilities.mcp.observers.metrics import Metrics

        return Metrics(self.operator_bounds)

    def _metrics(self) -> Metrics:
        """Return the server's metrics, which observe it from the first application on."""
        if self._observing_metrics is None:
            self._observing_metrics = self.made_metrics()
            self.surface.observers.add(self._observing_metrics)
        return self._observing_metrics
