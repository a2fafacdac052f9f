"""What holds for a call that enters a server in the middle of another request: the bounds of that one too (law L1)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from fastmcp import FastMCP
from fastmcp.resources.template import match_uri_template
from fastmcp.server.dependencies import get_access_token
from pydantic import TypeAdapter

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.mcp.fastmcp_internals import mounted_server
from agent_utilities.mcp.feature import BoundError
from agent_utilities.mcp.request import Entered, Request
from agent_utilities.mcp.sessions import of_token
from agent_utilities.mcp.surface.components import Component, name_of
from agent_utilities.mcp.surface.surface import Surface, UnderVerdict, Verdict, is_looking_up
from agent_utilities.selection.merge import Effective, Within
from agent_utilities.selection.model import NOTHING, fold
from agent_utilities.visibility.bounds import Bounds

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_GET: dict[ComponentKind, str] = {
    "tool": "get_tool",
    "prompt": "get_prompt",
    "resource": "get_resource",
    "template": "get_resource_template",
}
_TOLD = ("fastmcp.delegate.original_", "fastmcp.proxy.backend_")
"""How the attributes begin by which a component of another server tells FastMCP's spans its name there."""


async def bounds_of(
    outer: Request, host: AgentServer, alone: Verdict, method: str, params: Mapping[str, Any]
) -> tuple[Within, ...]:
    """Return what the request in force, and those that it is made in, take away from one that enters a server.

    Nothing where it is a proxy's, to serve that request: what comes of it is judged by the name that the caller knows.

    Args:
        host: the server that is entered.
        alone: what holds there by itself.
        method, params: what it is entered with.
    """
    is_list = method.endswith("/list")
    if (is_list and is_looking_up()) or await _is_of_proxy(outer, method, None if is_list else params):
        return ()
    kinds = _kinds_of(method) or KINDS
    return tuple([await _within(each, host, alone, kinds) for each in outer.entered])


def _kinds_of(method: str) -> Sequence[ComponentKind]:
    return [kind for kind in KINDS if method.startswith("resource" if kind == "template" else kind)]


async def _within(entered: Entered, host: AgentServer, alone: Verdict, kinds: Sequence[ComponentKind]) -> Within:
    """Return what a server that was entered before takes away, by its own names and by those of another.

    A name that a proxy leads to may be any server's: it denies there, and permits nowhere.
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
        # It may be mounted in this one: it holds its own bounds again by itself.
        for component in (await _listed(host, kind, alone))[1]:
            if any(server is entered.host for server, _ in await _leading(kind, component)):
                permitted.add(fold(name_of(kind, component)))
    return Within(entered.alone.bounds_only, frozenset(permitted), frozenset(denied))


async def _listed(host: AgentServer, kind: ComponentKind, verdict: Verdict) -> tuple[Catalog, Sequence[Component]]:
    with UnderVerdict(verdict):
        catalog = await host.catalog(kind)
    return catalog, host.surface.components_of(kind, catalog)


async def _is_of_proxy(outer: Request, method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether a request is made by the proxy that serves the one in force, for it: a list where it has no params."""
    key = "uri" if outer.method == "resources/read" else "name"
    if key not in outer.params or (params is not None and method != outer.method):
        return False
    for kind in _kinds_of(outer.method):
        component = await getattr(outer.entered[-1].host, _GET[kind])(str(outer.params[key]))
        for server, name in await _leading(kind, component):
            if server is None and (params is None or match_uri_template(str(params.get(key)), name) is not None):
                return True
    return False


async def _leading(kind: ComponentKind, component: Component | None) -> list[tuple[FastMCP[Any] | None, str]]:
    """Return the servers that a component leads to, each with its name there; None for one that a proxy leads to."""
    steps = []
    with UnderVerdict(Surface.unbounded_everywhere()):
        while component is not None:
            component = getattr(component, "parent_tool", component)  # what a transformed tool was made of
            told = component.get_span_attributes()
            if (name := next((told[key] for key in told if key.startswith(_TOLD)), None)) is None:
                break
            steps.append((server := mounted_server(component), str(name)))
            component = None if server is None else await getattr(server, _GET[kind])(name)
    return steps


# -- background tasks: their worker, maybe of another process, has no request in force ---------------------------------

_DAY_MS = 86_400_000
_TRIES, _TRY_S = 100, 0.05
"""How often, and how far apart, a task looks for its bounds: it may run before it is known to have been started."""


def _task_key(docket: Any, task_id: str) -> str:
    return str(docket.key(f"agent-utilities:bounds:{task_id}"))


async def keep_for_task(host: AgentServer, request: Request, result: Mapping[str, Any]) -> None:
    """Keep what bounds a request with the background task that it has started, if any, where the task looks."""
    if (docket := host.docket) is not None and isinstance(task_id := result.get("taskId"), str):
        bounds = TypeAdapter(Effective).dump_json(request.verdict.effective.bounds_only)
        async with docket.redis() as redis:
            await redis.set(_task_key(docket, task_id), bounds, px=(result.get("ttlMs") or 0) + _DAY_MS)


async def request_of_task(host: AgentServer) -> Request | None:
    """Return the request that has started the background task that enters a server; None where no task does.

    Raises:
        BoundError: what bounds it is not known.
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
    raise BoundError("the bounds of this background task's caller are not known, so nothing is permitted")
