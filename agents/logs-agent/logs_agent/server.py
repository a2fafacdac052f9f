"""The `logs-agent` MCP server."""

from agent_utilities import create_mcp_server
from logs_agent.hints import HINTS
from logs_agent.surface import TOOLS

mcp = create_mcp_server(
    "logs-agent",
    instructions="Logs analysis: search, errors, levels, slow requests, changes over time; rotation.",
    mask_error_details=True,
)
for tool in TOOLS:
    hint = {"anthropic/searchHint": HINTS[tool.fn.__name__]}
    mcp.tool(tool.fn, tags=set(tool.tags), annotations=tool.annotations, meta=hint)
