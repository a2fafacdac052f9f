"""A server whose callers switch capabilities on and off: by name, by their words, or by the `capability` tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastmcp.tools.base import Tool
from mcp.server.connection import Connection

from agent_utilities.mcp.capabilities.answers import CapabilityAnswers
from agent_utilities.mcp.capabilities.capability_tool import AS_JUDGED, CAPABILITY, CapabilityTool, capability_tool
from agent_utilities.mcp.capabilities.skills import skill_capabilities
from agent_utilities.mcp.observers.base import CapabilitiesSwitched
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.server import AgentServer
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.mcp.surface.verdict import Verdict, verdict_in_force
from agent_utilities.mcp.taken_capabilities import with_capabilities
from agent_utilities.selection.model import Selection

if TYPE_CHECKING:
    from agent_utilities.mcp.capabilities.gateway_capabilities import GatewayCapabilities
    from agent_utilities.mcp.capabilities.server_capabilities import ServerCapabilities


class CapableServer(AgentServer):
    """An `AgentServer` that may have capabilities; without them it is like any other.

    Args:
        arguments, options: as for `AgentServer`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.gateway_capabilities: GatewayCapabilities | None = None
        super().__init__(*arguments, **options)

    def have(self, capabilities: GatewayCapabilities) -> None:
        """Have capabilities; called before anything is served."""
        self.gateway_capabilities = capabilities
        self._answers = CapabilityAnswers(capabilities, capabilities.capabilities)
        self.surface.offer(frozenset(capabilities.capabilities.offer.fixed))

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What there is, who has what on, and what runs for it; None where there are none."""
        return None if self.gateway_capabilities is None else self.gateway_capabilities.capabilities

    async def verdict(
        self, caller: Selection, *, lists_tools: bool, view: SessionView | None = None, is_about_tools: bool = True
    ) -> Verdict:
        """Return the verdict for one request, once what its words call for is switched on; see `ResolvingServer`."""
        if self.capabilities is None:
            return await super().verdict(caller, lists_tools=lists_tools, view=view, is_about_tools=is_about_tools)
        taken = await self.capabilities.taken(caller, view, routes=is_about_tools)
        if taken.added and self.gateway_capabilities is not None:
            self.changes.beside.start(self.gateway_capabilities.tell_missing(taken.added))
        verdict = await super().verdict(taken.caller, lists_tools=lists_tools, view=view, is_about_tools=is_about_tools)
        preferences = replace(verdict.preferences, called_for=taken.called_for)
        return replace(verdict, capabilities=taken, preferences=preferences)

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """Return the visible tools, before them the tool that switches capabilities, where there are any."""
        listed = await super().list_tools(run_middleware=run_middleware)
        verdict = verdict_in_force()
        if verdict is None or not verdict.shapes_lists or (tool := self._capability_tool(verdict)) is None:
            return listed
        return listed if any(each.name == tool.name for each in listed) else [tool, *listed]

    async def entry_tool(self, name: str) -> Tool | None:
        """Return the tool of a name by which the present caller gets at others, or None."""
        verdict = verdict_in_force()
        if name == CAPABILITY and verdict is not None and (tool := self._capability_tool(verdict)) is not None:
            return tool
        return await super().entry_tool(name)

    def _capability_tool(self, verdict: Verdict) -> CapabilityTool | None:
        if self.capabilities is None or verdict.surface is not self.surface or verdict.capabilities is None:
            return None
        usable = verdict.capabilities.usable
        if not usable or not verdict.bounds.permits_entry_tool(AS_JUDGED, by_caller=False):
            return None
        return capability_tool(self.capabilities.offer.capabilities, usable, self._answers.answer)

    def told_of_capabilities(self) -> Sequence[str]:
        """Return what is said of capabilities at the start; nothing where there are none."""
        if self.capabilities is None:
            return []
        counts = self.capabilities.health()
        parts = [f"{counts['known']} capabilities"]
        if fixed := self.capabilities.offer.fixed:
            parts.append(f"{', '.join(fixed)} on for everybody")
        if n_unavailable := counts["unavailable"]:
            parts.append(f"{n_unavailable} can't be switched on")
        if not self.capabilities.offer.routes:
            parts.append("words switch none on")
        return [", ".join(parts)]

    def health(self) -> dict[str, Any]:
        """Return the server's health, and under `capabilities` how many there are, are on, and for how many."""
        health = super().health()
        if self.capabilities is None:
            return health
        counts = self.capabilities.health()
        # Anybody may read it: what others have on is for `/metrics`.
        return {**health, "capabilities": {name: counts[name] for name in ("known", "unavailable")}}

    async def follow_capabilities(self) -> None:
        """Have words routed, installers run where they are allowed, and files followed, until cancelled."""
        if self.gateway_capabilities is None:
            return
        self.gateway_capabilities.have_routed()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.gateway_capabilities.toolchains.run())
            group.create_task(self.gateway_capabilities.follow())
            group.create_task(self.gateway_capabilities.end_leases())

    async def after(self, method: str, params: Mapping[str, Any], result: Any, verdict: Verdict) -> Any:
        """Return the result of a request that lists nothing; a skill that was read switches on what it names."""
        taken = verdict.capabilities
        if self.capabilities is None or taken is None or not isinstance(result, dict):
            return result
        change = self.capabilities.switched_on(taken, await skill_capabilities(self, method, params, result))
        if change.active == taken.present and not change.added:
            return result
        taken = await self.capabilities.changed(taken, change)
        self.surface.observers.switched(CapabilitiesSwitched("skill", change.added, change.removed))
        if self.gateway_capabilities is not None:
            self.changes.beside.start(self.gateway_capabilities.tell_missing(change.added))
        if taken.view is not None and change.added and self.gateway_capabilities is not None:
            taken.view.note((await self.gateway_capabilities.count_for(verdict, taken))[0])
            await taken.view.tell_changed()
        return with_capabilities(result, taken)

    def session_began(self, connection: Connection, capabilities: SessionCapabilities) -> None:
        """Have what a session has on stop with it, where nobody else has it on."""
        if self.capabilities is not None:
            connection.exit_stack.callback(self._session_ended, capabilities)

    def _session_ended(self, session: SessionCapabilities) -> None:
        if self.capabilities is not None:
            self.capabilities.ended(session)
            self.changes.beside.start(self.capabilities.settle())
