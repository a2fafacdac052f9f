"""The components of all upstreams as one provider: listed from snapshots, called through connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import mcp_types
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.features.upstreams.components import (
    OfUpstream,
    UpstreamPrompt,
    UpstreamTemplate,
    UpstreamTool,
)
from agent_utilities.features.upstreams.union import Denials, Instructions, Union, Unions, no_denials
from agent_utilities.features.upstreams.waiting import WaitingCalls
from agent_utilities.mcp.kept_provider import KeptProvider
from agent_utilities.mcp.surface.components import entry_of
from agent_utilities.runtime.waiting import finish_in_turns
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.visibility.bounds import Bounds, finish

logger = logging.getLogger("agent_utilities.gateway")

_C = TypeVar("_C", bound=FastMCPComponent)

_AT_ONCE = 1_000
"""More components than are looked at without a turn for the event loop: 10 ms."""


class UpstreamProvider(KeptProvider):
    """Lists what the upstreams' snapshots have, and calls it where they are.

    Args:
        upstreams: the gateway's upstreams; those that are disabled are passed over.
        denials: tells what the operator denies; nothing by default.
    """

    def __init__(self, upstreams: Iterable[Upstream], denials: Denials = no_denials) -> None:
        super().__init__()
        self._upstreams = upstreams
        self.waiting = WaitingCalls()
        """Calls whose callers are asked in results."""
        self._unions = Unions(denials, self.waiting)
        self._union = Union()
        self._renewing: asyncio.Task[None] | None = None
        self._is_outdated, self._is_taking = asyncio.Event(), False
        self._is_taken = asyncio.Event()
        self._take(finish(self._unions.making(list(upstreams))))

    def renew(self, upstream: str | None = None) -> None:
        """Take what the upstreams list now, and tell of what has changed: what `Upstreams` calls as `on_change`.

        Where they list much, it is taken in turns with the event loop, and listed in a moment (law L7).

        Args:
            upstream: the name of the one that changed.
        """
        upstreams = list(self._upstreams)
        if self._renewing is not None and (self._is_taking or sum(map(_n_listed, upstreams)) > _AT_ONCE):
            self._is_outdated.set()
            self._is_taken.clear()
        else:
            self._take(finish(self._unions.making(upstreams)))

    async def _renew_in_turns(self) -> None:
        while True:
            await self._is_outdated.wait()
            self._is_outdated.clear()
            self._is_taking = True
            try:
                self._take(await finish_in_turns(self._unions.making(list(self._upstreams))))
            except Exception:
                logger.exception("what upstreams list could not be taken; what they listed before is still listed")
            finally:
                self._is_taking = False
                if not self._is_outdated.is_set():
                    self._is_taken.set()

    async def taken(self) -> None:
        """Return once all is listed that upstreams are known to have."""
        if self._renewing is not None and (self._is_taking or self._is_outdated.is_set()):
            await self._is_taken.wait()

    def _take(self, union: Union) -> None:
        changed = union.changed_lists(self._union)
        self._union = union
        self._tools = tuple(union.tools.values())
        self._prompts = tuple(union.prompts.values())
        self._resources = tuple(union.resources.values())
        self._templates = tuple(union.templates.values())
        if changed:
            self.tell(changed)

    def prefix_of(self, upstream: str) -> str:
        """Return what the names of an upstream's tools and prompts begin with."""
        return f"{self._union.prefixes.get(upstream, upstream)}_"

    def upstreams_of(self, bounds: Bounds) -> dict[str, int]:
        """Return the names of the upstreams of which bounds permit anything, each with how many of its tools."""
        lists: tuple[tuple[ComponentKind, Sequence[Any]], ...] = (
            ("tool", self._tools),
            ("prompt", self._prompts),
            ("resource", self._resources),
            ("template", self._templates),
        )
        found: dict[str, int] = {}
        for kind, components in lists:
            for component in components:
                name = component.caller.config.name
                if (kind == "tool" or name not in found) and bounds.refusal(entry_of(kind, component)) is None:
                    found[name] = found.get(name, 0) + (kind == "tool")
        return found

    def tools(self) -> Sequence[UpstreamTool]:
        """Return every tool, whoever may use it."""
        return tuple(self._union.tools.values())

    def tools_of_capabilities(self) -> dict[str, list[UpstreamTool]]:
        """Return the tools of the upstreams that capabilities brought along, by upstream."""
        found: dict[str, list[UpstreamTool]] = {}
        for tool in self._union.tools.values():
            if tool.capabilities is not None:
                found.setdefault(tool.caller.config.name, []).append(tool)
        return found

    @property
    def notices(self) -> tuple[str, ...]:
        """A line for each component that bears another name than its own, or is left out."""
        return self._union.notices

    def instructions(self, permitted: Iterable[object]) -> Sequence[Instructions]:
        """Return what upstreams say of themselves.

        Args:
            permitted: what the caller may use: an upstream is told of where any of that is its.
        """
        usable = {each.caller.config.name for each in permitted if isinstance(each, OfUpstream)}
        return self._unions.instructions(usable)

    async def _list_tools(self) -> Sequence[Tool]:
        return self._tools

    async def _list_prompts(self) -> Sequence[Prompt]:
        return self._prompts

    async def _list_resources(self) -> Sequence[Resource]:
        return self._resources

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return self._templates

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return _of_version(self._union.tools.get(name), version)

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        return _of_version(self._union.prompts.get(name), version)

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        return _of_version(self._union.resources.get(uri), version)

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        matching = [each for each in self._templates if each.matches(uri) is not None]
        # The one that says most of what it makes: `{+all}` takes no URI that `note://{name}` of another makes.
        return _of_version(
            max(matching, key=lambda each: len(each.uri_template.partition("{")[0]), default=None), version
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """While the server runs, keep calls that wait for their callers' answers, and take long lists in turns."""
        async with self.waiting.running():
            self._renewing = asyncio.create_task(self._renew_in_turns())
            try:
                yield
            finally:
                renewing, self._renewing = self._renewing, None
                renewing.cancel()
                await asyncio.wait([renewing])

    async def complete(
        self,
        reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        given: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion:
        """Complete an argument of a prompt or template, by its upstream: a completion handler of the server.

        Whether the caller may use the prompt or template was asked before.
        """
        component: UpstreamPrompt | UpstreamTemplate | None
        if isinstance(reference, mcp_types.PromptReference):
            component = self._union.prompts.get(reference.name)
        else:
            component = self._union.templates.get(reference.uri)
        if component is None:
            return mcp_types.Completion(values=[])
        return await component.caller.complete(component.reference, argument, given)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return none: an upstream runs its own background tasks."""
        return []


def _of_version(component: _C | None, version: VersionSpec | None) -> _C | None:
    return component if component is not None and (version is None or version.matches(component.version)) else None


def _n_listed(upstream: Upstream) -> int:
    shot = upstream.snapshot
    return 0 if shot is None else sum(map(len, (shot.tools, shot.prompts, shot.resources, shot.templates)))
