"""`AgentServer`: a FastMCP server that enforces one verdict on every wire, and calls its features."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, Unpack, cast

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError, ValidationError
from fastmcp.prompts.base import Prompt, PromptResult
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server import create_proxy
from fastmcp.server.auth import AuthProvider
from fastmcp.server.completions import CompletionHandler
from fastmcp.server.http import StarletteWithLifespan
from fastmcp.server.middleware import Middleware
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from pydantic import ValidationError as PydanticValidationError

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.compat import fastmcp_server, left_out, sdk_server, unsupported
from agent_utilities.compat.fastmcp_server import low_level_server, whole_lifespan
from agent_utilities.policy.decision import Decision
from agent_utilities.seam import events
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.components import LISTING
from agent_utilities.seam.events import CatalogListed, Pinned, PolicyChanged, QueryAnswerable
from agent_utilities.seam.feature import Feature, OwnTool
from agent_utilities.seam.host import Notices, find
from agent_utilities.seam.request import LISTED, Request, request_in_force
from agent_utilities.seam.session import Client, Session
from agent_utilities.seam.verdict import Verdict, verdict_in_force
from agent_utilities.seam.whole_catalog import WholeCatalog
from agent_utilities.selection.model import Selection
from agent_utilities.server import answers
from agent_utilities.server.callers import Callers, Sessions
from agent_utilities.server.changes.changes import Changes
from agent_utilities.server.changes.watching import KeptTools
from agent_utilities.server.command_line import NO_VERSION
from agent_utilities.server.entering import entering
from agent_utilities.server.feature_list import FeatureList
from agent_utilities.server.feature_order import Later
from agent_utilities.server.offers import AllPending, Offers
from agent_utilities.server.startup import Greeting
from agent_utilities.server.startup_checks import OperatorBounds
from agent_utilities.server.stopping import Job, Stopping, with_background
from agent_utilities.server.surface.catalogs import KnownTools, ServerCatalog
from agent_utilities.server.surface.surface import Surface
from agent_utilities.server.surface.visibility_transform import DynamicVisibilityTransform
from agent_utilities.server.wire.middleware import Wire, header_schema

if TYPE_CHECKING:
    from agent_utilities.compat.fastmcp_server import FastMCPOptions
    from agent_utilities.server.metrics import Metrics

_T = TypeVar("_T")
_PARTS = (*fastmcp_server.PARTS, *sdk_server.PARTS)


class AgentServer(FastMCP[Any]):
    """A `FastMCP` server whose tool surface every launch, feature and request can narrow.

    Made by `create_mcp_server` and `create_gateway`, or as FastMCP's own by `from_openapi` and `from_fastapi`.
    Everything FastMCP offers keeps working: mounting, auth, middleware, tasks, apps and `fastmcp run`.

    Args:
        name, instructions, options: as for `FastMCP`.
        environ, graph: as for `create_mcp_server`.
        features: what it does beside enforcing its bounds, in the order of calls; those of `create_mcp_server` where
            None.
    """

    default_features: ClassVar[Callable[[Any], Iterable[Feature | Later]]] = lambda graph: ()
    """Returns the default features for a graph; set by the factory."""
    transport: str | None = None
    """The transport that it is served over: `stdio`, `http` or `sse`; None where it is not served."""
    address: tuple[str, int] | None = None
    """The host and port that it is bound to, while it serves HTTP by itself."""
    completes = False
    """Whether it has a completion handler for arguments of its prompts and resources."""

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        graph: object = None,
        features: Iterable[Feature | Later] | None = None,
        **options: Unpack[FastMCPOptions],
    ) -> None:
        self.offers = Offers(self)
        self.offer, self.offered = self.offers.offer, self.offers.offered
        self.features = FeatureList(type(self).default_features(graph) if features is None else features, self.offer)
        self.notify = self.features.notify
        self.surface = Surface(environ, self.features.bounds_for, self.notify)
        self.operator, self.verdict = self.surface.operator, self.surface.verdict
        self.tool_facts = KnownTools(self).of
        self.sessions = Sessions(self.notify)
        self.live_sessions = self.sessions.live
        self.pending = AllPending(self)
        self.greeting = Greeting(self)
        self.operator_bounds: OperatorBounds = self.greeting.bounds
        self._observing_metrics: Metrics | None = None
        self.changes = Changes(self)
        self.start = self.changes.start
        self.features.observe(self.surface.pin, Pinned)
        self.features.observe(self.changes.hear, PolicyChanged, QueryAnswerable)
        self.offer(Notices, lambda: self.changes)
        self.offer(WholeCatalog, lambda: ServerCatalog(self))
        self.author_injected_tools: Callable[[], list[Tool]] = list  # until FastMCP is there to tell
        self._visibility = DynamicVisibilityTransform(self.surface, lambda: self.author_injected_tools(), self.own_tool)
        options["lifespan"] = with_background(self._jobs, options.get("lifespan"))
        self.replicated: fastmcp_server.Replicated = fastmcp_server.Replicated(options)
        self.pages_lists = options.get("list_page_size") is not None
        resolves_references, options["dereference_schemas"] = options.get("dereference_schemas", True), False
        super().__init__(name, instructions, **options)
        if resolves_references:
            self._author_middleware.append(answers.KnownReferences())
        self.stopping = Stopping(self._stop)
        self.callers: Callers = Callers(self)
        self.grant_of, self.selection_of = self.callers.grant_of, self.callers.selection_of
        self.unsupported, self.left_out = unsupported(_PARTS), left_out(_PARTS)
        if self.unsupported is None:
            self._hold(has_version=options.get("version") is not None)

    def _hold(self, *, has_version: bool) -> None:
        """Enforce the verdict on every wire, and on all that is listed, called and read (law L1)."""
        self.changes.watch.watch(self)
        permits = partial(self.surface.permits, "tool")
        self.author_injected_tools = fastmcp_server.hold_injected_tools(self, permits)
        fastmcp_server.keep_lists(
            self, KeptTools(self, self.changes.watch, lambda: bool(super(AgentServer, self).transforms)).tools
        )
        sdk = low_level_server(self)
        if not has_version:
            sdk.version = NO_VERSION  # FastMCP would give its own.
        sdk_server.keep_log_levels(sdk)
        wire = Wire(self)
        sdk.middleware += [self.stopping, wire]
        sdk.get_tool_input_schema = partial(header_schema, self)
        sdk.add_request_handler("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self.changes.listen)
        self.features.attach(self)

    @classmethod
    def as_proxy(cls, target: Any, name: str | None = None, *, mode: str | None = None, **options: Any) -> Self:
        """Return a server that bounds the surface of another one, wherever that runs.

        Args:
            target, mode: as for `fastmcp.server.create_proxy`: a URL, a script, a client, a server, a configuration.
            name: the server's own name.
            options: as for `AgentServer`.
        """
        server = cls(name, **options)
        server.mount(create_proxy(target, mode=mode))
        return server

    @classmethod
    def from_openapi(cls, *args: Any, **options: Any) -> Self:
        """Return FastMCP's server of an OpenAPI description, with tool annotations from the HTTP methods."""
        from agent_utilities.server.openapi import with_hints  # for few servers

        return with_hints(super().from_openapi, *args, **options)

    @classmethod
    def from_fastapi(cls, *args: Any, **options: Any) -> Self:
        """Return FastMCP's server of a FastAPI application, with tool annotations from the HTTP methods."""
        from agent_utilities.server.openapi import with_hints

        return with_hints(super().from_fastapi, *args, **options)

    def cli(self, argv: Sequence[str] | None = None) -> None:
        """Run the server's command line, by default on the process's arguments; the entry point of its package."""
        from agent_utilities.server.server_cli import run

        run(self, argv)

    def check_libraries(self) -> None:
        """Raise an `UnsupportedError` where the installed libraries lack what the bounds depend on."""
        if self.unsupported is not None:
            raise self.unsupported

    def complete(self) -> None:
        """Import and attach the deferred features, and set the settings of all; see `FeatureList`."""
        self.features.complete(self, self.operator)

    def _jobs(self) -> list[Job]:
        self.check_libraries()
        self.complete()
        return [self.changes.run, *(each.run for each in self.features.running())]

    def _stop(self) -> None:
        self.changes.listen.close()
        self.notify(events.Stopping())

    # -- who calls ---------------------------------------------------------------------------------------------------

    @property
    def auth(self) -> AuthProvider | None:
        """The provider that authenticates callers over HTTP: the author's, or one by the operator's settings."""
        return find(self, AuthProvider)

    @auth.setter
    def auth(self, value: AuthProvider | None) -> None:
        self.author_auth = value

    # -- requests and features ---------------------------------------------------------------------------------------

    async def request(
        self,
        selection: Selection,
        *,
        method: str = "",
        params: Mapping[str, Any] | None = None,
        session: Session | None = None,
        client: Client | None = None,
        caller: Caller | None = None,
        is_dry: bool = False,
        outer: Request | None = None,
    ) -> Request:
        lists = method in ("", "tools/list")
        verdict = self.surface.verdict(selection, shapes_lists=lists)
        request = Request(selection, verdict, method, params or {}, session, client, caller, is_dry=is_dry)
        request = await entering(self, request, await self.features.narrow(request), outer)
        # Nothing is deferred where that does not matter, or for code that lists within a request.
        if not request.is_about_tools or (lists and outer is not None and not selection.asked):
            return request.preferring(request.verdict.preferences.undeferred)
        return await self.features.prefer(request)

    async def instructions_for(self, request: Request) -> str | None:
        """Return the instructions for a caller's model, the shortest text first, since hosts truncate them."""
        texts = filter(None, (self.instructions, *await self.features.instructions(request)))
        return "\n\n".join(sorted(texts, key=len)) or None

    async def own_tool(self, name: str) -> Tool | None:
        """Return the tool of a name that a feature has for the request in force, or None."""
        request = request_in_force()
        if request is None or request.verdict.surface is not self.surface or verdict_in_force() is not request.verdict:
            return None
        return await self.features.tool(name, request)

    # -- lists -------------------------------------------------------------------------------------------------------

    @property
    def middleware(self) -> list[Middleware]:
        """The author's FastMCP middleware, without response caches where callers select or tools are deferred.

        A cache's keys have no selections and sessions: it would answer one caller with another's list.
        """
        verdict = verdict_in_force()
        if verdict is None or not (verdict.by_caller or verdict.preferences.deferral.over is not None):
            return self._author_middleware
        return [middleware for middleware in self._author_middleware if not answers.is_response_cache(middleware)]

    @middleware.setter
    def middleware(self, value: list[Middleware]) -> None:
        self._author_middleware = value

    @property
    def transforms(self) -> list[Transform]:
        """All transforms, with the visibility transform outermost, so that it judges the names that callers see."""
        return [*super().transforms, self._visibility]

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the tools of features, then the visible ones; see `FastMCP.list_tools`."""
        request = request_in_force()
        if run_middleware and request is not None and LISTED in request.values:
            return cast(Sequence[Tool], request.values.pop(LISTED))
        through_middleware = run_middleware and answers.may_be_answered(self, "tool")
        listed = await answers.listing(self, "tool", super().list_tools, run_middleware)
        if request is not None and request.lists_tools and verdict_in_force() is request.verdict:
            decision = request.verdict.decisions.get((self.surface, "tool"))
            # Below the author's middleware they were listed already, and it may have left one of them out.
            if decision is not None and not (through_middleware and any(isinstance(tool, OwnTool) for tool in listed)):
                listed = [*await self.features.tools_at_head(request, decision), *listed]
        return listed

    async def list_prompts(self, *, run_middleware: bool = True) -> Sequence[Prompt]:
        return await answers.listing(self, "prompt", super().list_prompts, run_middleware)

    async def list_resources(self, *, run_middleware: bool = True) -> Sequence[Resource]:
        with self.surface.under_verdict():
            listed = await answers.listing(self, "resource", super().list_resources, run_middleware)
            return await answers.without_denied_pages(listed, super().list_tools)

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Sequence[ResourceTemplate]:
        return await answers.listing(self, "template", super().list_resource_templates, run_middleware)

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Record the catalog of a whole listing: a provider may have added tools without a notice."""
        self.changes.note_listed(kind, catalog)
        if kind == "tool":
            self.notify(CatalogListed(catalog))

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return the catalog of a kind that was last listed to the present caller; it is listed where none is known."""
        if (catalog := self.surface.catalogs.of_caller(kind)) is None:
            await self.components(kind)
            catalog = self.surface.catalogs.of_caller(kind)
        return Catalog() if catalog is None else catalog

    async def components(self, kind: ComponentKind, of: Catalog | None = None) -> Sequence[FastMCPComponent]:
        if of is not None:
            return self.surface.components_of(kind, of)
        listed: Sequence[FastMCPComponent] = await getattr(self, LISTING[kind])(run_middleware=False)
        return listed

    async def component(self, kind: ComponentKind, name: str) -> FastMCPComponent | None:
        return await answers.usable(self, kind, name)

    async def listed_tools(self, *, where: Literal["always", "seen", "cut"] = "always") -> Sequence[Tool] | None:
        is_seen = where == "always" or answers.may_be_answered(self, "tool")
        return await self.list_tools() if is_seen and (where != "cut" or answers.cuts_lists(self)) else None

    async def decide(
        self, kind: ComponentKind, verdict: Verdict, components: Sequence[FastMCPComponent] | None = None
    ) -> Decision:
        if components is None:
            catalog = await self.catalog(kind)
        else:
            catalog = (await self.surface.read(kind, components)).catalog
        return await self.surface.decide_in_turns(kind, catalog, verdict)

    # -- look-ups and calls ----------------------------------------------------------------------------------------

    async def read_resource(
        self, uri: str, *, version: VersionSpec | None = None, run_middleware: bool = True
    ) -> ResourceResult:
        """Read a permitted resource; see `FastMCP.read_resource`."""
        with self.surface.under_verdict():
            if await answers.is_denied_page(uri, super().list_tools):
                raise NotFoundError(f"Unknown resource: {uri!r}")
            answer = partial(super().read_resource, uri, version=version, run_middleware=run_middleware)
            return await answers.answer(self, "resource", uri, version, answer, run_middleware)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
    ) -> ToolResult:
        """Call a permitted tool; an error in its arguments is reported in one line. See `FastMCP.call_tool`."""
        try:
            answer = partial(super().call_tool, name, arguments, version=version, run_middleware=run_middleware)
            return await answers.answer(self, "tool", name, version, answer, run_middleware)
        except ValidationError as error:
            if not isinstance(wrong := error.__cause__, PydanticValidationError):
                raise
            tool = await self.get_tool(name, version=version)
            parameters = tool.parameters.get("properties", {}) if tool is not None else {}
            text = answers.explain_arguments(name, wrong, parameters)
        # Raised without pydantic's error as its cause, so that a server that this one is mounted in passes it on.
        raise ValidationError(text, log_level=logging.WARNING)

    async def render_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
    ) -> PromptResult:
        answer = partial(super().render_prompt, name, arguments, version=version, run_middleware=run_middleware)
        return await answers.answer(self, "prompt", name, version, answer, run_middleware)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return the task-enabled components that the operator permits; see `FastMCP.get_tasks`."""
        with self.surface.under_verdict():
            return await super().get_tasks()

    def add_completion_handler(self, handler: CompletionHandler) -> None:
        """Complete arguments of permitted prompts and resources; see `FastMCP.add_completion_handler`."""
        super().add_completion_handler(handler)
        self.completes = True

    # -- health --------------------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return the body of `/ready`: `status`, the features' parts, and warnings."""
        status = "stopping" if self.stopping.is_draining else "ready" if self.operator_bounds.is_known else "starting"
        own = {"status": status, "server": self.name, "warnings": self.operator_bounds.warnings()}
        health = {key: value for key, value in self.features.health().items() if key not in own}
        return {"status": status, **health, **({"warnings": own["warnings"]} if own["warnings"] else {})}

    # -- serving -----------------------------------------------------------------------------------------------------

    def run(self, *args: Any, **options: Any) -> None:
        """Serve until stopped, with the command line's startup message; see `FastMCP.run`."""
        from agent_utilities.server.server_cli import serve_alone

        serve_alone(self, *args, **options)

    async def run_stdio_async(self, *args: Any, **options: Any) -> None:
        """Serve over stdio until stopped; raises what `Greeting.say` does."""
        from agent_utilities.server.wire.unreadable import answer_unreadable  # over HTTP each message has an answer

        self.transport, self.greeting.is_ours = "stdio", True
        answer_unreadable(low_level_server(self))
        async with whole_lifespan(self):
            await self.greeting.say(options.get("log_level"))
            with self.stopping.heeding_signals():
                await super().run_stdio_async(*args, **options)

    async def run_http_async(self, *args: Any, **options: Any) -> None:
        """Serve over HTTP until stopped; see `FastMCP.run_http_async`, and `run_stdio_async` for what it raises."""
        from agent_utilities.server.http import http  # over stdio there are no routes

        arguments = inspect.signature(super().run_http_async).bind(*args, **options).arguments
        with http.at_an_address(self, arguments) as serving:
            async with whole_lifespan(self):
                await self.operator_bounds.judge()
                await super().run_http_async(**serving)

    def http_app(self, *args: Any, **options: Any) -> StarletteWithLifespan:
        """Return the ASGI application: MCP, `/sse` beside it, and the routes; see `FastMCP.http_app`.

        Args:
            args, options: as for FastMCP, except that only False as `host_origin_protection` turns our guard off, see
                `HostGuard`; `allowed_hosts` and `allowed_origins` are accepted beside those that the operator names.
        """
        from agent_utilities.server.http import http  # over stdio there are no routes
        from agent_utilities.server.http.json_routes import json_routes

        self.complete()
        arguments = inspect.signature(super().http_app).bind(*args, **options).arguments
        app = http.application(
            self, super().http_app, arguments, lambda: [*json_routes(self, self._metrics()), *self.features.routes()]
        )
        self.transport = arguments.get("transport", "http")
        http.tell_when_started(app, self)
        return app

    def _metrics(self) -> Metrics:
        """Return the server's metrics; they are made for its first application, and observe it from then on."""
        if self._observing_metrics is None:
            from agent_utilities.server.metrics import Metrics

            self._observing_metrics = Metrics(self)
            self.features.observe(self._observing_metrics, *Metrics.hears)
        return self._observing_metrics
