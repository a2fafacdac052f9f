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
from agent_utilities.features.upstreams.components import OfUpstream, UpstreamTool
from agent_utilities.features.upstreams.union import Denials, Union, union_of
from agent_utilities.features.upstreams.waiting import WaitingCalls
from agent_utilities.mcp.kept_provider import KeptProvider
from agent_utilities.mcp.surface.components import entry_of
from agent_utilities.runtime.waiting import finish_in_turns
from agent_utilities.upstream.operator.lock import Kind
from agent_utilities.upstream.operator.operator_rules import OperatorRules
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.visibility.bounds import Bounds, Steps, finish

logger = logging.getLogger("agent_utilities.gateway")

_C = TypeVar("_C", bound=FastMCPComponent)

_KINDS: dict[Kind, ComponentKind] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "template",
}
_AT_ONCE = 1_000
"""More components than are looked at without a turn for the event loop: 10 ms."""


class UpstreamProvider(KeptProvider):
    """Lists what the upstreams' snapshots have, and calls it where they are.

    Args:
        upstreams: the gateway's upstreams; those that are disabled are passed over.
        denials: tells what the operator denies; what their configurations do by default.
    """

    def __init__(self, upstreams: Iterable[Upstream], denials: Denials | None = None) -> None:
        super().__init__()
        self._upstreams, self._denials = upstreams, denials or OperatorRules().denials
        self.waiting = WaitingCalls()
        """Calls whose callers are asked in results."""
        self._union = Union()
        self._renewing: asyncio.Task[None] | None = None
        self._is_outdated = False
        self._take(finish(self._now()))

    def _now(self) -> Steps[Union]:
        return union_of(list(self._upstreams), self._union, self._denials, self.waiting)

    def renew(self, upstream: str | None = None) -> None:
        """Take what the upstreams list now, and tell of what has changed: what `Upstreams` calls as `on_change`.

        Where they list much, it is taken in turns with the event loop, and listed in a moment (law L7).
        """
        is_renewing = self._renewing is not None
        if is_renewing or (self.waiting.is_running and sum(map(_n_listed, self._upstreams)) > _AT_ONCE):
            self._is_outdated = True
            if not is_renewing:
                self._renewing = asyncio.create_task(self._renew_in_turns())
        else:
            self._take(finish(self._now()))

    async def _renew_in_turns(self) -> None:
        try:
            while self._is_outdated:
                self._is_outdated = False
                try:
                    self._take(await finish_in_turns(self._now()))
                except Exception:
                    logger.exception("what upstreams list could not be taken; what they listed before is still listed")
        finally:
            self._renewing = None

    async def taken(self) -> None:
        """Return once all is listed that upstreams are known to have."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing])

    def _take(self, union: Union) -> None:
        changed = union.changed_lists(self._union)
        self._union = union
        if changed:
            self.notify_changed(changed)

    def _listed(self, kind: Kind) -> Sequence[Any]:
        return tuple(self._union.by_kind[kind].values())

    def prefix_of(self, upstream: str) -> str:
        """Return what the names of an upstream's tools and prompts begin with."""
        return f"{self._union.prefixes.get(upstream, upstream)}_"

    def upstreams_of(self, bounds: Bounds) -> dict[str, int]:
        """Return the names of the upstreams of which bounds permit anything, each with how many of its tools."""
        found: dict[str, int] = {}
        for list_name, kind in _KINDS.items():
            for component in self._listed(list_name):
                name = component.caller.config.name
                if (kind == "tool" or name not in found) and bounds.refusal(entry_of(kind, component)) is None:
                    found[name] = found.get(name, 0) + (kind == "tool")
        return found

    def tools(self) -> Sequence[UpstreamTool]:
        """Return every tool, whoever may use it."""
        return self._listed("tools")

    def tools_of_capabilities(self) -> dict[str, list[UpstreamTool]]:
        """Return the tools of the upstreams that capabilities brought along, by upstream."""
        found: dict[str, list[UpstreamTool]] = {}
        for tool in self.tools():
            if tool.capabilities is not None:
                found.setdefault(tool.caller.config.name, []).append(tool)
        return found

    @property
    def notices(self) -> tuple[str, ...]:
        """A line for each component that bears another name than its own, or is left out."""
        return self._union.notices

    def instructions(self, permitted: Iterable[object]) -> str | None:
        """Return what those upstreams say of themselves of which a caller may use any component."""
        usable = {each.caller.config.name for each in permitted if isinstance(each, OfUpstream)}
        return self._union.instructions(usable)

    async def _list_tools(self) -> Sequence[Tool]:
        return self._listed("tools")

    async def _list_prompts(self) -> Sequence[Prompt]:
        return self._listed("prompts")

    async def _list_resources(self) -> Sequence[Resource]:
        return self._listed("resources")

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return self._listed("templates")

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return _of_version(self._union.by_kind["tools"].get(name), version)

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        return _of_version(self._union.by_kind["prompts"].get(name), version)

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        return _of_version(self._union.by_kind["resources"].get(uri), version)

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        matching = [each for each in self._listed("templates") if each.matches(uri) is not None]
        # The one that says most of what it makes: `{+all}` takes no URI that `note://{name}` of another makes.
        return _of_version(
            max(matching, key=lambda each: len(each.uri_template.partition("{")[0]), default=None), version
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """While the server runs, keep calls that wait for their callers' answers, and take long lists in turns."""
        async with self.waiting.running():
            try:
                yield
            finally:
                if self._renewing is not None:
                    self._renewing.cancel()
                    await asyncio.wait([self._renewing])

    async def complete(
        self,
        reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        given: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion:
        """Complete an argument of a prompt or template, which the caller may use, by its upstream."""
        if isinstance(reference, mcp_types.PromptReference):
            component = self._union.by_kind["prompts"].get(reference.name)
        else:
            component = self._union.by_kind["templates"].get(reference.uri)
        completion = mcp_types.Completion(values=[])
        if component is not None:
            completion = await component.caller.complete(component.reference, argument, given)
        return completion

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return none: an upstream runs its own background tasks."""
        return []


def _of_version(component: _C | None, version: VersionSpec | None) -> _C | None:
    return component if component is not None and (version is None or version.matches(component.version)) else None


def _n_listed(upstream: Upstream) -> int:
    shot = upstream.snapshot
    return 0 if shot is None else sum(len(getattr(shot, kind)) for kind in _KINDS)
