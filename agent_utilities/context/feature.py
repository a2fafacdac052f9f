"""`GET /context`: reports the part of a caller's prompt that the server takes, and its tokens."""

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
from agent_utilities.seam.caller import caller_of
from agent_utilities.seam.components import origin_of
from agent_utilities.seam.feature import Feature, OwnTool
from agent_utilities.seam.host import Pending
from agent_utilities.seam.request import Request, request_in_force, sender_of, serving
from agent_utilities.seam.verdict import UnderVerdict
from agent_utilities.search.feature import n_evicted

PATH = "/context"


class ContextReport(Feature):
    """Reports the part of a caller's prompt that a server takes, on a route behind its auth."""

    name = "context"
    rights = ("context",)

    def routes(self) -> Sequence[BaseRoute]:
        """Return the route, behind the server's auth and under the caller's selection, as `/tools` is."""
        from agent_utilities.seam.panel import guarded  # over stdio there are no routes

        return [guarded(self.host, PATH, self._context)]

    async def _context(self, request: HttpRequest) -> Response:
        """Answer with the report.

        With the header `Mcp-Session-Id` of a live session of the same caller, it covers that session's next list; the
        session is not changed. Another caller's session is answered like an unknown one, unless the reader has the
        right `context`.
        """
        grant = self.host.grant_of(caller_of(request))
        reads_all = grant is not None and "context" in grant.may
        session = next((each for each, _ in self.host.live_sessions(request, of_anyone=reads_all)), None)
        selection = self.host.selection_of(request)
        for pending in self.host.offered(Pending):
            await pending.wait_for_first(selection, "tool", None)
        served = await self.host.request(
            selection,
            session=session.as_it_stands() if session is not None else None,
            caller=sender_of(request),
            is_dry=session is not None,
            outer=request_in_force(),
        )
        report, instructions, undeferred, tools = await self.of(served, n_evicted(session))
        body = {"server": self.host.name, "of_session": session is not None, **report.as_dict()}
        if request.query_params.get("definitions") == "true":
            keys = ("section", "server", "definition")
            definitions = [dict(zip(keys, (*of, for_models(each)), strict=True)) for *of, each in tools]
            body |= {"instructions": instructions, "undeferred_instructions": undeferred, "definitions": definitions}
        return JSONResponse(body)

    async def of(self, request: Request, n_evicted: int = 0) -> tuple[Report, str, str, list[SectionTool]]:
        """Return the report of a request, its instructions with and without deferral, and its tools."""
        tools, decision = await self._section_tools(request)
        as_greeted = request.under(replace(request.verdict, shapes_lists=False))
        instructions = await self._instructions(as_greeted)
        undeferred = await self._instructions(as_greeted.preferring(request.verdict.preferences.undeferred))
        report = context_report(
            tools,
            instructions,
            server=self.host.name,
            max_active=decision.preferences.deferral.max_active if decision.defers else 0,
            n_evicted=n_evicted,
            undeferred_instructions=undeferred,
        )
        return report, instructions, undeferred, tools

    async def _instructions(self, request: Request) -> str:
        with serving(request):
            return await self.host.instructions_for(request) or ""

    async def _section_tools(self, request: Request) -> tuple[list[SectionTool], Decision]:
        """Return the caller's permitted tools, the listed ones first and in order, and the decision on them."""
        host, verdict = self.host, request.verdict
        with serving(request):
            listed = _newest(await host.listed_tools())
        with UnderVerdict(replace(verdict, shapes_lists=False)):
            permitted = _newest(await host.listed_tools())  # through the author's middleware, as what is listed
        decision = verdict.decisions.get((verdict.surface, "tool")) or await host.decide("tool", verdict)
        sections = sections_of(decision)
        # A listed tool that is not in the catalog comes from a feature or the author's middleware, and is not deferred.
        by_default = PINS if decision.defers else LISTED
        shown = frozenset(tool.name for tool in listed)
        tools: list[SectionTool] = []
        async for tool in in_turns([*listed, *(tool for tool in permitted if tool.name not in shown)]):
            section = ENTRY_TOOLS if isinstance(tool, OwnTool) else sections.get(tool.name, by_default)
            definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)
            server = origin_of(tool, host).server.name
            tools.append((section, server or host.name, definition))
        return tools, decision


def _newest(tools: Sequence[Any] | None) -> list[Tool]:
    return dedupe_with_versions(list(tools or ()), lambda tool: tool.name)
