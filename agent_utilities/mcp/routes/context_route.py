"""`GET /context`: what of the server is in this caller's prompt, and what it costs there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_utilities.catalog.context import ENTRY_TOOLS, LISTED, PINS, SectionTool, context_report
from agent_utilities.mcp.host import Host
from agent_utilities.mcp.live_sessions import LiveSessions
from agent_utilities.mcp.routes.json_routes import guarded
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.surface.verdict import CollectingDecisions, Verdict
from agent_utilities.mcp.tool_search.entry_tools import EntryTool
from agent_utilities.mcp.wire.request import selection_of
from agent_utilities.runtime.turns import in_turns
from agent_utilities.visibility.decision import Decision
from agent_utilities.visibility.sections import sections_of

PATH = "/context"
_FOR_MODELS = ("name", "description", "inputSchema")


class ContextHost(Host, Protocol):
    """What the report asks of a server besides."""

    live_sessions: LiveSessions

    async def caller_instructions(self) -> str | None:
        """Return what the present caller is told of the server for models; None where it is what everybody is."""
        ...


def context_route(host: ContextHost, server_of: Callable[[Tool], str]) -> Route:
    """Return the route; behind the server's auth, and under the caller's selection, as `/tools` is.

    With the header `Mcp-Session-Id` of a live session of the same caller, the report is of what that session's next
    list would have; the session stays as it is. Another's session reads like one that never was.

    Args:
        host: the server.
        server_of: returns the name of the server that a tool is from.
    """

    async def context(request: Request) -> Response:
        session = host.live_sessions.of(request)
        view = _as_it_stands(session) if session is not None else None
        selection = selection_of(request)
        await host.wait_for_first(selection, "tool")
        verdict = await host.verdict(selection, lists_tools=True, view=view)
        tools, decision = await _section_tools(host, verdict, server_of)
        as_greeted = replace(verdict, shapes_lists=False)
        told = await _instructions(host, as_greeted)
        plainly_told = await _instructions(host, replace(as_greeted, preferences=verdict.preferences.undeferred))
        report = context_report(
            tools,
            told,
            server=host.name,
            max_active=decision.preferences.deferral.max_active if decision.defers else 0,
            n_evicted=session.session.n_evicted if session is not None else 0,
            undeferred_instructions=plainly_told,
        )
        body = {"server": host.name, "of_session": session is not None, **report.as_dict()}
        if request.query_params.get("definitions") == "true":
            definitions = [_shown(*tool) for tool in tools]
            body |= {"instructions": told, "undeferred_instructions": plainly_told, "definitions": definitions}
        return JSONResponse(body)

    return guarded(host, PATH, context)


def _as_it_stands(live: SessionView) -> SessionView:
    """Return a view of a session that changes nothing of it."""
    return SessionView(copy(live.session), _tell_nobody, capabilities=live.capabilities.detached())


async def _tell_nobody() -> None:
    """Tell no client of a change: it is the report's own."""


async def _instructions(host: ContextHost, verdict: Verdict) -> str:
    """Return what the caller is told of the server under a verdict."""
    with host.surface.under_verdict(verdict):
        return await host.caller_instructions() or ""


async def _section_tools(
    host: Host, verdict: Verdict, server_of: Callable[[Tool], str]
) -> tuple[list[SectionTool], Decision]:
    """Return all that the caller may use: what he is listed, in its order, and after it what is not visible to him."""
    with host.surface.under_verdict(verdict), CollectingDecisions(verdict) as decisions:
        listed = _newest(await host.list_tools())
    with host.surface.under_verdict(replace(verdict, shapes_lists=False)):
        permitted = _newest(await host.list_tools())  # through the author's middleware, as what is listed
    decision = decisions.get("tool") or await host.surface.decide_in_turns("tool", await host.catalog("tool"), verdict)
    sections = sections_of(decision)
    # What is listed and not the catalog's is added by the server, or by its author's middleware, and never deferred.
    by_default = PINS if decision.defers else LISTED
    shown = frozenset(tool.name for tool in listed)
    tools: list[SectionTool] = []
    async for tool in in_turns([*listed, *(tool for tool in permitted if tool.name not in shown)]):
        section = ENTRY_TOOLS if isinstance(tool, EntryTool) else sections.get(tool.name, by_default)
        definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)
        tools.append((section, server_of(tool) or host.name, definition))
    return tools, decision


def _newest(tools: Sequence[Any]) -> list[Tool]:
    return dedupe_with_versions(list(tools), lambda tool: tool.name)


def _shown(section: str, server: str, definition: Any) -> dict[str, Any]:
    for_models = {key: definition[key] for key in _FOR_MODELS if key in definition}
    return {"section": section, "server": server, "definition": for_models}
