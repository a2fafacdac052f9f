"""`AgentServer`: a FastMCP server that holds one verdict on every wire, and asks its features."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack, cast

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError, ValidationError
from fastmcp.prompts.base import Prompt, PromptResult
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server import create_proxy
from fastmcp.server.completions import CompletionHandler
from fastmcp.server.http import StarletteWithLifespan
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from pydantic import ValidationError as PydanticValidationError

from agent_utilities.catalog.document import ToolServer
from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.compat import fastmcp_server, left_out, sdk_server, unsupported
from agent_utilities.compat.fastmcp_server import low_level_server, whole_lifespan
from agent_utilities.selection.model import Selection
from agent_utilities.server import answers
from agent_utilities.server.changes.changes import Changes
from agent_utilities.server.command_line import NO_VERSION
from agent_utilities.server.events import CatalogListed, Event
from agent_utilities.server.feature import CallRecord, Feature, OwnTool
from agent_utilities.server.feature_list import FeatureList, Later
from agent_utilities.server.greeting import Greeting
from agent_utilities.server.request import LISTED, Request, entering, request_in_force
from agent_utilities.server.sessions import Caller, Client, Session, Sessions
from agent_utilities.server.stopping import Job, Stopping, with_background
from agent_utilities.server.surface.components import LISTING, with_hints
from agent_utilities.server.surface.surface import Surface, verdict_in_force
from agent_utilities.server.surface.visibility_transform import DynamicVisibilityTransform
from agent_utilities.server.tool_origin import KnownTools, ToolOrigin, origin_of
from agent_utilities.server.wire.middleware import WireMiddleware, header_schema
from agent_utilities.server.wire.request import Callers

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider

    from agent_utilities.compat.fastmcp_server import FastMCPOptions
    from agent_utilities.server.metrics import Metrics
    from agent_utilities.state.redis_state import RedisState

_T = TypeVar("_T")
_PARTS = (*fastmcp_server.PARTS, *sdk_server.PARTS)
_Generations = list[tuple[Provider, Hashable | None]]
"""The providers of a server, each with the generation of what it lists to a caller."""


class AgentServer(FastMCP[Any]):
    """A `FastMCP` server whose surface every launch, every feature and every request can cut down.

    Made by `create_mcp_server` and `create_gateway`, or as FastMCP's own by `from_openapi` and `from_fastapi`.
    Everything FastMCP offers keeps working: mounting, auth, middleware, tasks, apps and `fastmcp run`.

    Args:
        name, instructions, options: as for `FastMCP`.
        environ, graph: as for `create_mcp_server`.
        features: what it can do beside keeping its bounds, in the order in which they are asked; those of
            `create_mcp_server` where None.
    """

    default_features: ClassVar[Callable[[Any], Iterable[Feature | Later]]] = lambda graph: ()
    """Makes the features of a server that is given none, for the graph that it is given; the factory says which."""
    transport: str | None = None
    """What it is served over: `stdio`, `http`, `sse`; None where it is neither, as in this process."""
    address: str | None = None
    port = 0
    """What it is bound to, while it is served over HTTP by itself."""
    completes = False
    """Whether anything completes arguments of its prompts and resources."""
    state: RedisState | None = None
    """What its replicas share, where the operator names a Redis for it."""
    record: CallRecord | None = None
    """Where calls are recorded, if they are."""

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
        self.features = FeatureList(type(self).default_features(graph) if features is None else features)
        self.surface = Surface(environ, self.features.bounds_for, self.features.notify)
        self.known_tools = KnownTools(self)
        self.sessions = Sessions(self.features.session_ended)
        self.greeting = Greeting(self)
        self.operator_bounds = self.greeting.bounds
        self._kept: tuple[_Generations, Sequence[Tool]] | None = None
        self._observing_metrics: Metrics | None = None
        self.changes = Changes(self)
        self.author_injected_tools: Callable[[], list[Tool]] = list  # until FastMCP is there to tell
        self._visibility = DynamicVisibilityTransform(self.surface, lambda: self.author_injected_tools(), self.own_tool)
        options["lifespan"] = with_background(self._jobs, options.get("lifespan"))
        self.replicated = fastmcp_server.Replicated(options)
        self.pages_lists = options.get("list_page_size") is not None
        resolves_references, options["dereference_schemas"] = options.get("dereference_schemas", True), False
        super().__init__(name, instructions, **options)
        if resolves_references:
            self._author_middleware.append(answers.KnownReferences())
        self.stopping = Stopping(self.changes.listen.close)
        self.callers = Callers(self)
        self.unsupported, self.left_out = unsupported(_PARTS), left_out(_PARTS)
        if self.unsupported is None:
            self._hold(has_version=options.get("version") is not None)

    def _hold(self, *, has_version: bool) -> None:
        """Stand on every wire, and before all that is listed, called and read (law L1)."""
        self.changes.watch.watch(self)
        self.author_injected_tools = fastmcp_server.hold_injected_tools(
            self, lambda tool: self.surface.permits("tool", tool)
        )
        fastmcp_server.keep_lists(self, self.kept_tools)
        sdk = low_level_server(self)
        if not has_version:
            sdk.version = NO_VERSION  # FastMCP would give its own.
        sdk_server.keep_log_levels(sdk)
        wire = WireMiddleware(self)
        sdk.middleware += [self.stopping, wire]
        sdk.get_tool_input_schema = partial(header_schema, self)
        sdk.add_request_handler("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self.changes.listen)
        for each in self.features:
            each.attach(self)

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

    @classmethod
    def from_openapi(cls, *given: Any, **options: Any) -> Self:
        """Return a server of an OpenAPI description as FastMCP's own makes it, whose tools say what methods mean."""
        return with_hints(super().from_openapi, *given, **options)

    @classmethod
    def from_fastapi(cls, *given: Any, **options: Any) -> Self:
        """Return a server of a FastAPI application, likewise."""
        return with_hints(super().from_fastapi, *given, **options)

    def cli(self, argv: Sequence[str] | None = None) -> None:
        """Run the server's command line on arguments, the process's by default; the entry point of its package."""
        from agent_utilities.server.server_cli import run

        run(self, argv)

    def check_libraries(self) -> None:
        """Refuse to serve, by an `UnsupportedError`, where the installed libraries lack what bounds stand on."""
        if self.unsupported is not None:
            raise self.unsupported

    def _jobs(self) -> list[Job]:
        self.check_libraries()
        self.features.complete(self)
        return [self.changes.run, *(each.run for each in self.features.running())]

    # -- who calls ---------------------------------------------------------------------------------------------------

    @property
    def auth(self) -> AuthProvider | None:
        """What verifies who calls over HTTP: the author's, or what the operator's settings come to."""
        return self.author_auth if self.author_auth is not None else self.features.auth()

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
        """Return a request of a caller as all features narrowed and shaped it; one without a method lists tools.

        Args:
            outer: the request that it is made in, whose bounds hold for it too, and whose preferences do not.

        Raises:
            BoundError: a feature could not tell its bounds.
        """
        lists = method in ("", "tools/list")
        verdict = self.surface.verdict(selection, shapes_lists=lists)
        request = Request(selection, verdict, method, params or {}, session, client, caller, is_dry=is_dry)
        request = await entering(self, request, await self.features.narrow(request), outer)
        # Nothing is deferred where that does not matter, or from code that lists in the middle of a request.
        if not request.is_about_tools or (lists and outer is not None and not selection.asked):
            return request.preferring(request.verdict.preferences.undeferred)
        return await self.features.prefer(request)

    def feature(self, kind: type[_T]) -> _T | None:
        """Return the feature of a class, or None where the server does not have it."""
        return self.features.get(kind)

    async def instructions_for(self, request: Request) -> str | None:
        """Return what a caller is told of the server for models, the shortest first: hosts cut it at its end."""
        texts = filter(None, (self.instructions, *await self.features.instructions(request)))
        return "\n\n".join(sorted(texts, key=len)) or None

    def notify(self, event: Event) -> None:
        """Tell features and observers of an event; returns at once."""
        self.features.notify(event)

    def start(self, work: Coroutine[None, None, None]) -> bool:
        """Start bounded work that no request waits for; return whether it was started."""
        return self.changes.start(work)

    async def own_tool(self, name: str) -> Tool | None:
        """Return a feature's own tool of a name for the request in force, or None."""
        request = request_in_force()
        if request is None or request.verdict.surface is not self.surface or verdict_in_force() is not request.verdict:
            return None
        return await self.features.tool(name, request)

    # -- lists -------------------------------------------------------------------------------------------------------

    @property
    def middleware(self) -> list[Middleware]:
        """The author's FastMCP middleware; without a response cache where callers select, or tools are deferred.

        Its keys know nothing of selections and sessions: it would answer one caller with another's list.
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
        """All transforms, the visibility transform outermost: it judges the names that callers see."""
        return [*super().transforms, self._visibility]

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the visible tools, before them features' own; see `FastMCP.list_tools`."""
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
        """Return the permitted prompts; see `FastMCP.list_prompts`."""
        return await answers.listing(self, "prompt", super().list_prompts, run_middleware)

    async def list_resources(self, *, run_middleware: bool = True) -> Sequence[Resource]:
        """Return the permitted resources; see `FastMCP.list_resources`."""
        with self.surface.under_verdict():
            listed = await answers.listing(self, "resource", super().list_resources, run_middleware)
            return await answers.without_denied_pages(listed, super().list_tools)

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Sequence[ResourceTemplate]:
        """Return the permitted resource templates; see `FastMCP.list_resource_templates`."""
        return await answers.listing(self, "template", super().list_resource_templates, run_middleware)

    async def kept_tools(self, list_them: Callable[[], Awaitable[Sequence[Tool]]]) -> Sequence[Tool]:
        """Return the providers' tools: those listed before, while every provider tells that nothing changed.

        A tuple, so that who reads it again and again may know it by its identity; transforms of an author, who may
        expect a list, are given one.
        """
        generations = [(provider, self.changes.watch.generation(provider)) for provider in self.providers]
        if self._kept is None or self._kept[0] != generations:
            tools = tuple(await list_them())
            self._kept = (generations, tools) if all(number is not None for _, number in generations) else None
        else:
            tools = tuple(self._kept[1])
        return list(tools) if super().transforms else tools

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take note of the catalog of a whole listing: tools of a provider may have come without its telling."""
        self.changes.note_listed(kind, catalog)
        if kind == "tool":
            self.notify(CatalogListed(catalog))

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return what the present caller was last listed of a kind; they are listed it where that is not known."""
        if (catalog := self.surface.catalogs.of_caller(kind)) is None:
            await self.components(kind)
            catalog = self.surface.catalogs.of_caller(kind)
        return Catalog() if catalog is None else catalog

    async def components(self, kind: ComponentKind) -> Sequence[FastMCPComponent]:
        """Return the components of a kind under the verdict in force, without middleware."""
        listed: Sequence[FastMCPComponent] = await getattr(self, LISTING[kind])(run_middleware=False)
        return listed

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
        """Call a permitted tool; wrong arguments are told in one line. See `FastMCP.call_tool`."""
        try:
            answer = partial(super().call_tool, name, arguments, version=version, run_middleware=run_middleware)
            return await answers.answer(self, "tool", name, version, answer, run_middleware)
        except ValidationError as error:
            if not isinstance(wrong := error.__cause__, PydanticValidationError):
                raise
            tool = await self.get_tool(name, version=version)
            parameters = tool.parameters.get("properties", {}) if tool is not None else {}
            text = answers.explain_arguments(name, wrong, parameters)
        # Not from pydantic's, so that a server that this one is mounted in leaves it as it is.
        raise ValidationError(text, log_level=logging.WARNING)

    async def render_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
    ) -> PromptResult:
        """Render a permitted prompt; see `FastMCP.render_prompt`."""
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

    # -- what is told ------------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return whether every lifespan has been entered, under `status`, what features tell everybody, warnings."""
        status = "stopping" if self.stopping.is_draining else "ready" if self.operator_bounds.is_known else "starting"
        health, warnings = {"status": status, **self.features.health()}, self.operator_bounds.warnings()
        return {**health, "warnings": warnings} if warnings else health

    def origin_of(self, tool: Tool) -> ToolOrigin:
        """Return where a tool comes from; a server without a name for the server's own."""
        origin = origin_of(tool, self)
        return origin if origin.is_upstream or origin.server.name != self.name else ToolOrigin(ToolServer())

    # -- serving -----------------------------------------------------------------------------------------------------

    def run(self, *args: Any, **options: Any) -> None:
        """Serve until stopped, and tell of it as the command line does; see `FastMCP.run`."""
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

        given = inspect.signature(super().run_http_async).bind(*args, **options).arguments
        with http.at_an_address(self, given) as serving:
            async with whole_lifespan(self):
                await self.operator_bounds.judge()
                await super().run_http_async(**serving)

    def http_app(self, *args: Any, **options: Any) -> StarletteWithLifespan:
        """Return the ASGI application: MCP, `/sse` beside it, and the routes; see `FastMCP.http_app`.

        Args:
            args, options: as FastMCP takes them, but that only False as `host_origin_protection` turns our guard off,
                see `HostGuard`; `allowed_hosts` and `allowed_origins` are let in beside those that the operator names.
        """
        from agent_utilities.server.http import http  # over stdio there are no routes
        from agent_utilities.server.http.json_routes import json_routes

        self.features.complete(self)
        given = inspect.signature(super().http_app).bind(*args, **options).arguments
        app = http.application(
            self,
            super().http_app,
            given,
            lambda: [*json_routes(self, self._metrics()), *self.features.gathered("routes")],
        )
        self.transport = given.get("transport", "http")
        http.tell_when_started(app, self)
        return app

    def _metrics(self) -> Metrics:
        """Return the server's metrics, which observe it from the first application on."""
        if self._observing_metrics is None:
            from agent_utilities.server.metrics import Metrics

            self._observing_metrics = Metrics(self)
            self.features.observe(self._observing_metrics, *Metrics.hears)
        return self._observing_metrics
