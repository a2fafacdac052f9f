"""The `logs-agent` MCP server."""

from agent_utilities import create_mcp_server
from logs_agent.surface import TOOLS

mcp = create_mcp_server(
    "logs-agent",
    instructions="Logs analysis: search, errors, levels, slow requests, changes over time; rotation.",
    mask_error_details=True,
)
for tool in TOOLS:
    mcp.tool(tool.fn, tags=set(tool.tags), annotations=tool.annotations)
main = mcp.cli
