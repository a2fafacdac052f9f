"""The transform that enforces the verdict on every listing and every lookup."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import TypeVar

from fastmcp.exceptions import AuthorizationError
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server import transforms
from fastmcp.server.auth import AccessToken, AuthContext, run_auth_checks
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.transforms import Transform
from fastmcp.server.transforms.visibility import is_enabled
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import VersionSpec, parse_version_key

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat.fastmcp_server import is_over_stdio
from agent_utilities.seam.components import Component
from agent_utilities.server.surface.surface import MANY, Surface

_C = TypeVar("_C", bound=Component)
_Next = Callable[..., Awaitable[_C | None]]
_BY_NAME: tuple[ComponentKind, ...] = ("tool", "prompt")
_ABSENT = f"-{token_hex(8)}"
"""Makes a name one that no component bears, in the same namespace."""


class DynamicVisibilityTransform(Transform):
    """Lists what is visible and serves what is permitted (law L1).

    It must be the outermost transform, so that it judges the names callers see. It parses nothing: the request's
    verdict is set before it runs; with no request, at start-up, the operator's selection alone holds.

    Args:
        surface: the surface that decides.
        injected: returns the tools that `ToolInjectionMiddleware` adds: they are of the catalog too.
        own_tool: returns a feature's own tool of a name for the present caller, or None.
    """

    def __init__(
        self,
        surface: Surface,
        injected: Callable[[], Sequence[Tool]],
        own_tool: Callable[[str], Awaitable[Tool | None]],
    ) -> None:
        self._surface = surface
        self._injected = injected
        self._own_tool = own_tool

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return the visible tools."""
        if injected := self._injected():
            injected_names = {tool.name for tool in injected}
            tools = [*injected, *(tool for tool in tools if tool.name not in injected_names)]
        return await self._shown("tool", tools)

    async def list_prompts(self, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
        """Return the permitted prompts."""
        return await self._shown("prompt", prompts)

    async def list_resources(self, resources: Sequence[Resource]) -> Sequence[Resource]:
        """Return the permitted resources."""
        return await self._shown("resource", resources)

    async def list_resource_templates(self, templates: Sequence[ResourceTemplate]) -> Sequence[ResourceTemplate]:
        """Return the permitted resource templates."""
        return await self._shown("template", templates)

    async def get_tool(
        self, name: str, call_next: transforms.GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        """Return a tool if it is permitted, visible or not."""
        tool = await self._permitted("tool", name, call_next, version)
        return await self._own_tool(name) if tool is None else tool

    async def get_prompt(
        self, name: str, call_next: transforms.GetPromptNext, *, version: VersionSpec | None = None
    ) -> Prompt | None:
        """Return a prompt if it is permitted."""
        return await self._permitted("prompt", name, call_next, version)

    async def get_resource(
        self, uri: str, call_next: transforms.GetResourceNext, *, version: VersionSpec | None = None
    ) -> Resource | None:
        """Return a resource if it is permitted.

        Raises:
            AuthorizationError: it exists and is denied; FastMCP then answers as for an unknown one, and no template
                is tried for its URI.
        """
        return await self._permitted("resource", uri, call_next, version)

    async def get_resource_template(
        self, uri: str, call_next: transforms.GetResourceTemplateNext, *, version: VersionSpec | None = None
    ) -> ResourceTemplate | None:
        """Return the template that serves a URI if it is permitted."""
        return await self._permitted("template", uri, call_next, version)

    async def _shown(self, kind: ComponentKind, components: Sequence[_C]) -> Sequence[_C]:
        with self._surface.under_verdict() as verdict:
            read = await self._surface.read(kind, components)
            if read.is_guarded:
                components = await admitted(components)
                read = await self._surface.read(kind, components)
            disabled: list[_C] = []
            if read.has_disabled:
                # They are in nobody's catalog; a session may enable them yet, after all transforms.
                disabled = [each for each in components if not is_enabled(each) and self._surface.permits(kind, each)]
                components = [each for each in components if is_enabled(each)]
            shown = await self._surface.shown(kind, components, verdict)
        if len(shown) > MANY:
            await asyncio.sleep(0)
        return [*shown, *disabled] if disabled else shown

    async def _permitted(
        self, kind: ComponentKind, name: str, call_next: _Next[_C], version: VersionSpec | None
    ) -> _C | None:
        """Resolve a component, then judge it: the highest permitted version answers, as in the listing."""
        version = None if version == VersionSpec() else version  # so FastMCP asks for what has none
        with self._surface.under_verdict(looks_up=True) as verdict:
            if not self._surface.own(verdict).bounds.rules:
                return await call_next(name, version=version)
            if kind in _BY_NAME and await self._surface.is_known_denied(kind, name, verdict):
                # Looked up as a name that never was: what is done for both takes as long.
                await call_next(name + _ABSENT, version=version)
                return None
            component = resolved = await call_next(name, version=version)
            if component is not None and component.version is None and version is not None:
                # It would pass the version on to a server behind it, which may resolve another component.
                component = None
            while component is not None and not self._surface.permits(kind, component):
                component = await _lower(name, component.version, call_next, version)
        if component is None and resolved is not None and kind == "resource":
            raise AuthorizationError(f"Unknown resource: {name!r}")
        return component


async def _lower(name: str, version: str | None, call_next: _Next[_C], wanted: VersionSpec | None) -> _C | None:
    """Return the highest version below one that was refused, or None; never one without a version, which is any."""
    if version is None or (wanted is not None and wanted.eq is not None):
        return None
    below = VersionSpec(gte=wanted.gte if wanted is not None else None, lt=version)
    component = await call_next(name, version=below)
    if component is None or component.version is None:
        return None
    return component if parse_version_key(component.version) < parse_version_key(version) else None


async def admitted(components: Sequence[_C]) -> Sequence[_C]:
    """Return the components whose own `auth` check admits the caller.

    FastMCP drops the others after the transforms; judged before, they count nowhere and their names stay unknown.
    """
    if is_over_stdio():
        return components
    token = get_access_token()
    return [component for component in components if component.auth is None or await _admits(component, token)]


async def _admits(component: Component, token: AccessToken | None) -> bool:
    assert component.auth is not None
    try:
        return await run_auth_checks(component.auth, AuthContext(token=token, component=component))
    except AuthorizationError:
        return False
