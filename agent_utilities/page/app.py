"""The caller's own context as an MCP app: a tool that hosts which show apps draw, where the operator wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastmcp.apps import UI_EXTENSION_ID, UI_MIME_TYPE
from fastmcp.resources import TextResource
from fastmcp.server.context import Context
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import AnyUrl

from agent_utilities.context.feature import ContextReport
from agent_utilities.policy.decision import Decision
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server.feature import Feature, OwnTool
from agent_utilities.server.request import Request

NAME = "show_context"
URI = "ui://agent-utilities/context"
_ABOUT = "Show the user what of this server is in your prompt, and what it costs."


class ContextApp(Feature):
    """Adds one tool, listed for clients alone that show apps: it costs tokens as every tool does."""

    name = "context_app"

    def attach(self, host: AgentServer) -> None:
        super().attach(host)
        text = Path(__file__).with_name("static").joinpath("app.html").read_text(encoding="utf-8")
        host.add_resource(TextResource(uri=AnyUrl(URI), name="context", mime_type=UI_MIME_TYPE, text=text))

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        return [self._tool(request)] if await self._shows_apps() else []

    async def tool(self, name: str, request: Request) -> Tool | None:
        return self._tool(request) if name == NAME and await self._shows_apps() else None

    def _tool(self, request: Request) -> Tool:
        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            feature = self.host.feature(ContextReport)
            session = request.session.as_it_stands() if request.session is not None else None
            asked = await self.host.request(request.selection, session=session, caller=request.caller, is_dry=True)
            if feature is None:
                return ToolResult(content="this server has no context report")
            report, _, _, _ = await feature.of(asked)
            told = f"{report.line}; {report.total:,} tokens on every turn, counted by {report.tokenizer}"
            return ToolResult(content=told, structured_content=report.as_dict())

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
        """Whether the present client says that it does; nobody does on a route, or in a report."""
        async with Context(self.host) as context:
            return context.client_supports_extension(UI_EXTENSION_ID)
