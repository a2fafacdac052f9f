"""What holds for a call that enters a server in the middle of another request: the bounds of that one too (law L1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.resources.template import match_uri_template

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.mcp.fastmcp_internals import mounted_server
from agent_utilities.mcp.request import Entered, Request
from agent_utilities.mcp.surface.components import Component, name_of
from agent_utilities.mcp.surface.surface import Surface, UnderVerdict, Verdict, is_looking_up
from agent_utilities.selection.merge import Within
from agent_utilities.selection.model import fold

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
