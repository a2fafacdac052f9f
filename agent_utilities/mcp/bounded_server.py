"""A FastMCP server whose every listing and look-up is under one verdict, on every wire."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fastmcp.exceptions import NotFoundError, ValidationError
from fastmcp.prompts.base import Prompt, PromptResult
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

from agent_utilities.catalog.model import Catalog, ComponentKind, entry
from agent_utilities.mcp.fastmcp_internals import HostSeams, as_over_stdio, generation, look_up_resource, tool_of_task
from agent_utilities.mcp.surface.argument_errors import explain_arguments
from agent_utilities.mcp.surface.components import Component, entry_of, name_of
from agent_utilities.mcp.surface.foreign_answers import Core, is_response_cache, is_shown, may_answer_lists
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import CollectingDecisions, Verdict, verdict_in_force
from agent_utilities.mcp.surface.visibility_transform import DynamicVisibilityTransform
from agent_utilities.mcp.upstreams.relayed_error import relayed
from agent_utilities.visibility.decision import Decision

_A = TypeVar("_A")
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
        self._visibility = DynamicVisibilityTransform(surface, self.author_injected_tools, self.entry_tool)
        self._has_completions = False
        self._kept: tuple[_Generations, Sequence[Tool]] | None = None
        super().__init__(name, instructions, **options)

    async def entry_tool(self, name: str) -> Tool | None:
        """Return a tool by which the present caller gets at deferred ones, or None."""
        return None

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take note of the catalog of a whole listing."""

    @property
    def middleware(self) -> list[Middleware]:
        """The author's FastMCP middleware; without a response cache where callers select, or tools are deferred.

        Its keys know nothing of selections and sessions: it would answer one caller with another's list.
        """
        verdict = verdict_in_force()
        if verdict is None or not (verdict.by_caller or verdict.preferences.deferral.over is not None):
            return self._author_middleware
        return [middleware for middleware in self._author_middleware if not is_response_cache(middleware)]

    @middleware.setter
    def middleware(self, value: list[Middleware]) -> None:
        self._author_middleware = value

    @property
    def transforms(self) -> list[Transform]:
        """All transforms, the visibility transform outermost: it judges the names that callers see."""
        return [*super().transforms, self._visibility]

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the visible tools; see `FastMCP.list_tools`."""
        return await self._listing("tool", super().list_tools(run_middleware=run_middleware), run_middleware)

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
        return await self._listing("prompt", super().list_prompts(run_middleware=run_middleware), run_middleware)

    async def list_resources(self, *, run_middleware: bool = True) -> Sequence[Resource]:
        """Return the permitted resources; see `FastMCP.list_resources`."""
        with self.surface.under_verdict():
            listed = await self._listing(
                "resource", super().list_resources(run_middleware=run_middleware), run_middleware
            )
            if not any(str(resource.uri).startswith(_PREFAB) for resource in listed):
                return listed
            pages = await self._prefab_uris()
            uris = ((resource, str(resource.uri)) for resource in listed)
            return [resource for resource, uri in uris if not uri.startswith(_PREFAB) or uri in pages]

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Sequence[ResourceTemplate]:
        """Return the permitted resource templates; see `FastMCP.list_resource_templates`."""
        return await self._listing(
            "template", super().list_resource_templates(run_middleware=run_middleware), run_middleware
        )

    async def _listing(
        self, kind: ComponentKind, components: Awaitable[Sequence[_C]], run_middleware: bool
    ) -> Sequence[_C]:
        """Await a listing under the verdict in force, and take its catalog for what the caller is listed."""
        with self.surface.under_verdict() as verdict:
            with CollectingDecisions(own := self.surface.own(verdict)) as decisions:
                listed = await components
                if run_middleware and any(may_answer_lists(each, kind) for each in self.middleware):
                    listed = await self._cut(kind, listed, decisions, own)
        if own is verdict and (decision := decisions.get(kind)) is not None:
            self.surface.catalogs.keep(kind, decision.catalog)
            self.note_listed(kind, decision.catalog)
        return listed

    async def _cut(
        self, kind: ComponentKind, listed: Sequence[_C], decisions: dict[ComponentKind, Decision], own: Verdict
    ) -> Sequence[_C]:
        """Return what of a list may be shown that the author's middleware may have answered or added to (law L1)."""
        if is_foreign := kind not in decisions:
            await self.components(kind)
        shown: list[_C] = []
        for component in listed:
            may_be_shown = is_shown(kind, component, decisions[kind], is_foreign=is_foreign)
            if may_be_shown is None and own.bounds.refusal(entry_of(kind, component)) is None:
                may_be_shown = not await self._exists(kind, name_of(kind, component))
            if may_be_shown:
                shown.append(component)
        return listed if len(shown) == len(listed) else shown

    async def read_resource(
        self, uri: str, *, version: VersionSpec | None = None, run_middleware: bool = True
    ) -> ResourceResult:
        """Read a permitted resource; see `FastMCP.read_resource`."""
        with self.surface.under_verdict():
            if uri.startswith(_PREFAB) and uri not in await self._prefab_uris():
                raise NotFoundError(f"Unknown resource: {uri!r}")
            answer = super().read_resource(uri, version=version, run_middleware=run_middleware)
            return await self._answer("resource", uri, version, answer, run_middleware)

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
            answer = super().call_tool(name, arguments, version=version, run_middleware=run_middleware)
            return await self._answer("tool", name, version, answer, run_middleware)
        except ValidationError as error:
            if not isinstance(wrong := error.__cause__, PydanticValidationError):
                raise
            tool = await self.get_tool(name, version=version)
            parameters = tool.parameters.get("properties", {}) if tool is not None else {}
            text = explain_arguments(name, wrong, parameters)
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
        answer = super().render_prompt(name, arguments, version=version, run_middleware=run_middleware)
        return await self._answer("prompt", name, version, answer, run_middleware)

    async def _answer(
        self, kind: ComponentKind, name: str, version: VersionSpec | None, answer: Awaitable[_A], run_middleware: bool
    ) -> _A:
        """Await an answer, and pass it on where this server gave it, or may have: the rest is middleware's (law L1).

        Raises:
            NotFoundError: middleware answered for a component that is denied.
        """
        if not run_middleware:
            result = await relayed(answer)
            Core.answered()
            return result
        with self.surface.under_verdict() as verdict, Core() as core:
            result = await relayed(answer)
            if core.has_answered or await self._has(kind, name, version):
                return result
            refusal = self.surface.own(verdict).bounds.refusal(entry(kind, name))
            if refusal is not None or await self._exists(kind, name, version):
                raise NotFoundError(f"Unknown {kind}: {name!r}")
            return result  # Middleware alone has the name.

    async def _has(self, kind: ComponentKind, name: str, version: VersionSpec | None = None) -> bool:
        """Whether the present caller may use a component."""
        match kind:
            case "tool":
                return await self.get_tool(name, version) is not None
            case "prompt":
                return await self.get_prompt(name, version) is not None
            case _:
                return await self.may_read(name)

    async def _exists(self, kind: ComponentKind, name: str, version: VersionSpec | None = None) -> bool:
        """Whether a provider has a component, whoever may use it."""
        with self.surface.under_verdict(self.surface.unbounded()), as_over_stdio():
            return await self._has(kind, name, version)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return the task-enabled components that the operator permits; see `FastMCP.get_tasks`."""
        with self.surface.under_verdict():
            return await super().get_tasks()

    async def may_use_task(self, task_id: str) -> bool:
        """Whether the present caller may use the tool that a task runs, or there is no such task of his to tell of."""
        tool = await tool_of_task(self, task_id)
        return tool is None or await self._has("tool", *tool)

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
        return await self.may_read(uri)

    async def may_read(self, uri: str) -> bool:
        """Whether the present caller may read a resource, listed or a template's."""
        with self.surface.under_verdict():
            resource, exists = await look_up_resource(self, uri)
            if resource is None and not exists:
                return await self.get_resource_template(uri) is not None
            return resource is not None

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return what the present caller was last listed of a kind; he is listed it where that is not known."""
        if (catalog := self.surface.catalogs.of_caller(kind)) is None:
            await self.components(kind)
            catalog = self.surface.catalogs.of_caller(kind)
        return Catalog() if catalog is None else catalog

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
