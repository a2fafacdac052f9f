"""The `filesystem-agent` MCP server."""

from agent_utilities import create_mcp_server

mcp = create_mcp_server("filesystem-agent")
main = mcp.cli
