"""What holds for a call that enters a server in the middle of another request: the bounds of that one too (law L1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.resources.template import match_uri_template

from agent_utilities.catalog.model import KINDS, ComponentKind
from agent_utilities.mcp.fastmcp_internals import mounted_server
from agent_utilities.mcp.request import Entered, Request
from agent_utilities.mcp.surface.components import Component, name_of
from agent_utilities.mcp.surface.surface import Surface, UnderVerdict, is_looking_up
from agent_utilities.selection.merge import Within
from agent_utilities.selection.model import fold

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_KINDS: dict[str, tuple[ComponentKind, ...]] = {
    "tools": ("tool",),
    "prompts": ("prompt",),
    "resources": ("resource", "template"),
}
"""The kinds of components that a method may be about, by its first part; any other may be about all of them."""
_KEYS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_GET: dict[ComponentKind, str] = {
    "tool": "get_tool",
    "prompt": "get_prompt",
    "resource": "get_resource",
    "template": "get_resource_template",
}
_TOLD = ("fastmcp.delegate.original_", "fastmcp.proxy.backend_")
"""How the attributes begin by which a component of another server tells FastMCP's spans its name there."""

_Step = tuple[FastMCP[Any] | None, str]


async def bounds_of(
    outer: Request, host: AgentServer, alone: UnderVerdict, method: str, params: Mapping[str, Any]
) -> tuple[Within, ...]:
    """Return what the request in force, and those that it is made in, take away from one that enters a server.

    Nothing where it is what a proxy does to serve that request: what comes of it is judged by the name that the caller
    knows it by.

    Args:
        host: the server that is entered.
        alone: has in force what holds there by itself.
        method, params: what it is entered with.
    """
    if (method.endswith("/list") and is_looking_up()) or await _is_of_proxy(outer, method, params):
        return ()
    kinds = _KINDS.get(method.partition("/")[0], KINDS)
    return tuple([await _within(each, host, alone, kinds) for each in outer.entered])


async def _within(entered: Entered, host: AgentServer, alone: UnderVerdict, kinds: tuple[ComponentKind, ...]) -> Within:
    """Return what one server that was entered before takes away, by its names and by those of the server entered now.

    A name that a proxy leads to may be any server's: it denies there, and permits nowhere.
    """
    bounds, permitted, denied = entered.alone.bounds_only, set[str](), set[str]()
    if entered.host is host:
        return Within(bounds)
    for kind in kinds:
        with UnderVerdict(entered.verdict):
            catalog = await entered.host.catalog(kind)
            decision = await entered.host.surface.decide_in_turns(kind, catalog, entered.verdict)
        for i, component in enumerate(entered.host.surface.components_of(kind, catalog)):
            for server, name in await _leading(kind, component):
                if i not in decision.permitted_places and server in (host, None):
                    denied.add(fold(name))
                elif server is host:
                    permitted.add(fold(name))
        with alone:  # what was entered before may be mounted in this one: it holds its own bounds again by itself
            catalog = await host.catalog(kind)
        for component in host.surface.components_of(kind, catalog):
            if any(server is entered.host for server, _ in await _leading(kind, component)):
                permitted.add(fold(name_of(kind, component)))
    return Within(bounds, frozenset(permitted), frozenset(denied))


async def _is_of_proxy(outer: Request, method: str, params: Mapping[str, Any]) -> bool:
    """Whether a request is made by the proxy that serves the one in force, for it."""
    key, host = _KEYS.get(outer.method), outer.entered[-1].host
    if key is None or (method != outer.method and not method.endswith("/list")):
        return False
    asked, name = str(outer.params.get(key)), str(params.get(key))
    for kind in _KINDS[method.partition("/")[0]]:
        component = await getattr(host, _GET[kind])(asked)
        for server, there in await _leading(kind, component):
            if server is None and (method != outer.method or match_uri_template(name, there) is not None):
                return True
    return False


async def _leading(kind: ComponentKind, component: Component | None) -> list[_Step]:
    """Return the servers that a component leads to, each with its name there; None for one that a proxy leads to."""
    steps: list[_Step] = []
    with UnderVerdict(Surface.unbounded_everywhere()):
        while component is not None:
            component = getattr(component, "parent_tool", component)  # what a transformed tool was made of
            told = component.get_span_attributes()
            there = next((str(name) for key, name in told.items() if key.startswith(_TOLD)), None)
            if there is None:
                break
            server = mounted_server(component)
            steps.append((server, there))
            component = None if server is None else await getattr(server, _GET[kind])(there)
    return steps
