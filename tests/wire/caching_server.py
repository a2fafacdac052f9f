"""A server whose author added FastMCP's response cache."""

from __future__ import annotations

from fastmcp.server.middleware.caching import ResponseCachingMiddleware

from agent_utilities import create_mcp_server

mcp = create_mcp_server("caching", middleware=[ResponseCachingMiddleware()])


@mcp.tool
def first() -> str:
    return "first"


@mcp.tool
def second() -> str:
    return "second"


@mcp.tool(tags={"delete"})
def third() -> str:
    return "third"


@mcp.prompt
def ask() -> str:
    return "ask"


@mcp.resource("note://open")
def note() -> str:
    return "open"


if __name__ == "__main__":
    mcp.cli()
