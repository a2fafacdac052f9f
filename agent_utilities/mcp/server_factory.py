"""`create_mcp_server()`: a FastMCP server whose tool surface every launch and every request can cut down."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP


class AgentServer(FastMCP[Any]):
    """A `FastMCP` server with a bounded tool surface."""

    def cli(self) -> None:
        """Run the server's command line."""
        self.run(show_banner=False)


def create_mcp_server(name: str, instructions: str | None = None, **options: Any) -> AgentServer:
    """Return a FastMCP server whose tool surface can be bounded per launch and per request."""
    return AgentServer(name, instructions, **options)
