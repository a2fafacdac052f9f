"""`GET /context`: what of the server is in this caller's prompt, and what it costs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from agent_utilities.catalog.context import ENTRY_TOOLS, LISTED, PINS, SectionTool, context_report, for_models
from agent_utilities.catalog.context import ContextReport as Report
from agent_utilities.policy.decision import Decision, sections_of
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.search.feature import n_evicted
from agent_utilities.server.feature import Feature, OwnTool
from agent_utilities.server.request import Request, request_in_force, sender_of, serving
from agent_utilities.server.tool_origin import origin_of

PATH = "/context"


class ContextReport(Feature):
    """Reports what of a server is in a caller's prompt, on a route behind its auth."""

    name = "context"

    def routes(self) -> Sequence[BaseRoute]:
        """Return the route; behind the server's auth, and under the caller's selection, as `/tools` is."""
        from agent_utilities.server.http.json_routes import guarded  # over stdio there are no routes

        return [guarded(self.host, PATH, self._context)]

    async def _context(self, request: HttpRequest) -> Response:
        """Answer with the report.

        With the header `Mcp-Session-Id` of a live session of the same caller, it is of what that session's next list
        would have; the session stays as it is. Another's session reads like one that never was, but to who has the
        right `context`.
        """
        reads_all = self.host.callers.may(request, "context", otherwise=False)
        session = self.host.sessions.named_by(request, of_anyone=reads_all)
        selection = self.host.callers.selection_of(request)
        await self.host.features.wait_for_first(selection, "tool")
        asked = await self.host.request(
            selection,
            session=session.as_it_stands() if session is not None else None,
            caller=sender_of(request),
            is_dry=session is not None,
            outer=request_in_force(),
        )
        report, told, plainly_told, tools = await self.of(asked, n_evicted(session))
        body = {"server": self.host.name, "of_session": session is not None, **report.as_dict()}
        if request.query_params.get("definitions") == "true":
            keys = ("section", "server", "definition")
            definitions = [dict(zip(keys, (*of, for_models(each)), strict=True)) for *of, each in tools]
            body |= {"instructions": told, "undeferred_instructions": plainly_told, "definitions": definitions}
        return JSONResponse(body)

    async def of(self, asked: Request, n_evicted: int = 0) -> tuple[Report, str, str, list[SectionTool]]:
        """Return the report of a request; the server's instructions for it, and without deferral; and its tools."""
        tools, decision = await self._section_tools(asked)
        as_greeted = asked.under(replace(asked.verdict, shapes_lists=False))
        told = await self._instructions(as_greeted)
        plainly_told = await self._instructions(as_greeted.preferring(asked.verdict.preferences.undeferred))
        report = context_report(
            tools,
            told,
            server=self.host.name,
            max_active=decision.preferences.deferral.max_active if decision.defers else 0,
            n_evicted=n_evicted,
            undeferred_instructions=plainly_told,
        )
        return report, told, plainly_told, tools

    async def _instructions(self, request: Request) -> str:
        with serving(request):
            return await self.host.instructions_for(request) or ""

    async def _section_tools(self, request: Request) -> tuple[list[SectionTool], Decision]:
        """Return all that the caller may use: what they are listed, in order, and then what is not visible to them."""
        host, verdict = self.host, request.verdict
        with serving(request):
            listed = _newest(await host.list_tools())
        with host.surface.under_verdict(replace(verdict, shapes_lists=False)):
            permitted = _newest(await host.list_tools())  # through the author's middleware, as what is listed
        decision = verdict.decisions.get((host.surface, "tool")) or await host.surface.decide_in_turns(
            "tool", await host.catalog("tool"), verdict
        )
        sections = sections_of(decision)
        # What is listed and not the catalog's is added by features, or by the author's middleware, and never deferred.
        by_default = PINS if decision.defers else LISTED
        shown = frozenset(tool.name for tool in listed)
        tools: list[SectionTool] = []
        async for tool in in_turns([*listed, *(tool for tool in permitted if tool.name not in shown)]):
            section = ENTRY_TOOLS if isinstance(tool, OwnTool) else sections.get(tool.name, by_default)
            definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)
            server = origin_of(tool, host).server.name
            tools.append((section, server or host.name, definition))
        return tools, decision


def _newest(tools: Sequence[Any]) -> list[Tool]:
    return dedupe_with_versions(list(tools), lambda tool: tool.name)
