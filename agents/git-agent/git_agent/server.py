"""The `git-agent` MCP server."""

from agent_utilities import create_mcp_server

mcp = create_mcp_server("git-agent")
main = mcp.cli
