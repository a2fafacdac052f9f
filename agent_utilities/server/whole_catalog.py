"""The one door to all tools of a server, past every bound: for what ranks them, and nothing that a caller is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastmcp import FastMCP
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog
from agent_utilities.compat.fastmcp_server import as_over_stdio

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer


async def everything(server: AgentServer) -> tuple[Sequence[Tool], Catalog]:
    """Return every tool, whoever may use it, as FastMCP lists them: it must not count as listed to a caller."""
    verdict = server.surface.unbounded()
    with server.surface.under_verdict(verdict), as_over_stdio():
        tools = await FastMCP.list_tools(server, run_middleware=False)
    return tools, verdict.decisions[server.surface, "tool"].catalog


async def everybodys(server: AgentServer) -> Sequence[Tool]:
    """Return every tool that a caller without a token is admitted to by the tool's own check."""
    with server.surface.under_verdict(server.surface.unbounded()):
        return await FastMCP.list_tools(server, run_middleware=False)


async def admitted(server: AgentServer) -> Sequence[Tool]:
    """Return every tool that the present caller is admitted to by the tool's own check."""
    with server.surface.under_verdict(server.surface.unbounded()):
        return [tool for tool in await server.components("tool") if isinstance(tool, Tool)]
