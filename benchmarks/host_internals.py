"""The private names of FastMCP that benchmarks use, each with why; the only file of theirs that may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmcp.tools.base import Tool


def low_level(server: Any) -> Any:
    """Return the SDK's server in a FastMCP server: requests are handed to it as its HTTP transport would."""
    return server._mcp_server


def put(server: Any, tool: Tool) -> None:
    """Add a tool, or put it in the place of another of its name.

    It goes where `add_tool` puts it; that compares each with all before it, a minute for 10,000.
    """
    server.local_provider._components[tool.key] = tool


async def search(transform: Any, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
    """Search by FastMCP's BM25, without the tool call around it."""
    result: Sequence[Tool] = await transform._search(tools, query)
    return result
