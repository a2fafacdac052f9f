"""Enforces the verdict in force on what a server answers: on lists, and on the use of single components."""

from __future__ import annotations

import logging
import sys
from asyncio import Event
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary

import mcp_types
from fastmcp.exceptions import NotFoundError
from fastmcp.resources.base import Resource
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from pydantic import ValidationError

from agent_utilities.catalog.model import ComponentKind, entry
from agent_utilities.compat.fastmcp_server import as_over_stdio, low_level_server
from agent_utilities.compat.tasks import is_task_of_issuer, tool_of_task
from agent_utilities.errors import said_of
from agent_utilities.policy.decision import Decision
from agent_utilities.seam.components import LISTING, Component, ForeignTool, entry_of, name_of
from agent_utilities.seam.feature import OwnTool
from agent_utilities.seam.request import relayed
from agent_utilities.seam.verdict import Verdict
from agent_utilities.selection.model import nearest

if TYPE_CHECKING:
    from agent_utilities.seam.request import Request
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

_has_answered: ContextVar[Event | None] = ContextVar("agent_utilities_has_answered", default=None)
"""Set by the server where it answers itself, and not a middleware before it."""

_A = TypeVar("_A")
_C = TypeVar("_C", bound=Component)
_PREFAB = ("ui://prefab/tool/", "ui://prefab/renderer")
"""URIs of FastMCP 4.1, with a page for each tool, and of 4.2, with one for all that are configured alike."""

ListTools = Callable[..., Awaitable[Sequence[Tool]]]


async def listing(
    server: AgentServer, kind: ComponentKind, list_them: Callable[..., Awaitable[Sequence[_C]]], run_middleware: bool
) -> Sequence[_C]:
    """List components under the verdict in force, and keep the catalog as the one last listed to the caller."""
    surface, through_middleware = server.surface, run_middleware and may_be_answered(server, kind)
    with surface.under_verdict(looks_up=True) as verdict:
        verdict.decisions.pop((surface, kind), None)  # one of another listing of the request
        listed = await list_them(run_middleware=through_middleware)
        if through_middleware:
            listed = await _cut(server, kind, listed, verdict)
        elif run_middleware:
            listed = await _whole(server, kind, listed)
    if verdict.surface is surface and (decision := verdict.decisions.get((surface, kind))) is not None:
        surface.catalogs.keep(kind, decision.catalog)
        server.note_listed(kind, decision.catalog)
    return listed


async def _whole(server: AgentServer, kind: ComponentKind, listed: Sequence[_C]) -> Sequence[_C]:
    """Return a list that bypassed middleware, with references in schemas resolved as middleware would."""

    async def call_next(_: object) -> Sequence[_C]:
        return listed

    for each in server.middleware:
        if isinstance(each, DereferenceRefsMiddleware):
            listed = await getattr(each, f"on_{LISTING[kind]}")(None, call_next)
    return listed


def set_cache(
    server: AgentServer, result: dict[str, Any], request: Request, kind: ComponentKind, *, is_whole: bool
) -> None:
    """Set how long and by whom a list may be cached: one that its caller narrowed is private.

    A list that something is absent from may not be cached at all.
    """
    hint = low_level_server(server).cache_hints.get(cast(Any, request.method))
    ttl_ms = hint.ttl_ms if hint is not None else server.surface.operator.settings.list_ttl_ms
    if (limit_ms := server.features.keeping_ms(request, kind)) is not None:
        ttl_ms = min(ttl_ms, limit_ms)
    is_private = request.verdict.by_caller or server.auth is not None
    scope = hint.scope if hint is not None else "public"
    result["ttlMs"] = ttl_ms if is_whole else 0
    result["cacheScope"] = "private" if is_private else scope


def may_be_answered(server: AgentServer, kind: ComponentKind) -> bool:
    """Whether any of the author's middleware has a hook for listings, and so may answer one, or add to it."""
    return any(_has_hook(cast(Any, type(each)), kind) for each in server.middleware)


async def _cut(server: AgentServer, kind: ComponentKind, listed: Sequence[_C], verdict: Verdict) -> Sequence[_C]:
    """Filter a list that the author's middleware may have answered or added to (law L1)."""
    decisions, key, own = verdict.decisions, (server.surface, kind), server.surface.own(verdict)
    if is_foreign := key not in decisions:
        await server.components(kind)
    shown: list[_C] = []
    for component in listed:
        may_be_shown = is_shown(kind, component, decisions[key], is_foreign=is_foreign)
        if may_be_shown is None and own.bounds.refusal(entry_of(kind, component)) is None:
            may_be_shown = not await _exists(server, kind, name_of(kind, component))
        if may_be_shown:
            shown.append(component)
    return listed if len(shown) == len(listed) else shown


async def answer(
    server: AgentServer,
    kind: ComponentKind,
    name: str,
    version: VersionSpec | None,
    ask: Callable[[], Awaitable[_A]],
    run_middleware: bool,
) -> _A:
    """Return an answer if the server, or middleware for a name of its own, has made it (law L1).

    Raises:
        NotFoundError: middleware answered for a component that is denied.
    """
    if not run_middleware:
        result = await relayed(ask())
        if (has_answered := _has_answered.get()) is not None:
            has_answered.set()
        return result
    surface, has_answered = server.surface, Event()
    with surface.under_verdict() as verdict:
        token = _has_answered.set(has_answered)
        try:
            result = await relayed(ask())
        finally:
            _has_answered.reset(token)
        if has_answered.is_set() or await has(server, kind, name, version):
            return result
        refusal = surface.own(verdict).bounds.refusal(entry(kind, name))
        if refusal is not None or await _exists(server, kind, name, version):
            raise NotFoundError(f"Unknown {kind}: {name!r}")
        return result  # Middleware alone has the name.


async def has(server: AgentServer, kind: ComponentKind, name: str, version: VersionSpec | None = None) -> bool:
    """Whether the present caller may use a component."""
    match kind:
        case "tool":
            return await server.get_tool(name, version) is not None
        case "prompt":
            return await server.get_prompt(name, version) is not None
        case _:
            return await may_read(server, name)


async def _exists(server: AgentServer, kind: ComponentKind, name: str, version: VersionSpec | None = None) -> bool:
    """Whether a provider has a component, whoever may use it."""
    with server.surface.under_verdict(server.surface.unbounded()), as_over_stdio():
        return await has(server, kind, name, version)


async def usable(server: AgentServer, kind: ComponentKind, name: str) -> FastMCPComponent | None:
    """Return the component that the present caller may use by a name or URI; a URI may match a template."""
    match kind:
        case "tool":
            return await server.get_tool(name)
        case "prompt":
            return await server.get_prompt(name)
        case _ if await may_read(server, name):
            return await server.get_resource(name) or await server.get_resource_template(name)
    return None


async def may_read(server: AgentServer, uri: str) -> bool:
    """Whether the present caller may read a resource: a listed one, or one of a template."""
    with server.surface.under_verdict():
        if await server.get_resource(uri) is not None:
            return True
        if await server.get_resource_template(uri) is None:
            return False
    # A hidden resource does not fall back to a template; without bounds `get_resource` shows whether there is one.
    with server.surface.under_verdict(server.surface.unbounded()), as_over_stdio():
        return await Provider.get_resource(server, uri) is None


async def may_use_task(server: AgentServer, task_id: str) -> bool:
    """Whether the present caller may use the tool that a task runs, or has no such task."""
    tool, token = await tool_of_task(server, task_id), get_access_token()
    if tool is None:
        return True
    if token is not None and not await is_task_of_issuer(server, task_id, (token.claims or {}).get("iss")):
        return False
    return await has(server, "tool", *tool)


async def may_complete(server: AgentServer, reference: Any) -> bool:
    """Whether a completion's reference is permitted; a denied one is answered like one that never existed."""
    if not server.completes or not isinstance(reference, dict):
        return True
    if reference.get("type") == "ref/prompt":
        return await server.get_prompt(str(reference.get("name"))) is not None
    uri = str(reference.get("uri"))
    templates = await server.components("template")
    if any(getattr(template, "uri_template", None) == uri for template in templates):
        return True
    return await may_read(server, uri)


# -- lists as the author's middleware leaves them --------------------------------------------------------------------


def cuts_lists(server: AgentServer) -> bool:
    """Whether any of the author's middleware has a hook for lists of tools, rather than for all requests."""
    return any(
        not isinstance(each, DereferenceRefsMiddleware) and type(each).on_list_tools is not Middleware.on_list_tools
        for each in server.middleware
    )


# -- the pages that FastMCP adds for tools' apps, past the transforms --------------------------------------------------


async def without_denied_pages(resources: Sequence[Resource], list_tools: ListTools) -> Sequence[Resource]:
    """Return resources without the pages of denied tools."""
    if not any(str(resource.uri).startswith(_PREFAB) for resource in resources):
        return resources
    pages = await _pages(list_tools)
    uris = ((resource, str(resource.uri)) for resource in resources)
    return [resource for resource, uri in uris if not uri.startswith(_PREFAB) or uri in pages]


async def is_denied_page(uri: str, list_tools: ListTools) -> bool:
    """Whether a URI is the page of a denied tool."""
    return uri.startswith(_PREFAB) and uri not in await _pages(list_tools)


async def _pages(list_tools: ListTools) -> frozenset[str]:
    tools = await list_tools(run_middleware=False)
    uis = ((tool.meta or {}).get("ui") for tool in tools)
    return frozenset(str(ui.get("resourceUri")) for ui in uis if isinstance(ui, dict))


@cache
def _has_hook(middleware: Any, kind: ComponentKind) -> bool:
    """Whether a class of middleware has a hook for listings; the one that resolves references does not count."""
    hooks = ("__call__", "on_message", "on_request", f"on_{LISTING[kind]}")
    return middleware not in (DereferenceRefsMiddleware, KnownReferences) and any(
        getattr(middleware, hook, None) is not getattr(Middleware, hook) for hook in hooks
    )


class KnownReferences(DereferenceRefsMiddleware):
    """Resolves references in tools' schemas; a tool without any is scanned once, and not for every list."""

    def __init__(self) -> None:
        self._without_any: WeakValueDictionary[int, Tool] = WeakValueDictionary()

    async def on_list_tools(
        self, context: MiddlewareContext[mcp_types.ListToolsRequest], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        tools = await call_next(context)
        others = [tool for tool in tools if self._without_any.get(id(tool)) is not tool]
        if not others:
            return tools
        resolve = super().on_list_tools
        resolved = {id(tool): await self._whole(tool, context, resolve) for tool in others}
        self._without_any.update({id(tool): tool for tool in others if resolved[id(tool)] is tool})
        return [whole for tool in tools if (whole := resolved.get(id(tool), tool)) is not None]

    async def _whole(self, tool: Tool, context: Any, resolve: Callable[..., Awaitable[Sequence[Tool]]]) -> Tool | None:
        """Return a tool with references resolved: unchanged where that fails, None where FastMCP can't list it."""

        async def call_next(_: object) -> Sequence[Tool]:
            return [tool]

        whole = tool
        if not isinstance(tool, ForeignTool):  # another server resolves its own references
            with suppress(Exception):  # the others are listed all the same
                (whole,) = await resolve(context, call_next)
        return _listable(whole)


def _listable(tool: Tool) -> Tool | None:
    """Return a tool in a form that FastMCP can list, or None: one bad schema would fail the whole list."""
    for change in ({}, {"output_schema": None}):
        each = tool.model_copy(update=change) if change else tool
        with suppress(Exception):
            if isinstance(each.output_schema, dict | None) and each.to_mcp_tool(name=each.name):
                return each
    logger.warning("tool %r is left out of lists: its parameters are no schema", tool.name)
    return None


def is_response_cache(middleware: object) -> bool:
    """Whether middleware is FastMCP's response cache or a subclass; its module is not imported to find out."""
    module = sys.modules.get("fastmcp.server.middleware.caching")
    return module is not None and isinstance(middleware, module.ResponseCachingMiddleware)


def is_shown(kind: ComponentKind, component: Component, decision: Decision, *, is_foreign: bool) -> bool | None:
    """Return whether a component in a list from middleware may be shown; None where the decision does not cover it.

    Args:
        decision: the decision on what the server itself lists; it may have no component of this name.
        is_foreign: whether middleware answered by itself; then preferences are applied here too.
    """
    if isinstance(component, OwnTool):
        return True  # a feature's, in no catalog
    kept = decision.visible_places if is_foreign else decision.permitted_places
    places = decision.catalog.places_by_own_name.get(name_of(kind, component))
    if places is None:
        return None
    of_version = [i for i in places if decision.catalog.entries[i].version == component.version]
    return any(i in kept for i in of_version) if of_version else all(i in kept for i in places)


# -- errors in arguments, in one line for the model that called --------------------------------------------------------

_N_SHOWN = 5
_VALUE_LIMIT = 80
_MISSING = frozenset({"missing", "missing_argument", "missing_keyword_only_argument"})
_UNKNOWN = frozenset({"unexpected_keyword_argument", "extra_forbidden"})


def explain_arguments(tool: str, error: ValidationError, parameters: Collection[str]) -> str:
    """Return what is wrong with a call's arguments, without pydantic's layout and links."""
    errors = error.errors(include_url=False, include_context=False)
    problems = [_explained(entry, parameters) for entry in errors[:_N_SHOWN]]
    if len(errors) > _N_SHOWN:
        problems.append(f"and {len(errors) - _N_SHOWN} more")
    return f"wrong arguments for {tool}: {'; '.join(problems)}"


def _explained(entry: Any, parameters: Collection[str]) -> str:
    name = ".".join(map(str, entry["loc"]))
    if entry["type"] in _MISSING:
        return f"{name!r} is missing"
    if entry["type"] in _UNKNOWN and len(entry["loc"]) == 1:
        near = nearest(name, parameters)
        takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
        return f"there is no {name!r}, {f'did you mean {near!r}?' if near else takes}"
    value = repr(entry["input"])
    shown = value if len(value) <= _VALUE_LIMIT else value[: _VALUE_LIMIT - 1] + "…"
    return f"{name!r} is {shown}, {said_of(entry['msg'])}"
