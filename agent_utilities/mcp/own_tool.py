"""Tools of a feature's own: the server's way to others, or of switching something; in no catalog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastmcp.tools.base import Tool, ToolResult
from pydantic import Field

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""`_meta` by which Claude Code keeps a tool out of its own tool search: it would hide the way to the others."""

Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class OwnTool(Tool):
    """A tool of a feature's own, made for one caller; bounds judge it by its name alone."""

    answer: Answer = Field(exclude=True)
    """What it does with its arguments."""
    purpose: str = Field(default="", exclude=True)
    """What it is for, as an operator's listing says it."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call."""
        return await self.answer(arguments)
