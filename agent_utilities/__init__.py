"""Build MCP servers whose tool surface is small, right and bounded."""

from agent_utilities.mcp.server_factory import create_mcp_server

__all__ = ["create_mcp_server"]
