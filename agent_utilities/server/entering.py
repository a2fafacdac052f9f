"""The bounds of a request that enters a server, by itself or within another request."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types
from fastmcp import FastMCP
from fastmcp.resources.template import match_uri_template
from fastmcp.server.dependencies import get_access_token
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.compat.fastmcp_server import mounted_server
from agent_utilities.policy.bounds import Bounds
from agent_utilities.seam.caller import of_token
from agent_utilities.seam.components import Component, name_of
from agent_utilities.seam.request import TOOL_OF_TASK, Entered, Request
from agent_utilities.seam.verdict import UnderVerdict, Verdict, is_looking_up
from agent_utilities.selection.merge import Effective, Narrowings, Within
from agent_utilities.selection.model import NOTHING, fold
from agent_utilities.server.surface.surface import Surface

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

_GET: dict[ComponentKind, str] = {
    "tool": "get_tool",
    "prompt": "get_prompt",
    "resource": "get_resource",
    "template": "get_resource_template",
}
_NAME_THERE = ("fastmcp.delegate.original_", "fastmcp.proxy.backend_")
"""Prefixes of the span attributes that have the name of another server's component there."""


async def entering(
    host: AgentServer, request: Request, narrowings: Narrowings | None, outer: Request | None
) -> Request:
    """Return a request as it enters a server: narrowed by features, and by the enclosing request's bounds."""
    surface, selection, lists = host.surface, request.selection, request.verdict.shapes_lists
    verdict = request.verdict
    if narrowings is not None:
        verdict = surface.verdict(selection, shapes_lists=lists, narrowings=narrowings)
    alone, before = verdict, () if outer is None else outer.entered
    if outer is not None:
        within = await bounds_of(outer, host, alone, request.method or "tools/list", request.params)
        narrowings = (*(host.features.bounds_for(selection) if narrowings is None else narrowings), *within)
        verdict = surface.verdict(selection, shapes_lists=lists, narrowings=narrowings)
        verdict = replace(verdict, outer=tuple(each.verdict for each in before))
    entered = (*before, Entered(host, verdict.bounds_alone, alone.effective))
    return replace(request, verdict=verdict, entered=entered)


async def bounds_of(
    outer: Request, host: AgentServer, alone: Verdict, method: str, params: Mapping[str, Any]
) -> tuple[Within, ...]:
    """Return the bounds that the request in force, and those around it, put on a request that enters a server.

    There are none for a proxy's request that serves the outer one: its result is judged by the name the caller knows.

    Args:
        host: the server that is entered.
        alone: the verdict that holds there by itself.
        method, params: those of the request that enters it.
    """
    is_list = method.endswith("/list")
    if is_looking_up() and (is_list or not _kinds_of(method)):  # a proxy's client greets before it lists
        return ()
    if await _is_of_proxy(outer, method, None if is_list else params):
        return ()
    kinds = _kinds_of(method) or KINDS
    return tuple([await _within(each, host, alone, kinds) for each in outer.entered])


def _kinds_of(method: str) -> Sequence[ComponentKind]:
    return [kind for kind in KINDS if method.startswith("resource" if kind == "template" else kind)]


async def _within(entered: Entered, host: AgentServer, alone: Verdict, kinds: Sequence[ComponentKind]) -> Within:
    """Return the bounds of a server that was entered before, by its own names and by those of the next one.

    A name behind a proxy may be any server's: it denies there, and permits nowhere.
    """
    permitted, denied = set[str](), set[str]()
    for kind in kinds if entered.host is not host else ():
        catalog, components = await _listed(entered.host, kind, entered.verdict)
        decision = await entered.host.surface.decide_in_turns(kind, catalog, entered.verdict)
        for i, component in enumerate(components):
            for server, name in await _leading(kind, component):
                if server is host and i in decision.permitted_places:
                    permitted.add(fold(name))
                elif server in (host, None) and i not in decision.permitted_places:
                    denied.add(fold(name))
        # That server may be mounted in this one; then it enforces its own bounds again.
        for component in (await _listed(host, kind, alone))[1]:
            if any(server is entered.host for server, _ in await _leading(kind, component)):
                permitted.add(fold(name_of(kind, component)))
    return Within(entered.alone.bounds_only, frozenset(permitted), frozenset(denied))


async def _listed(host: AgentServer, kind: ComponentKind, verdict: Verdict) -> tuple[Catalog, Sequence[Component]]:
    with UnderVerdict(verdict, looks_up=True):
        catalog = await host.catalog(kind)
    return catalog, host.surface.components_of(kind, catalog)


async def _is_of_proxy(outer: Request, method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether a request is the one by which a proxy serves the outer request; it is a list where `params` is None."""
    key = "uri" if outer.method == "resources/read" else "name"
    if key not in outer.params or (params is not None and method != outer.method):
        return False
    for kind in _kinds_of(outer.method):
        with UnderVerdict(outer.verdict, looks_up=True):
            component = await getattr(outer.entered[-1].host, _GET[kind])(str(outer.params[key]))
        for server, name in await _leading(kind, component):
            wanted = name if params is None else str(params.get(key))
            if server is None and (wanted == name or match_uri_template(wanted, name) is not None):
                return True
    return False


async def _leading(kind: ComponentKind, component: Component | None) -> list[tuple[FastMCP[Any] | None, str]]:
    """Return the servers behind a component, each with the component's name there; None for one behind a proxy."""
    steps = []
    with UnderVerdict(Surface.unbounded_everywhere(), looks_up=True):
        while component is not None:
            component = getattr(component, "parent_tool", component)  # what a transformed tool was made of
            attributes = component.get_span_attributes()
            if (name := next((attributes[key] for key in attributes if key.startswith(_NAME_THERE)), None)) is None:
                break
            steps.append((server := mounted_server(component), str(name)))
            component = None if server is None else await getattr(server, _GET[kind])(name)
    return steps


# -- background tasks: their worker, maybe in another process, has no request in force ---------------------------------

_DAY_MS = 86_400_000
_TRIES, _TRY_S = 100, 0.05
"""Attempts, and seconds between them, to read a task's bounds: it may run before they are stored."""


def _task_key(docket: Any, task_id: str) -> str:
    return str(docket.key(f"agent-utilities:bounds:{task_id}"))


async def keep_for_task(host: AgentServer, request: Request, result: Mapping[str, Any]) -> None:
    """Store the bounds of a request for the background task that it has started, if any."""
    is_own = result.get("resultType") == "task" and TOOL_OF_TASK not in request.values
    if is_own and (docket := host.docket) is not None and isinstance(task_id := result.get("taskId"), str):
        bounds = TypeAdapter(Effective).dump_json(request.verdict.effective.bounds_only)
        async with docket.redis() as redis:
            await redis.set(_task_key(docket, task_id), bounds, px=(result.get("ttlMs") or 0) + _DAY_MS)


async def request_of_task(host: AgentServer) -> Request | None:
    """Return the request that started the present background task, with its stored bounds; None outside a task.

    Raises:
        MCPError: its bounds are not known.
    """
    tasks = sys.modules.get("fastmcp_tasks.context")
    if tasks is None or (task := tasks.get_task_context()) is None:
        return None
    from docket.dependencies import current_docket

    docket, token = current_docket.get(), get_access_token()
    for _ in range(_TRIES):
        async with docket.redis() as redis:
            kept = await redis.get(_task_key(docket, task.task_id))
        if kept is not None:
            bounds = TypeAdapter(Effective).validate_json(kept)
            verdict = Verdict(host.surface, bounds, Bounds(bounds))
            caller = None if token is None else of_token(token)
            return Request(NOTHING, verdict, caller=caller, entered=(Entered(host, verdict, bounds),))
        await anyio.sleep(_TRY_S)
    raise MCPError(mcp_types.INTERNAL_ERROR, "the bounds of this background task are not known: nothing is permitted")
