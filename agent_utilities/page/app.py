"""The report of a caller's context as an MCP app: a tool for hosts that show apps, where the operator enables it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from fastmcp.apps import UI_EXTENSION_ID, UI_MIME_TYPE
from fastmcp.resources import TextResource
from fastmcp.server.context import Context
from fastmcp.server.providers import Provider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import AnyUrl

from agent_utilities.context.feature import ContextReport
from agent_utilities.policy.decision import Decision
from agent_utilities.seam.feature import Feature, OwnTool
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.request import Request

NAME = "show_context"
URI = "ui://agent-utilities/context"
_ABOUT = "Show the user what of this server is in your prompt, and what it costs."


class ContextApp(Feature):
    """Adds one tool for clients that show apps; other clients are not listed it, since it costs tokens."""

    name = "context_app"

    def attach(self, host: Host) -> None:
        super().attach(host)
        text = Path(__file__).with_name("static").joinpath("app.html").read_text(encoding="utf-8")
        own = LocalProvider()
        own.add_resource(TextResource(uri=AnyUrl(URI), name="context", mime_type=UI_MIME_TYPE, text=text))
        host.offer(Provider, lambda: own)

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        return [self._tool(request)] if await self._shows_apps() else []

    async def tool(self, name: str, request: Request) -> Tool | None:
        return self._tool(request) if name == NAME and await self._shows_apps() else None

    def _tool(self, request: Request) -> Tool:
        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            feature = find(self.host, ContextReport)
            session = request.session.as_it_stands() if request.session is not None else None
            dry = await self.host.request(request.selection, session=session, caller=request.caller, is_dry=True)
            if feature is None:
                return ToolResult(content="this server has no context report")
            report, _, _, _ = await feature.of(dry)
            text = f"{report.line}; {report.total:,} tokens on every turn, counted by {report.tokenizer}"
            return ToolResult(content=text, structured_content=report.as_dict())

        return OwnTool(
            name=NAME,
            description=_ABOUT,
            parameters={"type": "object", "properties": {}},
            annotations=ToolAnnotations(read_only_hint=True),
            meta={"ui": {"resourceUri": URI}},
            answer=answer,
            purpose="by which apps show what is in the prompt",
        )

    async def _shows_apps(self) -> bool:
        """Whether the present client declares that it shows apps; there is no client on a route, or in a report."""
        async with Context(cast(Any, self.host)) as context:
            return context.client_supports_extension(UI_EXTENSION_ID)
