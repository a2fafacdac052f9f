"""The `filesystem-agent` MCP server."""

from agent_utilities import create_mcp_server
from filesystem_agent.registration import register
from filesystem_agent.workspace import Workspace

mcp = create_mcp_server(
    "filesystem-agent",
    instructions="View, search, edit and arrange files inside the allowed directories. "
    "Paths are relative to the first of them, or absolute.",
)
register(mcp, Workspace())
