"""Tool search on one server: what is deferred for a caller, and the tools by which he gets at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cachetools import LRUCache
from fastmcp.tools.base import Tool, ToolResult

from agent_utilities.activation.active import is_new_turn
from agent_utilities.catalog.document import ToolServer
from agent_utilities.catalog.entry_names import ALIASES, EntryNames, entry_names
from agent_utilities.catalog.model import entry
from agent_utilities.catalog.topics import DeferredTool, deferred_text_steps
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.surface.surface import CALL_TOOL
from agent_utilities.mcp.surface.verdict import Verdict, verdict_in_force
from agent_utilities.mcp.tool_origin import ToolOrigin
from agent_utilities.mcp.tool_search.base import SearchHost
from agent_utilities.mcp.tool_search.calls import Call, unwrapped, with_schema
from agent_utilities.mcp.tool_search.entry_tools import call_tool, search_tool
from agent_utilities.mcp.tool_search.permitted import Permitted, permitted_by, permitted_of
from agent_utilities.mcp.tool_search.search import Searches
from agent_utilities.mcp.tool_search.turns import Turns
from agent_utilities.runtime.turns import finish_in_turns
from agent_utilities.selection.model import NameSet
from agent_utilities.visibility.decision import Decision

_N_TEXTS = 64
_TextKey = tuple[str, NameSet, int | None, frozenset[str], str]
"""Digest of what is permitted, pins and how many of them a list has room for, what is not listed, and a name."""
_ALIASES = tuple(entry("tool", alias, read_only=True) for alias in ALIASES)
"""As bounds judge them: a deny by name holds on them too."""


class ToolSearch:
    """Defers tools where that is asked for, and brings them back.

    Args:
        host: the server.
    """

    def __init__(self, host: SearchHost) -> None:
        self._host = host
        self._turns = Turns(host)
        self._searches = Searches(host, self._turns)
        self._texts: LRUCache[_TextKey, str] = LRUCache(_N_TEXTS)

    @staticmethod
    def may_defer(verdict: Verdict) -> bool:
        """Whether any of this concerns a request."""
        return verdict.preferences.deferral.over is not None

    async def prepared(self, verdict: Verdict, view: SessionView | None) -> Verdict:
        """Return a verdict that knows what is active; see `Turns.prepared`."""
        return await self._turns.prepared(verdict, view)

    @staticmethod
    def opens_turn(verdict: Verdict) -> bool:
        """Whether the words of a session's request are not those of its last turn, and may still add to its set."""
        preferences, view = verdict.preferences, verdict.view
        can_be_answered = not verdict.shapes_lists or preferences.resolution.status != "off"
        is_new = view is not None and is_new_turn(view.session.active, preferences.query, preferences.deferral)
        return is_new and can_be_answered

    async def turn_later(self, verdict: Verdict) -> None:
        """Count the words of a request that lists nothing as a turn; see `Turns.turn_later`."""
        await self._turns.turn_later(verdict)

    # -- what is told ------------------------------------------------------------------------------------------------

    async def text(self, verdict: Verdict) -> str | None:
        """Return what a caller is told of what is deferred for him; None where nothing is."""
        permitted = await permitted_of(self._host, verdict)
        return await self._text(permitted, self._names(permitted, verdict)) if permitted.defers else None

    async def _text(self, permitted: Permitted, names: EntryNames) -> str:
        """Return the text for a caller: of all that may be deferred, so that it stays while tools are activated."""
        preferences = permitted.preferences
        pins = preferences.pins, preferences.deferral.max_tools
        key = permitted.decision.permitted_digest, *pins, permitted.unlisted, names.search
        if (text := self._texts.get(key)) is None:
            components = self._host.surface.components_of("tool", permitted.decision.catalog)
            n_deferred = len(permitted.not_pinned)
            steps = deferred_text_steps(self._deferred(permitted, components), n_deferred, search=names.search)
            text = await finish_in_turns(steps)
            if components:  # without them their servers are not known
                self._texts[key] = text
        return text

    def _deferred(self, permitted: Permitted, components: Sequence[Any]) -> list[DeferredTool]:
        decision = permitted.decision
        deferred: dict[str, DeferredTool] = {}
        for i in decision.permitted:
            if (entry := decision.catalog.entries[i]).name in permitted.not_pinned:
                origin = self._host.origin_of(components[i]) if components else ToolOrigin(ToolServer())
                tags = tuple(sorted(entry.tags))
                deferred[entry.name] = DeferredTool(entry.name, origin.server.name, tags, origin.own_name)
        return list(deferred.values())

    # -- entry tools ---------------------------------------------------------------------------------------------------

    async def entry_tools(self, decision: Decision, verdict: Verdict) -> list[Tool]:
        """Return the entry tools of a list; none where nothing is deferred.

        Args:
            decision: what the list was made by.
            verdict: the verdict it was made under.
        """
        if not decision.defers:
            return []
        permitted = await permitted_by(self._host, verdict, decision)  # tools may have come since it was prepared
        if not permitted.names - decision.visible_names:
            return []
        names = self._names(permitted, verdict)
        search = search_tool(names, await self._text(permitted, names), self._answer)
        entry_tools = [search, *([call_tool(names)] if names.call is not None else [])]
        return entry_tools[: verdict.preferences.deferral.max_tools]

    async def entry_tool(self, name: str) -> Tool | None:
        """Return the entry tool that a call under the verdict in force names, or None."""
        verdict = verdict_in_force()
        if verdict is None or verdict.surface is not self._host.surface or not self.may_defer(verdict):
            return None
        permitted = await permitted_of(self._host, verdict)
        if not permitted.may_defer:
            return None
        names = self._names(permitted, verdict)
        match names.role(name):
            case "search":
                return search_tool(replace(names, search=name), "", self._answer)
            case "call":
                return call_tool(names)
        return None

    def _names(self, permitted: Permitted, verdict: Verdict) -> EntryNames:
        by_caller = verdict.effective.is_searched_by_caller(self._host.surface.operator.defers_by_default)
        can_call = verdict.bounds.permits_entry_tool(CALL_TOOL, by_caller=by_caller)
        denied = [alias.name for alias in _ALIASES if not verdict.bounds.permits_entry_tool(alias, by_caller=by_caller)]
        return entry_names(permitted.decision.permitted_names, can_call=can_call, denied=denied)

    async def _answer(self, arguments: Mapping[str, Any]) -> ToolResult:
        verdict = verdict_in_force()
        assert verdict is not None  # `entry_tool` found the tool by it
        names = self._names(await permitted_of(self._host, verdict), verdict)
        return await self._searches.answer(arguments, verdict, names)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def called(self, params: Mapping[str, Any], verdict: Verdict) -> Call:
        """Return the call that a request makes; a deferred tool that it calls is activated.

        Args:
            params: the request's.
            verdict: a prepared one.
        """
        permitted = await permitted_of(self._host, verdict)
        if not permitted.may_defer:
            return Call(params)
        call = unwrapped(params, self._names(permitted, verdict))
        await self._turns.used(verdict, call.name)
        return call

    async def explained(self, call: Call, result: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
        """Return the result of a failed call by `call_tool`, with the tool's schema where its arguments are wrong."""
        tool = await self._host.get_tool(call.name)
        permitted = await permitted_of(self._host, verdict)
        if tool is None or call.name in permitted.unlisted:
            return result
        return with_schema(result, tool, call.params.get("arguments") or {})
