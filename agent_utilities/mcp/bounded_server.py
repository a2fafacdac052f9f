"""A FastMCP server whose every listing and look-up is under one verdict, on every wire."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fastmcp.exceptions import NotFoundError, ValidationError
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.completions import CompletionHandler
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from pydantic import ValidationError as PydanticValidationError

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.fastmcp_internals import HostSeams, generation, look_up_resource
from agent_utilities.mcp.surface.argument_errors import explain_arguments
from agent_utilities.mcp.surface.components import Component
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import CollectingDecisions, verdict_in_force
from agent_utilities.mcp.surface.visibility_transform import DynamicVisibilityTransform

_C = TypeVar("_C", bound=Component)
_PREFAB = "ui://prefab/tool/"
_Generations = list[tuple[Provider, int | None]]
"""The providers of a server, each with the generation of what it holds."""


class BoundedServer(HostSeams):
    """Holds the verdict of the request, or with no request the operator's alone, on whatever FastMCP lists or finds.

    Args:
        surface: what decides.
        name, instructions, options: as for `FastMCP`.
    """

    surface: Surface

    def __init__(self, surface: Surface, name: str | None, instructions: str | None, **options: Any) -> None:
        self.surface = surface
        self._visibility = DynamicVisibilityTransform(surface, self.author_injected_tools)
        self._has_completions = False
        self._kept: tuple[_Generations, Sequence[Tool]] | None = None
        super().__init__(name, instructions, **options)

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take note of the catalog of a whole listing."""

    @property
    def middleware(self) -> list[Middleware]:
        """The author's FastMCP middleware; without a response cache for callers that select.

        A cache answers before any bound is held, and its keys know nothing of selections.
        """
        verdict = verdict_in_force()
        if verdict is None or not verdict.by_caller:
            return self._author_middleware
        return [
            middleware
            for middleware in self._author_middleware
            if type(middleware).__name__ != "ResponseCachingMiddleware"
        ]

    @middleware.setter
    def middleware(self, value: list[Middleware]) -> None:
        self._author_middleware = value

    @property
    def transforms(self) -> list[Transform]:
        """All transforms, the visibility transform outermost: it judges the names that callers see."""
        return [*super().transforms, self._visibility]

    # -- listing and reading ---------------------------------------------------------------------------------------

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the visible tools; see `FastMCP.list_tools`."""
        return await self._listing("tool", super().list_tools(run_middleware=run_middleware))

    async def kept_tools(self, list_them: Callable[[], Awaitable[Sequence[Tool]]]) -> Sequence[Tool]:
        """Return the providers' tools: those listed before, while every provider tells that nothing changed.

        A tuple, so that who reads it again and again may know it by its identity; transforms of an author, who may
        expect a list, are given one.
        """
        tools = await self._kept_tools(list_them)
        return list(tools) if super().transforms else tools

    async def _kept_tools(self, list_them: Callable[[], Awaitable[Sequence[Tool]]]) -> Sequence[Tool]:
        generations = [(provider, generation(provider)) for provider in self.providers]
        if self._kept is not None and self._kept[0] == generations:
            return self._kept[1]
        tools = tuple(await list_them())
        if all(number is not None for _, number in generations):
            self._kept = generations, tools
        return tools

    async def list_prompts(self, *, run_middleware: bool = True) -> Sequence[Prompt]:
        """Return the permitted prompts; see `FastMCP.list_prompts`."""
        return await self._listing("prompt", super().list_prompts(run_middleware=run_middleware))

    async def list_resources(self, *, run_middleware: bool = True) -> Sequence[Resource]:
        """Return the permitted resources; see `FastMCP.list_resources`."""
        with self.surface.under_verdict():
            listed = await self._listing("resource", super().list_resources(run_middleware=run_middleware))
            if not any(str(resource.uri).startswith(_PREFAB) for resource in listed):
                return listed
            pages = await self._prefab_uris()
            uris = ((resource, str(resource.uri)) for resource in listed)
            return [resource for resource, uri in uris if not uri.startswith(_PREFAB) or uri in pages]

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Sequence[ResourceTemplate]:
        """Return the permitted resource templates; see `FastMCP.list_resource_templates`."""
        return await self._listing("template", super().list_resource_templates(run_middleware=run_middleware))

    async def _listing(self, kind: ComponentKind, components: Awaitable[Sequence[_C]]) -> Sequence[_C]:
        """Await a listing under the verdict in force, and take its catalog for the server's."""
        with self.surface.under_verdict() as verdict, CollectingDecisions(verdict) as decisions:
            listed = await components
        if verdict.surface is self.surface and (decision := decisions.get(kind)) is not None:
            self.surface.catalogs[kind] = decision.catalog
            self.note_listed(kind, decision.catalog)
        return listed

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
            return await super().call_tool(name, arguments, version=version, run_middleware=run_middleware)
        except ValidationError as error:
            if not isinstance(wrong := error.__cause__, PydanticValidationError):
                raise
            tool = await self.get_tool(name, version=version)
            parameters = tool.parameters.get("properties", {}) if tool is not None else {}
            text = explain_arguments(name, wrong, parameters)
        # Not from pydantic's, so that a server that this one is mounted in leaves it as it is.
        raise ValidationError(text, log_level=logging.WARNING)

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

    def permits_injected(self, tool: Tool) -> bool:
        """Whether the current request may call a tool that the author's middleware injects."""
        return self.surface.permits("tool", tool)

    # -- completions -----------------------------------------------------------------------------------------------

    def add_completion_handler(self, handler: CompletionHandler) -> None:
        """Complete arguments of permitted prompts and resources; see `FastMCP.add_completion_handler`."""
        super().add_completion_handler(handler)
        self._has_completions = True

    async def may_complete(self, reference: Any) -> bool:
        """Whether a completion's reference is permitted; one that is not reads like one that never existed."""
        if not self._has_completions or not isinstance(reference, dict):
            return True
        if reference.get("type") == "ref/prompt":
            return await self.get_prompt(str(reference.get("name"))) is not None
        uri = str(reference.get("uri"))
        templates = await self.list_resource_templates(run_middleware=False)
        if any(template.uri_template == uri for template in templates):
            return True
        resource, exists = await look_up_resource(self, uri)
        if resource is None and not exists:
            return await self.get_resource_template(uri) is not None
        return resource is not None

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return the catalog of the last whole listing of a kind; one is made where there was none."""
        if kind not in self.surface.catalogs:
            await self.components(kind)
        return self.surface.catalogs.get(kind, Catalog())

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
