"""The `logs-agent` MCP server."""

from agent_utilities import create_mcp_server

mcp = create_mcp_server("logs-agent")
main = mcp.cli
